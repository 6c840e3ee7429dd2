import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.data.transfer_bound import TransferBound
from gpudoctor_rules.advice import advice

look = look_of(TransferBound)
remedies = remedies_of(advice("data"))


def test_sick_copies():
    [finding] = look(make_process(make_steps(200, device_transfer=0.003)))
    assert finding.severity is Severity.WARNING and finding.cost.step_share == pytest.approx(0.3, abs=0.02)
    assert "uint8" in remedies(finding)


def test_healthy_copies():
    assert look(make_process(make_steps(200, device_transfer=0.0005))) == []
    with pytest.raises(Unavailable, match="device times"):
        look(make_process())
