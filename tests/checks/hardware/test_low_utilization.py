import pytest
from looks import look_of, remedies_of
from recordings import make_machine, make_process, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.hardware.low_utilization import LowUtilization
from gpudoctor_rules.advice import advice

look, remedies = look_of(LowUtilization), remedies_of(advice("hardware"))


def job(machine, **columns):
    """A run beside these samples."""
    return look(make_process(make_steps(300, **columns)), machine=make_machine(30, **machine), started="")


def test_sick_cards_that_wait_for_data():
    [finding] = job({"gpu0_util": 0.5, "gpu0_sm": 0.2, "gpu0_memory": 4e10}, data_wait=0.03)
    assert finding.severity is Severity.NOTE  # the cause has its own finding
    assert "waiting for data" in finding.message and finding.detail.explained
    assert "other findings" in remedies(finding)


def test_sick_nothing_explains_it():
    [finding] = job({"gpu0_util": 0.2, "gpu0_memory": 4e10})
    assert finding.severity is Severity.WARNING and "no part of the step explains it" in finding.message


def test_healthy_cards():
    assert job({"gpu0_util": 0.95, "gpu0_sm": 0.8, "gpu0_memory": 4e10}) == []
    # a second card that the job does not use
    assert job({"gpu0_util": 0.95, "gpu0_memory": 4e10, "gpu1_util": 0.0, "gpu1_memory": 4e8}) == []
    with pytest.raises(Unavailable, match="samples of a GPU"):
        look(make_process())
