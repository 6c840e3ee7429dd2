import pytest
from looks import look_of, remedies_of
from recordings import lines, make_process, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.distributed.straggler import StragglingRank
from gpudoctor_rules.distributed import straggler

look, remedies = look_of(StragglingRank), remedies_of(straggler)


def job(*columns, records=None, steps=200):
    """Ranks with these columns."""
    return look(
        *(
            make_process(make_steps(steps, seed=rank, **given), rank=rank, world=len(columns),
                         records=(records or {}).get(rank, ()))
            for rank, given in enumerate(columns)
        )
    )  # fmt: skip


def test_sick_a_rank_with_slow_data():
    seen = lines(("data_wait", "/job/data.py", 9, "decode", 60), ("forward", "/job/net.py", 3, "f", 40))
    same = lines(("data_wait", "/job/data.py", 9, "decode", 2), ("forward", "/job/net.py", 3, "f", 98))
    columns = [{"backward": 0.011}, {"data_wait": 0.0062}, {"backward": 0.011}]
    [finding] = job(*columns, records={0: [same], 1: [seen], 2: [same]})
    assert finding.severity is Severity.WARNING
    assert (finding.detail.rank, finding.detail.part) == (1, "data_wait")
    assert (finding.span.path, finding.span.line) == ("data.py", 9)
    assert "rank 1" in remedies(finding)


def test_sick_a_cause_that_covers_too_little_is_not_named():
    [finding] = job({"backward": 0.011}, {"data_wait": 0.0032, "forward": 0.006}, {"backward": 0.011})
    assert finding.detail.part == "" and finding.span is None


def test_healthy_ranks():
    assert job({}, {}, {}) == []
    assert job({"backward": 0.0058}, {"data_wait": 0.0010}) == []  # under a millisecond


def test_what_is_needed():
    with pytest.raises(Unavailable, match="one rank"):
        look(make_process())
    with pytest.raises(Unavailable, match="100 are needed"):
        job({}, {}, steps=60)
