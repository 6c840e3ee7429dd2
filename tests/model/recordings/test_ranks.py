"""Ranks side by side: the straggler and what it does, silence on noise."""

import pytest
from recordings import make_process, make_recording, make_steps

from gpudoctor.model.reading.recordings.ranks import aligned, straggler


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
    assert found.waited == pytest.approx(0.006, rel=0.1)
    assert found.share == pytest.approx(0.006 / 0.016, rel=0.15)


def test_two_ranks():
    found = straggler(job({"other": 0.004}, {"backward": 0.0087}))
    assert (found.rank, next(iter(found.parts))) == (0, "other")


def test_equal_ranks_have_no_straggler():
    assert straggler(job({}, {}, {}, {}, noise=0.3)) is None


def test_ranks_that_are_late_in_turn_have_no_straggler():
    late = [{"data_wait": lambda i, r=r: 0.008 if i % 4 == r else 0.0002} for r in range(4)]
    assert straggler(job(*late)) is None


def test_less_than_a_millisecond_is_noise():
    assert straggler(job({"data_wait": 0.0010}, {"backward": 0.0058})) is None


def test_few_steps_say_nothing():
    assert straggler(job({"data_wait": 0.01}, {"backward": 0.015}, steps=80)) is None


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


def test_many_ranks_are_aligned_in_bounds():
    kinds = [make_steps(2000, seed=seed) for seed in range(4)]
    slow = make_steps(2000, data_wait=0.0052)
    ranks = [
        make_process(slow if rank == 70 else kinds[rank % 4], rank=rank, world=256) for rank in range(1024)
    ]
    run = make_recording(*ranks)
    found = straggler(run)
    assert found.rank == 70 and found.steps <= 300
    assert next(iter(found.parts)) == "data_wait"
