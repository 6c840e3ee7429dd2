import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps

from gpudoctor.model import Unavailable
from gpudoctor_checks.hardware.underperforms import Underperforms
from gpudoctor_rules.advice import advice

look, remedies = look_of(Underperforms), remedies_of(advice("hardware"))


def job(*times, **columns):
    """Ranks whose devices need so many seconds for a forward pass."""
    return look(
        *(
            make_process(make_steps(200, device_forward=seconds, **columns), rank=rank, world=len(times))
            for rank, seconds in enumerate(times)
        )
    )


def test_sick_a_slow_card():
    [finding] = job(0.004, 0.004, 0.0055, 0.004)
    assert finding.detail.rank == 2 and "rank 2" in remedies(finding)


def test_healthy_cards():
    assert job(0.004, 0.0041, 0.0043, 0.004) == []
    with pytest.raises(Unavailable):
        job(0.004)


def test_healthy_passes_so_short_that_their_hosts_decide():
    assert job(0.00004, 0.00008) == []
    assert job(0.004, 0.0055) != []


def test_healthy_a_device_that_waits_for_its_host_between_kernels():
    assert job(0.004, 0.009, device_idle=0.005) == []


def test_healthy_a_rank_with_longer_sequences():
    ranks = [
        make_process(make_steps(200, device_forward=0.006 if r == 1 else 0.004, tokens=3000.0 if r == 1 else 2000.0),
                     rank=r, world=3)
        for r in range(3)
    ]  # fmt: skip
    assert look(*ranks) == []
