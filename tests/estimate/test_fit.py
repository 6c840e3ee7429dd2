"""The search for what fits: true verdicts, true bounds, an order that can be explained."""

from dataclasses import replace

import pytest
from some import some

from gpudoctor.estimate import TrainingJob, Verdict, device, estimate_job, lookup
from gpudoctor.estimate.fit import cuts, fits, largest, room, search, speed

SHAPE = lookup("llama-3-8b").preset.shape
CARD = device("24GiB")


@pytest.mark.parametrize("bound", [0, 1, 2, 3, 7, 8, 63, 64, 100, 5000])
def test_largest(bound):
    assert largest(lambda value: value <= bound, 1024) == (None if bound < 1 else min(bound, 1024))
    assert largest(lambda value: value <= bound, 1 << 20, 256) == (None if bound < 256 else bound // 256 * 256)


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


def test_one_method_stays_one_method():
    found = search(SHAPE, TrainingJob(method="qlora"), CARD, ["qlora"])
    assert {each.estimate.job.method for each in found.best} == {"qlora"}


def test_several_gpus_are_sharded():
    found = search(SHAPE, TrainingJob(gpus=8, parallel="ddp"), device("A100 80GB"), ["full"])
    assert any(each.estimate.job.parallel in {"zero2", "fsdp2"} for each in found.best)


def test_cards():
    found = search(lookup("70b").preset.shape, TrainingJob(), device("A100 80GB"), ["full"])
    ((_, cards),) = found.cards
    assert cards is not None
    assert 8 <= cards <= 32


def test_cuts_are_true_and_in_order():
    asked = estimate_job(SHAPE, TrainingJob(batch=4, checkpointing="none"), CARD)
    found = cuts(asked, CARD)
    assert next(iter(found[0].changes)) == "method"
    for cut in found:
        changed = estimate_job(SHAPE, replace(asked.job, **cut.changes), CARD)
        assert cut.gives_back == asked.total_bytes - changed.total_bytes > 0
        assert cut.verdict is changed.card.verdict


def test_changes_that_fit_together_when_none_does_alone():
    asked = estimate_job(SHAPE, TrainingJob(batch=8, checkpointing="none", method="lora"), device("20GiB"))
    *single, last = cuts(asked, device("20GiB"))
    assert all(cut.verdict is not Verdict.FITS for cut in single)
    assert last.verdict is Verdict.FITS
    assert len(last.changes) > 1
    for name in some(last.changes):
        fewer = {key: value for key, value in last.changes.items() if key != name}
        assert not fits(estimate_job(SHAPE, replace(asked.job, **fewer), device("20GiB")))


def test_no_change_that_would_do():
    shape = lookup("405b").preset.shape
    found = cuts(estimate_job(shape, TrainingJob(), CARD), CARD)
    assert found
    assert all(cut.verdict is Verdict.DOES_NOT_FIT for cut in found)


def test_speed_knows_what_costs():
    plain = TrainingJob(checkpointing="none")
    assert speed(plain) > speed(replace(plain, checkpointing="layer"))
    assert speed(replace(plain, method="lora")) > speed(plain)
    assert speed(replace(plain, method="lora")) > speed(replace(plain, method="qlora"))
    assert speed(replace(plain, batch=8)) > speed(plain)
    sharded = replace(plain, gpus=8, parallel="zero2")
    assert speed(sharded) > speed(replace(sharded, offload="optimizer"))
