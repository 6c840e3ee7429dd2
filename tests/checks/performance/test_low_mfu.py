import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.performance.low_mfu import LowMfu
from gpudoctor_rules.advice import advice

look = look_of(LowMfu)
remedies = remedies_of(advice("performance"))


def job(flops, **columns):
    """A run on an H100 whose model does so many FLOPs a step."""
    card = record("torch", 1.0, version="2.9", device="NVIDIA H100 80GB HBM3", device_bytes=80 * 2**30)
    model = record("model", 1.2, name="Net", flops=flops)
    return look(make_process(make_steps(200, **columns), records=[card, model]))


def test_sick_a_card_that_computes_little():
    [finding] = job(5e11)
    assert finding.severity is Severity.NOTE and "5" in finding.message
    assert "bf16" in remedies(finding)


def test_healthy_cards():
    assert job(4e12) == []
    assert job(5e11, data_wait=0.02) == []  # another cause is larger
    with pytest.raises(Unavailable, match="FLOPs"):
        look(make_process())
