import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.memory.near_limit import NearLimit
from gpudoctor_rules.advice import advice

look = look_of(NearLimit)
remedies = remedies_of(advice("memory"))
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
