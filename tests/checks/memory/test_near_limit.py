import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.memory.near_limit import NearLimit
from gpudoctor_rules.advice import advice


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(NearLimit, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(advice("memory"), finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


CARD = record("torch", 1.0, version="2.9", device="NVIDIA H100", device_bytes=80 * 2**30)


def peak(share):
    return make_process(make_steps(200, peak=share * 80 * 2**30, reserved=share * 79 * 2**30), records=[CARD])


def test_sick_a_card_that_is_full():
    [finding] = look(peak(0.98))
    assert finding.severity is Severity.WARNING and "98 %" in finding.message
    assert "checkpointing" in remedies(finding)
    [finding] = look(peak(0.93))
    assert finding.severity is Severity.NOTE


def test_healthy_room():
    assert look(peak(0.85)) == []
    with pytest.raises(Unavailable):
        look(make_process())
