"""The search for what fits: true verdicts, true bounds, an order that can be explained."""

from dataclasses import replace

import pytest
from some import some

from gpudoctor.estimate import TrainingJob, device, estimate_job, lookup
from gpudoctor.estimate.fit import fits, room, search

SHAPE = lookup("llama-3-8b").preset.shape
CARD = device("24GiB")


def test_room_is_the_last_that_fits():
    job = TrainingJob(method="qlora")
    found = room(SHAPE, job, CARD)
    assert fits(estimate_job(SHAPE, replace(job, batch=found.batch), CARD))
    assert not fits(estimate_job(SHAPE, replace(job, batch=found.batch + 1), CARD))
    assert fits(estimate_job(SHAPE, replace(job, seq=found.seq), CARD))
    assert not fits(estimate_job(SHAPE, replace(job, seq=found.seq + 256), CARD))
    none = room(SHAPE, TrainingJob(), CARD)
    assert (none.batch, none.seq) == (None, None)


def test_search_finds_what_fits_and_in_order():
    found = search(SHAPE, TrainingJob(), CARD)
    assert found.best
    speeds = [each.speed for each in found.best]
    assert speeds[0] == pytest.approx(1.0, abs=0.02)
    assert len(speeds) > 1 and speeds == sorted(speeds, reverse=True)
    for each in some(found.best):
        assert fits(each.estimate)
        changed = estimate_job(SHAPE, replace(TrainingJob(), **each.changes), CARD)
        assert fits(changed)
        if "batch" not in each.changes:
            assert each.gives_back == estimate_job(SHAPE, TrainingJob(), CARD).total_bytes - changed.total_bytes
