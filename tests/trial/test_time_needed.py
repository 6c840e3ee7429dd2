"""A budget too small for one comparison is refused with the one that would do; the plan and the live line."""

import json
import os
import re
import time
from types import SimpleNamespace

import pytest
from recordings import make_process, make_recording, make_steps, write_recording

from gpudoctor.cli.verify_session import _status, plan_text
from gpudoctor.trial.decision import LOOKS
from gpudoctor.trial.session import TrialSession, budget_flag, lap_of, too_short

COMMAND = ("python", "train.py")


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "gpudoctor" / "recordings"


def recorded(state, begin):
    """An earlier run of the command in this folder, whose first step began after so many seconds."""
    recording = make_recording(make_process(make_steps(400, begin=begin)), command=COMMAND)
    write_recording(recording, state / "run-1")
    path = state / "run-1" / "recording.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "cwd": os.getcwd(), "started": ""}))
    return lap_of(recording, None)


def test_without_knowledge_only_what_no_command_can_do_is_refused(state):
    sentence = too_short(COMMAND, 10.0, None)
    assert sentence.startswith("--budget 10 s is too short for one comparison: each run measures 3 s of steps")
    assert too_short(COMMAND, 60.0, None) == "" == too_short(COMMAND, 2.0, 20)


def test_an_earlier_recording_says_what_one_comparison_takes(state):
    lap = recorded(state, begin=40.0)
    assert lap.seconds > 40
    sentence = too_short(COMMAND, 100.0, None)
    assert "(run-1)" in sentence
    better = re.search(r"use --budget (?:(\d+)m)?(?:(\d+)s)?$", sentence)
    enough = 60 * int(better[1] or 0) + int(better[2] or 0)
    assert enough >= 8 * lap.seconds and too_short(COMMAND, float(enough), None) == ""
    assert too_short(("python", "other.py"), 100.0, None) == ""


@pytest.mark.parametrize(("seconds", "flag"), [(3, "30s"), (31, "1m"), (61, "1m30s"), (3599, "60m")])
def test_a_budget_is_a_round_value_of_the_flag(seconds, flag):
    assert budget_flag(seconds) == flag


def test_after_the_baseline_too_little_time_starts_nothing():
    session = TrialSession(bench=SimpleNamespace(), budget=30.0)
    session.lap_seconds = 20.0
    session.try_arms([("a", SimpleNamespace(name="a")), ("b", SimpleNamespace(name="b"))])
    assert session.attempts == []
    assert "one comparison takes 80 s and 30 s of the budget are left" in session.stopped
    assert session.stopped.endswith("use --budget 5m30s")


def test_the_plan_and_the_live_line_say_where_it_is_and_how_long_it_takes():
    session = TrialSession(bench=SimpleNamespace(), budget=600.0, began=time.monotonic())
    session.lap_seconds, session.changes = 8.0, 2
    assert plan_text(session) == (
        "gpudoctor: 2 changes to try in pairs of runs of 8 s, 3 to 16 pairs each: 96 s or more, at most 10 min"
    )
    session.doing, session.current = "X-1", SimpleNamespace(pairs=[1], arm=SimpleNamespace(name="X-1"))
    text = _status(session, "X-1")
    assert text.startswith(f"gpudoctor · X-1 (1 of 2) · pair 2 of {LOOKS[0]} to {LOOKS[-1]} · with it · about 32 s")
    assert "10 min in all" in text
    session.current = None
    session.doing = ""
    assert "the command as it is" in _status(session, "baseline")
