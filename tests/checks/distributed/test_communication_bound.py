import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.distributed.communication_bound import CommunicationBound
from gpudoctor_rules.advice import advice

look, remedies = look_of(CommunicationBound), remedies_of(advice("distributed"))


def job(*columns):
    """Two ranks or more with these columns."""
    return look(
        *(make_process(make_steps(200, seed=r, **c), rank=r, world=len(columns)) for r, c in enumerate(columns))
    )


def test_sick_collectives_that_nothing_hides():
    [finding] = job({"device_collective": 0.004}, {"device_collective": 0.004})
    assert finding.severity is Severity.WARNING and "40 %" in finding.message
    assert "no_sync" in remedies(finding)


def test_healthy_collectives():
    assert job({"device_collective": 0.0005}, {"device_collective": 0.0005}) == []


def test_healthy_waiting_for_a_straggler_is_the_stragglers():
    assert job({"device_collective": 0.006, "backward": 0.011}, {"device_collective": 0.0, "data_wait": 0.0062}) == []


def test_healthy_ranks_that_are_late_in_turn_and_few_steps():
    """Each waits for the other, and there are too few steps to name one: nobody waits for the network."""
    turns = [0.008 * (i % 2) for i in range(200)]
    assert (
        job(
            *(
                {"device_collective": [t if r else 0.008 - t for t in turns], "device_busy": 0.01, "device_idle": 0.0}
                for r in range(2)
            )
        )
        == []
    )
    one = [
        make_process(make_steps(60, device_collective=0.008 * r, device_busy=0.01, device_idle=0.0), rank=r, world=2)
        for r in range(2)
    ]
    assert look(*one) == []


def test_what_is_needed():
    with pytest.raises(Unavailable, match="one rank"):
        look(make_process())
    with pytest.raises(Unavailable, match="device times"):
        job({}, {})
