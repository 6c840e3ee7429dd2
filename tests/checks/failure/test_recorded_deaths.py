"""Deaths that a recording tells."""

import pytest
from looks import FAILED, died, look, remedies
from recordings import make_machine, make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_host, make_patient
from gpudoctor_checks.failure.bus_error import BusError
from gpudoctor_checks.failure.collective_timeout import CollectiveTimeout
from gpudoctor_checks.failure.device_assert import DeviceAssert
from gpudoctor_checks.failure.killed import Killed
from gpudoctor_checks.failure.native_crash import NativeCrash

GONE = make_process(clean=False)
SEGMENTATION = RunEnd(exit_code=139, signal="SIGSEGV")
FOR_MEMORY = RunEnd(exit_code=137, signal="SIGKILL", oom_kills=1, kernel=("oom-kill: Killed process 4711 (python)",))
FULL = make_machine(9, memory=lambda i: (0.6 + 0.05 * i) * (32 << 30))
STACK = [["/job/train.py", 41, "train"], ["/usr/lib/python3.11/ctypes/__init__.py", 9, "string_at"]]
WROTE = record("signal", 5.0, signal="SIGSEGV", step=120, phase="other", stack=STACK)


@pytest.mark.parametrize(
    ("check", "rank", "changes", "words", "cure"),
    [
        (BusError, died("RuntimeError", "unable to open shared memory object </torch_1> in read-write mode"), {"end": FAILED}, "", ""),
        (DeviceAssert, died("RuntimeError", "CUDA error: device-side assert triggered"), {"end": FAILED}, "", "num_classes"),
        (DeviceAssert, died("AcceleratorError", "CUDA error: an illegal memory access was encountered"), {"end": FAILED}, "", "compute-sanitizer"),
        (Killed, GONE, {"end": FOR_MEMORY}, "for memory", "workers"),
        (Killed, GONE, {"end": RunEnd(exit_code=137), "machine": FULL}, "32 GiB", ""),
        (Killed, GONE, {"end": RunEnd(exit_code=143, signal="SIGTERM")}, "step 200", "sacct"),
        (NativeCrash, make_process(records=[WROTE], clean=False), {"end": SEGMENTATION}, "step 120", "gdb"),
        (NativeCrash, GONE, {"end": RunEnd(exit_code=134)}, "SIGABRT", ""),
    ],
)  # fmt: skip
def test_sick_deaths_of_one_rank(check, rank, changes, words, cure):
    [finding] = look(check, rank, **changes)
    assert finding.severity is Severity.ERROR and words in finding.message and cure in remedies(finding)
    assert (finding.span and (finding.span.path, finding.span.line)) == (None if rank is GONE else ("train.py", 41))
    if check is Killed:
        assert finding.detail.memory == (changes["end"].exit_code == 137)


def test_sick_a_small_shared_memory():
    patient = make_patient(
        recording=make_recording(GONE, end=RunEnd(exit_code=135, signal="SIGBUS")), host=make_host(shm_total=64 << 20)
    )
    [finding] = examine(BusError, patient)
    assert "64 MiB" in finding.message and "--shm-size" in remedies(finding)


def test_sick_by_the_launchers_words():
    words = "rank      : 1 (local_rank: 1)\n  exitcode  : -11 (pid: 77)"
    told = record("exception", 6.0, exception="ChildFailedError", message=words)
    ranks = [make_process(rank=rank, world=2, clean=False) for rank in (0, 1)]
    [finding] = look(NativeCrash, *ranks, end=FAILED, launchers=(make_process(make_steps(0), records=[told]),))
    assert "SIGSEGV" in finding.message


WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE) ran for 600000 ms"


EVALUATES = {"frames": [["/job/train.py", 77, "evaluate", "dist.barrier()"]], "phase": "evaluation"}


@pytest.mark.parametrize(("last", "odd"), [({"t": 5.2, **EVALUATES}, 2), ({}, -1)])
def test_sick_ranks_that_stand_together_or_one_elsewhere(last, odd):
    ranks = [died("DistBackendError", WATCHDOG, rank=rank, world=3, **(last if rank == 2 else {})) for rank in range(3)]
    [finding] = look(CollectiveTimeout, *ranks, end=FAILED)
    assert finding.detail.rank == odd and "all ranks" in remedies(finding)
    assert (finding.span.path, finding.span.line) == ("train.py", 41 if odd < 0 else 77)


def test_sick_operations_that_do_not_match():
    cut = died("RuntimeError", "[gloo/transport/tcp/pair.cc:537] Connection reset by peer", rank=1, world=2)
    aborted = record("signal", 4.9, signal="SIGABRT", stack=[])
    steps = make_steps(110)
    [finding] = look(CollectiveTimeout, make_process(steps, records=[aborted], clean=False, world=2), cut, end=FAILED)
    assert "different operations" in finding.message and "stood elsewhere" not in finding.message
    assert "the same operations" in remedies(finding) and "timeout" not in remedies(finding).lower().replace(
        "torch_nccl_dump_on_timeout", ""
    )


@pytest.mark.parametrize("check", [BusError, CollectiveTimeout, DeviceAssert, Killed, NativeCrash])
def test_healthy_ends_and_the_deaths_of_others(check):
    assert look(check, make_process()) == []
    assert look(check, make_process(), end=RunEnd(exit_code=143, signal="SIGTERM", stopped_by="seconds")) == []
    assert look(check, died("RuntimeError", "CUDA out of memory"), end=FAILED) == []
    assert (look(check, GONE, end=SEGMENTATION) != []) is (check is NativeCrash)
    assert (look(check, GONE, end=RunEnd(exit_code=137, signal="SIGKILL")) != []) is (check is Killed)
