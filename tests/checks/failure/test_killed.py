from looks import look_of, remedies_of
from recordings import make_machine, make_process

from gpudoctor.model.signs.recording import RunEnd
from gpudoctor_checks.failure.killed import Killed
from gpudoctor_rules.advice import advice

look, remedies = look_of(Killed), remedies_of(advice("failure"))


def test_sick_killed_for_memory():
    end = RunEnd(exit_code=137, signal="SIGKILL", oom_kills=1, kernel=("oom-kill: Killed process 4711 (python)",))
    [finding] = look(make_process(clean=False), end=end)
    assert finding.detail.memory and "for memory" in finding.message
    assert "workers" in remedies(finding)


def test_sick_memory_at_its_limit():
    machine = make_machine(9, memory=lambda i: (0.6 + 0.05 * i) * (32 << 30))
    [finding] = look(make_process(clean=False), end=RunEnd(exit_code=137), machine=machine)
    assert finding.detail.memory and "32 GiB" in finding.message


def test_sick_from_outside():
    [finding] = look(make_process(clean=False), end=RunEnd(exit_code=143, signal="SIGTERM"))
    assert not finding.detail.memory and "step 200" in finding.message
    assert "sacct" in remedies(finding)


def test_healthy_ends():
    assert look(make_process()) == []
    assert look(make_process(), end=RunEnd(exit_code=143, signal="SIGTERM", stopped_by="seconds")) == []
    assert look(make_process(clean=False), end=RunEnd(exit_code=139, signal="SIGSEGV")) == []
