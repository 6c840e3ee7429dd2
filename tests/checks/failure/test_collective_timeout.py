from looks import FAILED, died, look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor_checks.failure.collective_timeout import CollectiveTimeout
from gpudoctor_rules.advice import advice

look, remedies = look_of(CollectiveTimeout), remedies_of(advice("failure"))


WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE) ran for 600000 ms"


def test_sick_a_rank_that_stands_elsewhere():
    frames = [["/job/train.py", 77, "evaluate", "dist.barrier()"]]
    odd = died("DistBackendError", WATCHDOG, t=5.2, rank=2, world=3, frames=frames, phase="evaluation")
    ranks = [
        died("DistBackendError", WATCHDOG, rank=0, world=3),
        died("DistBackendError", WATCHDOG, rank=1, world=3),
        odd,
    ]
    [finding] = look(*ranks, end=FAILED)
    assert finding.detail.rank == 2 and "rank 2" in remedies(finding)
    assert (finding.span.path, finding.span.line) == ("train.py", 77)


def test_sick_all_stand_together():
    [finding] = look(*(died("DistBackendError", WATCHDOG, rank=rank, world=3) for rank in range(3)), end=FAILED)
    assert finding.detail.rank == -1 and "all ranks" in remedies(finding)


def test_healthy_ends():
    assert look(make_process()) == []


def test_the_echo_of_an_exception_is_none():
    ranks = [died("ValueError", "no", t=1.0, rank=0, world=2), died("DistBackendError", WATCHDOG, rank=1, world=2)]
    assert look(*ranks, end=FAILED) == []


def test_sick_operations_that_do_not_match():
    cut = died("RuntimeError", "[gloo/transport/tcp/pair.cc:537] Connection reset by peer", rank=1, world=2)
    aborted = record("signal", 4.9, signal="SIGABRT", stack=[])
    steps = make_steps(110)
    [finding] = look(make_process(steps, records=[aborted], clean=False, world=2), cut, end=FAILED)
    assert "different operations" in finding.message and "stood elsewhere" not in finding.message
    assert "the same operations" in remedies(finding) and "timeout" not in remedies(finding).lower().replace(
        "torch_nccl_dump_on_timeout", ""
    )
