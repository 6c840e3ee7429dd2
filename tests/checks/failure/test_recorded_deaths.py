"""Deaths that a recording tells."""

import pytest
from looks import FAILED, died, look_of, remedies_of
from recordings import make_machine, make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_host, make_patient
from gpudoctor_checks.failure.bus_error import BusError
from gpudoctor_checks.failure.collective_timeout import CollectiveTimeout
from gpudoctor_checks.failure.device_assert import DeviceAssert
from gpudoctor_checks.failure.killed import Killed
from gpudoctor_checks.failure.native_crash import NativeCrash
from gpudoctor_rules.advice import advice
from gpudoctor_rules.failure import native_crash

remedies = remedies_of((native_crash, *advice("failure")))


def look(check, *ranks, **changes):
    return look_of(check)(*ranks, **changes)


def test_sick_a_small_shared_memory():
    patient = make_patient(
        recording=make_recording(make_process(clean=False), end=RunEnd(exit_code=135, signal="SIGBUS")),
        host=make_host(shm_total=64 << 20),
    )
    [finding] = examine(BusError, patient)
    assert "64 MiB" in finding.message and "--shm-size" in remedies(finding)


def test_sick_by_its_words():
    [finding] = look(
        BusError, died("RuntimeError", "unable to open shared memory object </torch_1> in read-write mode"), end=FAILED
    )
    assert finding.span.line == 41


def test_sick_a_label_out_of_range():
    [finding] = look(DeviceAssert, died("RuntimeError", "CUDA error: device-side assert triggered"), end=FAILED)
    assert finding.severity is Severity.ERROR and finding.span.line == 41
    assert "num_classes" in remedies(finding)


def test_sick_an_illegal_access():
    [finding] = look(
        DeviceAssert, died("AcceleratorError", "CUDA error: an illegal memory access was encountered"), end=FAILED
    )
    assert "compute-sanitizer" in remedies(finding)


def test_sick_killed_for_memory():
    end = RunEnd(exit_code=137, signal="SIGKILL", oom_kills=1, kernel=("oom-kill: Killed process 4711 (python)",))
    [finding] = look(Killed, make_process(clean=False), end=end)
    assert finding.detail.memory and "for memory" in finding.message
    assert "workers" in remedies(finding)


def test_sick_memory_at_its_limit():
    machine = make_machine(9, memory=lambda i: (0.6 + 0.05 * i) * (32 << 30))
    [finding] = look(Killed, make_process(clean=False), end=RunEnd(exit_code=137), machine=machine)
    assert finding.detail.memory and "32 GiB" in finding.message


def test_sick_from_outside():
    [finding] = look(Killed, make_process(clean=False), end=RunEnd(exit_code=143, signal="SIGTERM"))
    assert not finding.detail.memory and "step 200" in finding.message
    assert "sacct" in remedies(finding)


def crashed(**fields):
    """A rank that wrote down the signal it died of."""
    stack = [["/job/train.py", 41, "train"], ["/usr/lib/python3.11/ctypes/__init__.py", 9, "string_at"]]
    return make_process(records=[record("signal", 5.0, signal="SIGSEGV", step=120, phase="other", stack=stack)],
                        clean=False, **fields)  # fmt: skip


def test_sick_a_segmentation_fault():
    end = RunEnd(exit_code=139, signal="SIGSEGV", kernel=("python[4711]: segfault at 0 ip 0 in libc.so.6",))
    [finding] = look(NativeCrash, crashed(), end=end)
    assert finding.severity is Severity.ERROR and "step 120" in finding.message
    assert (finding.span.path, finding.span.line) == ("train.py", 41)
    assert "gdb" in remedies(finding)


def test_sick_without_a_stack():
    [finding] = look(NativeCrash, make_process(clean=False), end=RunEnd(exit_code=134))
    assert "SIGABRT" in finding.message


def test_sick_by_the_launchers_words():
    words = "rank      : 1 (local_rank: 1)\n  exitcode  : -11 (pid: 77)"
    launcher = make_process(
        make_steps(0), records=[record("exception", 6.0, exception="ChildFailedError", message=words)]
    )
    ranks = [make_process(rank=rank, world=2, clean=False) for rank in (0, 1)]
    [finding] = look(NativeCrash, *ranks, end=RunEnd(exit_code=1), launchers=(launcher,))
    assert "SIGSEGV" in finding.message


@pytest.mark.parametrize(("clean", "on", "profiled"), [(True, True, True), (True, False, False), (False, True, False)])
def test_a_crash_at_the_end_of_a_program_that_left_its_profiler_on_is_the_profilers(clean, on, profiled):
    window = record("window", 6.0, what="torch.profiler", begin=0, end=200, on=on, path="/job/train.py", line=7)
    [finding] = look(
        NativeCrash, make_process(records=[window], clean=clean), end=RunEnd(exit_code=139, signal="SIGSEGV")
    )
    assert (finding.severity is Severity.WARNING) is profiled
    assert ("torch.profiler was still on" in finding.message) is profiled
    assert ("rebuild the extensions" in remedies(finding)) is not profiled
    assert ("stop the profiler" in remedies(finding)) is profiled


WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE) ran for 600000 ms"


def test_sick_a_rank_that_stands_elsewhere():
    frames = [["/job/train.py", 77, "evaluate", "dist.barrier()"]]
    odd = died("DistBackendError", WATCHDOG, t=5.2, rank=2, world=3, frames=frames, phase="evaluation")
    ranks = [
        died("DistBackendError", WATCHDOG, rank=0, world=3),
        died("DistBackendError", WATCHDOG, rank=1, world=3),
        odd,
    ]
    [finding] = look(CollectiveTimeout, *ranks, end=FAILED)
    assert finding.detail.rank == 2 and "rank 2" in remedies(finding)
    assert (finding.span.path, finding.span.line) == ("train.py", 77)


def test_sick_all_stand_together():
    [finding] = look(
        CollectiveTimeout, *(died("DistBackendError", WATCHDOG, rank=rank, world=3) for rank in range(3)), end=FAILED
    )
    assert finding.detail.rank == -1 and "all ranks" in remedies(finding)


def test_the_echo_of_an_exception_is_none():
    ranks = [died("ValueError", "no", t=1.0, rank=0, world=2), died("DistBackendError", WATCHDOG, rank=1, world=2)]
    assert look(CollectiveTimeout, *ranks, end=FAILED) == []


def test_sick_operations_that_do_not_match():
    cut = died("RuntimeError", "[gloo/transport/tcp/pair.cc:537] Connection reset by peer", rank=1, world=2)
    aborted = record("signal", 4.9, signal="SIGABRT", stack=[])
    steps = make_steps(110)
    [finding] = look(CollectiveTimeout, make_process(steps, records=[aborted], clean=False, world=2), cut, end=FAILED)
    assert "different operations" in finding.message and "stood elsewhere" not in finding.message
    assert "the same operations" in remedies(finding) and "timeout" not in remedies(finding).lower().replace(
        "torch_nccl_dump_on_timeout", ""
    )


GONE = make_process(clean=False)


@pytest.mark.parametrize("check", [BusError, CollectiveTimeout, DeviceAssert, Killed, NativeCrash])
def test_healthy_ends_and_the_deaths_of_others(check):
    assert look(check, make_process()) == []
    assert look(check, make_process(), end=RunEnd(exit_code=143, signal="SIGTERM", stopped_by="seconds")) == []
    assert look(check, died("RuntimeError", "CUDA out of memory"), end=FAILED) == []
    assert (look(check, GONE, end=RunEnd(exit_code=139, signal="SIGSEGV")) != []) is (check is NativeCrash)
    assert (look(check, GONE, end=RunEnd(exit_code=137, signal="SIGKILL")) != []) is (check is Killed)
