"""A rank is killed or stopped in a stage: a verdict within the limit, and nothing is left running.

benchmarks/preflight_faults.py has every stage with every fault, of rank 0 and of another one.

The ranks are processes on this machine; their workers need no torch (tests/helpers/preflight_worker.py).
"""

from functools import cache

import pytest
from preflight_agent import ENDED_WITH
from preflight_ranks import Case, examine, examine_beside

from gpudoctor.errors import IncompleteError

EVERYTHING = {"storage": "/tmp", "burn": 0.5}
MOST_SECONDS = 60.0
"""Of a machine that others use as well: limits of a few seconds, and the start of six processes."""
KILLED, SILENT, STUCK = "died", "silent", "stuck"


LONG = (
    (("card pause rank", 1), ("card hang", 1), ("card stop worker", 1)),
    (("group3 stop rank", 0), ("group stop rank", 1), ("storage stop rank", 1), ("about stop rank", 1)),
)
"""Faults that are waited for, three to six seconds each: those of a row are made at a time."""


def case(fault, rank, **common):
    return Case({number: {} for number in range(3)}, {**EVERYTHING, **common}, {rank: fault})


@cache
def together(row):
    """Examinations beside each other, each with ranks, a port and a fault of its own."""
    ended = examine_beside([case(*one) for one in LONG[row]], within=MOST_SECONDS)
    return dict(zip(LONG[row], ended, strict=True))


def run(fault, rank, **common):
    for row, faults in enumerate(LONG):
        if (fault, rank) in faults and not common:
            return together(row)[fault, rank]
    [ended] = examine_beside([case(fault, rank, **common)], within=MOST_SECONDS)
    return ended


def survivors(ended, lost):
    return {rank: code for rank, code in ended.codes.items() if rank != lost}


STAGES = {"about": "machine", "card": "card", "group": "pairs", "group3": "group", "storage": "storage", "burn": "burn"}
"""Piece of work to its stage."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    ["about stop rank", "card kill rank", "card pause rank", "group stop rank", "group3 kill rank", "storage stop rank",
     "burn kill rank"],
)  # fmt: skip
def test_a_rank_that_is_killed_or_stopped_is_named_with_its_stage(fault):
    ended = run(fault, 1)
    assert ended.losses() == [(1, STAGES[fault.partition(" ")[0]], KILLED if "kill" in fault else SILENT)]
    assert ended.reporter == 0 and not ended.left and ended.found["untested"]
    assert {code for rank, code in survivors(ended, 1).items()} == {ENDED_WITH}
    if "pause" in fault:  # it came back when the others had gone on
        assert ended.codes[1] == IncompleteError.exit_code


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["card stop worker", "card hang"])
def test_a_worker_that_stands_still_is_named_with_its_line(fault):
    ended = run(fault, 1)
    assert ended.losses() == [(1, "card", STUCK)]
    [loss] = ended.found["losses"]
    assert "preflight_worker.py" in loss["stack"][-1]
    assert loss["stack"][-1].endswith("stand_still" if fault == "card hang" else "fault")
    assert [unit["failure"] != "" for unit in ended.found["units"]] == [False, True, False]
    assert set(ended.codes.values()) == {ENDED_WITH} and not ended.left


@pytest.mark.slow
def test_a_worker_that_is_killed_in_a_test_of_two_is_blamed_and_not_its_partner():
    ended = run("group kill worker", 1, limits={"pairs": 30.0}, test_limit=8.0)
    failed = [test for test in ended.found["tests"] if test["failure"]]
    assert failed and all(test["blamed"] == [1] for test in failed)
    assert all("killed by signal 9 (SIGKILL)" in test["failure"] for test in failed)
    assert any(test["nodes"] == [0, 2] and not test["failure"] for test in ended.found["tests"])


@pytest.mark.slow
def test_a_rank_that_never_comes_is_named_and_the_others_are_measured():
    ended = examine({0: {}, 2: {}}, {"world": 3, "limits": {"arrive": 2.0}}, within=MOST_SECONDS)
    assert ended.losses() == [(1, "arrive", "never came")]
    assert [node["ranks"] for node in ended.found["nodes"]] == [[0], [2]]
    assert [test["failure"] for test in ended.found["tests"]] == [""] * len(ended.found["tests"])
    assert "Rank 1 of 3 did not come." in ended.found["untested"][0]
    assert set(ended.codes.values()) == {ENDED_WITH}
