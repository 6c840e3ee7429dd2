"""A budget too small for one comparison starts none and names the one that would do; the plan and the live line."""

import time
from types import SimpleNamespace

import pytest

from gpudoctor.cli.verify_session import _status, plan_text
from gpudoctor.model.proof import Conclusion
from gpudoctor.trial import session as sessions
from gpudoctor.trial.candidates import Candidate
from gpudoctor.trial.paired_runs import Tried
from gpudoctor.trial.session import Attempt, TrialSession
from gpudoctor.trial.trial_runner import Arm


def test_after_the_baseline_too_little_time_starts_nothing():
    session = TrialSession(bench=SimpleNamespace(), budget=30.0)
    session.lap_seconds = 20.0
    session.try_arms([("a", SimpleNamespace(name="a")), ("b", SimpleNamespace(name="b"))])
    assert session.attempts == []
    assert "the time left is too short for one comparison" in session.stopped
    assert session.stopped.endswith("use --budget 5m30s")


def test_the_plan_and_the_live_line_say_where_it_is_and_how_long_it_takes():
    session = TrialSession(bench=SimpleNamespace(), budget=600.0, began=time.monotonic())
    session.lap_seconds, session.changes = 8.0, 2
    assert plan_text(session) == (
        "gpudoctor: 2 changes to try in pairs of runs of 8 s, 3 to 16 pairs each: 96 s or more, at most 10 min"
    )
    session.doing, session.current = "X-1", SimpleNamespace(pairs=[1], arm=SimpleNamespace(name="X-1"))
    text = _status(session, "X-1")
    assert text == "gpudoctor · X-1 (1 of 2) · pair 2 · with it · at most 10 min in all"
    session.current, session.doing = None, ""
    assert "the command as it is" in _status(session, "baseline")


@pytest.mark.parametrize(("left", "first"), [(200, 200), (130, 130), (250, 130)])
def test_the_most_valuable_remedy_has_all_that_first_looks_at_the_others_do_not_need(monkeypatch, left, first):
    finding = SimpleNamespace(confidence=None, code="DATA001")
    item = SimpleNamespace(finding=finding)
    remedy = SimpleNamespace(id="X", title="x")
    three = [Candidate(item=item, remedy=remedy, arm=Arm(name=name), edits=False) for name in "abc"]
    monkeypatch.setattr(sessions, "candidates", lambda *_args, **_named: three)
    session = TrialSession(bench=SimpleNamespace(), budget=float(left), began=time.monotonic(), lap_seconds=10.0)
    shares = []

    def attempt(name, title, arm, seconds, candidate, **_flags):
        shares.append(seconds)
        return Attempt(name=name, title=title, tried=Tried(arm=arm), candidate=candidate)

    monkeypatch.setattr(sessions.TrialSession, "attempt", lambda self, *given, **flags: attempt(*given, **flags))
    session.try_remedies([])
    assert shares[0] == pytest.approx(first, abs=1)
    assert [item.tried.conclusion() for item in session.attempts] == [Conclusion.NOT_TRIED] * 3
