import pytest
from recordings import make_process, make_recording, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.performance.launch_bound import LaunchBound
from gpudoctor_rules.advice import advice


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(LaunchBound, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(advice("performance"), finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


def test_sick_a_card_that_waits_for_launches():
    [finding] = look(make_process(make_steps(200, device_busy=0.004)))
    assert finding.severity is Severity.WARNING and "reduce-overhead" in remedies(finding)


def test_healthy_cards():
    assert look(make_process(make_steps(200, device_busy=0.0095))) == []
    # idle because the host waits for data: that is another ailment
    assert look(make_process(make_steps(200, device_busy=0.0095, data_wait=0.02))) == []
    with pytest.raises(Unavailable, match="device times"):
        look(make_process())
