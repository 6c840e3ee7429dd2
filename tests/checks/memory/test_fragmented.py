import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.memory.fragmented import Fragmented
from gpudoctor_rules.advice import advice


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(Fragmented, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(advice("memory"), finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


CARD = record("torch", 1.0, version="2.9", device="NVIDIA H100", device_bytes=80 * 2**30)
GIB = float(1 << 30)


def memory(reserved, peak, *records):
    return make_process(make_steps(200, reserved=reserved, peak=peak), records=[CARD, *records])


def test_sick_reserved_and_not_in_use():
    [finding] = look(memory(60 * GIB, 25 * GIB))
    assert "60 GiB is reserved for 25 GiB" in finding.message
    assert "expandable_segments" in remedies(finding)


def test_sick_retries():
    [finding] = look(memory(70 * GIB, 60 * GIB, record("memory", 3.0, step=90, kind="retries", retries=7, ooms=0)))
    assert "7 times" in finding.message


def test_healthy_allocators():
    assert look(memory(30 * GIB, 25 * GIB)) == []
    assert look(memory(10 * GIB, 2 * GIB)) == []  # an eighth of the card: nobody minds
    with pytest.raises(Unavailable):
        look(make_process())
