import pytest
from recordings import make_process, make_recording, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.data.transfer_bound import TransferBound
from gpudoctor_rules.advice import advice


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(TransferBound, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(advice("data"), finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


def test_sick_copies():
    [finding] = look(make_process(make_steps(200, device_transfer=0.003)))
    assert finding.severity is Severity.WARNING and finding.cost.step_share == pytest.approx(0.3, abs=0.02)
    assert "uint8" in remedies(finding)


def test_healthy_copies():
    assert look(make_process(make_steps(200, device_transfer=0.0005))) == []
    with pytest.raises(Unavailable, match="device times"):
        look(make_process())
