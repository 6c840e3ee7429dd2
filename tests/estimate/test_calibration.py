"""Calibrations: written, read again, used for the card that they are of, and for no other."""

import json
from dataclasses import replace

import pytest

from gpudoctor import __version__
from gpudoctor.estimate import device, estimate, estimate_job, lookup
from gpudoctor.estimate.calibration import (
    Calibration,
    CalibrationError,
    CardObservation,
    pick,
    read,
    user_file,
    write,
)
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.model import Provenance

MIB = 1 << 20
SEEN = CardObservation(
    model="llama-2-7b", method="lora", instants={"loss": (10**10, 1.02e10), "layer": (10**10, 0.9e10)},
    reserved=(2 * 10**10, 21 * 10**9),
)  # fmt: skip
SEEN = replace(SEEN, instants={name: (one, int(two)) for name, (one, two) in SEEN.instants.items()})
CARD = Calibration(
    gpu="NVIDIA GeForce RTX 4090", bytes=24 << 30, versions={"torch": "2.13.0", "transformers": "5.23.0"},
    date="2026-11-21", gpudoctor=__version__, context=333 * MIB, workspace=9 * MIB, observations=(SEEN,) * 3,
)  # fmt: skip


def test_written_and_read_again(tmp_path):
    path = tmp_path / "new" / "calibration.json"
    assert write(path, CARD) == CARD
    assert read(path) == (CARD,)
    other = replace(CARD, versions={**CARD.versions, "torch": "2.14.0"}, context=None)
    write(path, other)
    again = write(path, replace(CARD, context=None, observations=(SEEN,)))
    assert again.context == 333 * MIB and len(again.observations) == 4
    assert [entry.versions["torch"] for entry in read(path)] == ["2.14.0", "2.13.0"]
    assert not list(path.parent.glob(".*"))


def test_observations_of_another_release_are_not_used(tmp_path):
    path = tmp_path / "calibration.json"
    write(path, replace(CARD, gpudoctor="0.0.1"))
    found = pick(read(path), device("RTX 4090"), __version__)
    assert found is not None and found.context == 333 * MIB and found.observations == ()


def test_what_is_used_is_said_and_measured():
    card = replace(device("RTX 4090"), calibration=CARD)
    got = estimate_job(lookup("llama-2-7b").preset.shape, TrainingJob(method="lora"), card)
    plain = estimate_job(lookup("llama-2-7b").preset.shape, TrainingJob(method="lora"), device("RTX 4090"))
    context = got.card.lines[0]
    assert (context.kind, context.bytes, context.provenance) == ("context", 333 * MIB, Provenance.MEASURED)
    workspaces = {line.bytes for each in got.instants for line in each.lines if line.kind == "workspace"}
    assert workspaces == {9 * MIB}
    assert got.static == plain.static - 2 * 8_519_680 + 9 * MIB
    loss = next(each for each in got.instants if each.name == "loss")
    more = next(line for line in loss.lines if line.kind == "calibration")
    assert more.provenance is Provenance.MEASURED
    assert more.bytes == pytest.approx(0.02 * (loss.bytes - more.bytes), rel=0.01)
    (said,) = got.assumptions
    assert "RTX 4090" in said and "2026-11-21" in said and "loss x 1.020 measured (n 3)" in said
    assert "layer x 0.900 measured (n 3), kept as computed" in said
    assert all(line.bytes >= 0 for each in got.instants for line in each.lines)


def test_a_far_larger_job_and_another_method_take_no_ratio():
    card = replace(device("RTX 4090"), calibration=CARD)
    for name, job in (("llama-3-70b", TrainingJob(method="lora")), ("llama-2-7b", TrainingJob(method="full"))):
        got = estimate_job(lookup(name).preset.shape, job, card)
        assert "calibration" not in {line.kind for each in got.instants for line in each.lines}


def test_the_allocators_spread_is_that_which_was_seen():
    card = replace(device("RTX 4090"), calibration=CARD)
    got = estimate_job(lookup("llama-2-7b").preset.shape, TrainingJob(method="qlora"), card).card.reserved
    plain = estimate_job(lookup("llama-2-7b").preset.shape, TrainingJob(method="qlora"), device("RTX 4090"))
    assert got[1] - got[0] < plain.card.reserved[1] - plain.card.reserved[0]


@pytest.mark.parametrize(
    ("name", "fits"), [("RTX 4090", True), ("RTX 3090", False), ("24GiB", False), (None, False)]
)
def test_no_calibration_is_used_for_a_different_card(name, fits):
    assert (pick([CARD], device(name) if name else None, __version__) is not None) is fits
    cpu = replace(CARD, gpu="cpu")
    assert (pick([cpu], device(name) if name else None, __version__) is not None) is (name is None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "schema"),
        ('{"schema": "gpudoctor.calibration/9", "entries": []}', "gpudoctor.calibration/9"),
        ('{"schema": "gpudoctor.calibration/1"}', "broken"),
        ('{"schema": "gpudoctor.calibration/1", "entries": [{"gpu": 3}]}', "broken"),
        ('{"schema": "gpudoctor.calibration/1", "entries": 7}', "broken"),
    ],
)
def test_a_file_that_is_none_of_ours_is_a_sentence(tmp_path, text, said):
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=said):
        read(path)
    with pytest.raises(CalibrationError):
        write(path, CARD)
    assert path.read_text() == text


def test_absurd_numbers_are_refused(tmp_path):
    path = tmp_path / "file.json"
    write(path, CARD)
    raw = json.loads(path.read_text("utf-8"))
    for wrong in (-1, "9", 1 << 60, True):
        raw["entries"][0]["context_bytes"] = wrong
        path.write_text(json.dumps(raw))
        with pytest.raises(CalibrationError, match="not a number of bytes"):
            read(path)


def test_the_users_place():
    assert str(user_file({"XDG_DATA_HOME": "/data"})) == "/data/gpudoctor/calibration.json"


def test_the_function_takes_a_file(tmp_path):
    path = tmp_path / "calibration.json"
    write(path, CARD)
    got = estimate("7b", method="lora", gpu="RTX 4090", calibration=path)
    assert any("calibration of 2026-11-21" in text for text in got.assumptions)
    assert got.card.lines[0].bytes == 333 * MIB
    assert estimate("7b", method="lora", gpu="L4", calibration=path) == estimate("7b", method="lora", gpu="L4")
