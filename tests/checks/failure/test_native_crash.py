import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor_checks.failure.native_crash import NativeCrash
from gpudoctor_rules.advice import advice
from gpudoctor_rules.failure import native_crash

look, remedies = look_of(NativeCrash), remedies_of((native_crash, *advice("failure")))


def crashed(**fields):
    """A rank that wrote down the signal it died of."""
    stack = [["/job/train.py", 41, "train"], ["/usr/lib/python3.11/ctypes/__init__.py", 9, "string_at"]]
    return make_process(records=[record("signal", 5.0, signal="SIGSEGV", step=120, phase="other", stack=stack)],
                        clean=False, **fields)  # fmt: skip


def test_sick_a_segmentation_fault():
    end = RunEnd(exit_code=139, signal="SIGSEGV", kernel=("python[4711]: segfault at 0 ip 0 in libc.so.6",))
    [finding] = look(crashed(), end=end)
    assert finding.severity is Severity.ERROR and "step 120" in finding.message
    assert (finding.span.path, finding.span.line) == ("train.py", 41)
    assert "gdb" in remedies(finding)


def test_sick_without_a_stack():
    [finding] = look(make_process(clean=False), end=RunEnd(exit_code=134))
    assert "SIGABRT" in finding.message


def test_sick_by_the_launchers_words():
    words = "rank      : 1 (local_rank: 1)\n  exitcode  : -11 (pid: 77)"
    launcher = make_process(
        make_steps(0), records=[record("exception", 6.0, exception="ChildFailedError", message=words)]
    )
    ranks = [make_process(rank=rank, world=2, clean=False) for rank in (0, 1)]
    [finding] = look(*ranks, end=RunEnd(exit_code=1), launchers=(launcher,))
    assert "SIGSEGV" in finding.message


def test_healthy_ends():
    assert look(make_process()) == []
    assert look(make_process(clean=False), end=RunEnd(exit_code=137, signal="SIGKILL")) == []


@pytest.mark.parametrize(("clean", "on", "profiled"), [(True, True, True), (True, False, False), (False, True, False)])
def test_a_crash_at_the_end_of_a_program_that_left_its_profiler_on_is_the_profilers(clean, on, profiled):
    window = record("window", 6.0, what="torch.profiler", begin=0, end=200, on=on, path="/job/train.py", line=7)
    [finding] = look(make_process(records=[window], clean=clean), end=RunEnd(exit_code=139, signal="SIGSEGV"))
    assert (finding.severity is Severity.WARNING) is profiled
    assert ("torch.profiler was still on" in finding.message) is profiled
    assert ("rebuild the extensions" in remedies(finding)) is not profiled
    assert ("stop the profiler" in remedies(finding)) is profiled
