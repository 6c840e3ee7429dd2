"""The time of a whole examination is bounded, whatever its stages may take."""

from preflight_ranks import examine

from gpudoctor.model.signs.preflight import Stage
from gpudoctor.preflight.budget import BUDGETS


def test_stages_that_find_no_time_left_are_named_and_the_examination_ends():
    ended = examine({0: {}}, {"world": 1, "whole": 0.01}, within=60)
    words = " ".join(ended.found["untested"])
    assert "No time was left for the stage pairs" in words and "the stage card" in words
    assert {stage["stage"] for stage in ended.found["stages"]} <= {"arrive", "machine"}
    assert not ended.left


def test_a_quick_examination_has_less_time_than_its_stages_together():
    for budget in BUDGETS.values():
        asked = sum(limit for stage, limit in budget.limits.items() if stage not in (Stage.STORAGE, Stage.BURN))
        assert max(budget.limits.values()) < budget.whole < 2 * asked
    assert BUDGETS["quick"].whole <= 40
