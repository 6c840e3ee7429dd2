from looks import look_of, remedies_of
from recordings import make_process, record

from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor_checks.data.loader_dead import LoaderDead
from gpudoctor_rules.advice import advice

look = look_of(LoaderDead)
remedies = remedies_of(advice("data"))
FRAMES = [["/job/train.py", 30, "<module>", "for x, y in loader:"]]
WORDS = "DataLoader worker (pid(s) 4711) exited unexpectedly"


def test_sick_a_worker_that_exits():
    died = record("exception", 5.0, exception="RuntimeError", message=WORDS, frames=FRAMES, user=0, step=14,
                  phase="data_wait", oom=None)  # fmt: skip
    [finding] = look(make_process(records=[died], clean=False), end=RunEnd(exit_code=1))
    assert finding.severity is Severity.ERROR and "exited unexpectedly" in finding.message
    assert (finding.span.path, finding.span.line) == ("train.py", 30)
    assert "num_workers=0" in remedies(finding)


def test_sick_a_wait_that_does_not_end():
    beat = record("heartbeat", 200.0, step=200, phase="data_wait", seconds=150.0, stack=[["/job/train.py", 30, "f"]])
    [finding] = look(make_process(records=[beat]), end=RunEnd(exit_code=130, stopped_by="interrupt"))
    assert "2m30s" in finding.message and "timeout" in remedies(finding)


def test_healthy_waits():
    assert look(make_process()) == []
    early = record("heartbeat", 2.0, step=3, phase="data_wait", seconds=80.0, stack=[])  # it went on
    assert look(make_process(records=[early])) == []
    value = record("exception", 5.0, exception="ValueError", message="no", frames=FRAMES, user=0, step=1)
    assert look(make_process(records=[value], clean=False), end=RunEnd(exit_code=1)) == []
