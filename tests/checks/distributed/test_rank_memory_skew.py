import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Unavailable
from gpudoctor_checks.distributed.rank_memory_skew import RankMemorySkew
from gpudoctor_rules.advice import advice

look, remedies = look_of(RankMemorySkew), remedies_of(advice("distributed"))


CARD = record("torch", 1.0, version="2.9", device="NVIDIA H100", device_bytes=80 * 2**30)
GIB = float(1 << 30)


def job(*peaks):
    """Ranks with these peaks in GiB."""
    return look(
        *(
            make_process(make_steps(50, peak=peak * GIB), rank=rank, world=len(peaks), records=[CARD])
            for rank, peak in enumerate(peaks)
        )
    )


def test_sick_all_on_the_first_card():
    [finding] = job(60, 40, 40, 40)
    assert finding.detail.rank == 0 and "50 % more" in finding.message
    assert "set_device" in remedies(finding)


def test_healthy_ranks():
    assert job(42, 40, 40, 40) == []
    assert job(3, 1, 1, 1) == []
    with pytest.raises(Unavailable):
        look(make_process())
