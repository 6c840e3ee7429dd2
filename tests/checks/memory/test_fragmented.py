import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Unavailable
from gpudoctor_checks.memory.fragmented import Fragmented
from gpudoctor_rules.advice import advice

look = look_of(Fragmented)
remedies = remedies_of(advice("memory"))
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
