"""The time of a whole examination is bounded, whatever its stages may take."""

from preflight_ranks import examine


def test_stages_that_find_no_time_left_are_named_and_the_examination_ends():
    ended = examine({0: {}}, {"world": 1, "whole": 0.01}, within=60)
    words = " ".join(ended.found["untested"])
    assert "No time was left for the stage pairs" in words and "the stage card" in words
    assert {stage["stage"] for stage in ended.found["stages"]} <= {"arrive", "machine"}
    assert not ended.left
