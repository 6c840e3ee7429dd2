"""Ranks side by side: the straggler and what it does, silence on noise."""

import pytest
from recordings import make_process, make_recording, make_steps

from gpudoctor.analysis.run.aligned_ranks import aligned, straggler


def job(*columns, steps=200, noise=0.05):
    """Ranks with these columns."""
    return make_recording(
        *(
            make_process(make_steps(steps, seed=rank, noise=noise, **given), rank=rank, world=len(columns))
            for rank, given in enumerate(columns)
        )
    )


def test_a_slow_rank_is_found_with_its_phase():
    found = straggler(job({"backward": 0.011}, {"data_wait": 0.0062}, {"backward": 0.011}, {"backward": 0.011}))
    assert found.rank == 1
    assert next(iter(found.parts)) == "data_wait"
    assert found.seconds == pytest.approx(0.006, rel=0.1)
    assert found.share == pytest.approx(0.006 / 0.016, rel=0.15)


def test_equal_ranks_have_no_straggler():
    assert straggler(job({}, {}, {}, {}, noise=0.3)) is None


def test_ranks_that_are_late_in_turn_have_no_straggler():
    late = [{"data_wait": lambda i, r=r: 0.008 if i % 4 == r else 0.0002} for r in range(4)]
    assert straggler(job(*late)) is None


READS = {"forward": 0.001, "backward": 0.002, "optimizer": 0.0005, "sync": 0.0085}
"""The host of a rank that reads its loss in each step: it waits there, and nowhere else."""
LAUNCHES = {"forward": 0.006, "backward": 0.004, "optimizer": 0.002}
"""The host of one that does not: it waits wherever the queue is full."""


def device(forward=0.003, backward=0.007, idle=0.0003, **more):
    """A device's step, in which the end of backward waits for the other ranks."""
    busy = forward + backward + 0.0015
    given = {"forward": forward, "backward": backward, "optimizer": 0.0015, "busy": busy, "idle": idle, **more}
    return {f"device_{name}": seconds for name, seconds in given.items()}


def test_a_rank_that_reads_its_loss_is_none():
    """By the hosts' times the other one is late."""
    assert straggler(job(READS, LAUNCHES)).rank == 1
    assert straggler(job(READS | device(), LAUNCHES | device())) is None


def test_a_slow_device_is_found_behind_its_host():
    slow, fast = device(forward=0.006), device(backward=0.010)
    found = straggler(job(READS | slow, LAUNCHES | fast))
    assert (found.rank, next(iter(found.parts))) == (0, "forward")
    assert found.seconds == pytest.approx(0.003, rel=0.1)


def test_devices_are_compared_in_the_steps_that_were_timed():
    """Of later steps only some are; here every other one of the slow rank's."""
    some = lambda i: 0.006 if i % 2 else float("nan")  # noqa: E731
    slow = {**device(forward=0.006), "device_busy": lambda i: some(i) + 0.0085, "device_idle": some}
    assert straggler(job(READS | slow, LAUNCHES | device(backward=0.010), steps=150)) is None
    assert straggler(job(READS | slow, LAUNCHES | device(backward=0.010), steps=300)).rank == 0


def test_long_steps_need_not_be_many():
    late, other = {"forward": 0.11, "backward": 0.10}, {"forward": 0.05, "backward": 0.16}
    assert straggler(job(late, other, steps=70)).rank == 0
    assert straggler(job(late, other, steps=38)) is None
    assert straggler(job(other, other, steps=70, noise=0.3)) is None


def test_only_common_steps_are_compared():
    ranks = [make_process(make_steps(n), rank=rank, world=2) for rank, n in enumerate((300, 150))]
    assert aligned(make_recording(*ranks)).steps == 150 - 3
    assert aligned(make_recording(ranks[0])) is None
    assert aligned(make_recording()) is None
