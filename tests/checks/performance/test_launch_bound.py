import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.performance.launch_bound import LaunchBound
from gpudoctor_rules.advice import advice

look = look_of(LaunchBound)
remedies = remedies_of(advice("performance"))


def test_sick_a_card_that_waits_for_launches():
    [finding] = look(make_process(make_steps(200, device_busy=0.004, device_idle=0.006)))
    assert finding.severity is Severity.WARNING and "reduce-overhead" in remedies(finding)


def test_healthy_cards():
    assert look(make_process(make_steps(200, device_busy=0.0095, device_idle=0.0005))) == []
    # idle because the host waits for data: that is another ailment
    assert look(make_process(make_steps(200, device_busy=0.0095, device_idle=0.0205, data_wait=0.02))) == []
    with pytest.raises(Unavailable, match="device times"):
        look(make_process())
