"""The live line of a run: what it says, and that it says nothing where it must not."""

import io
import math
import os
import pty

import pytest

from gpudoctor.ui.status_line import StatusLine, status_text


def text(**changes: object) -> str:
    given = {"step": 1240, "step_seconds": 0.0412, "phases": {"forward": 0.3, "data_wait": 0.58, "sync": 0.001}}
    return status_text(75.2, **{**given, "ranks": 1, "still": 0.0, **changes})  # type: ignore[arg-type]


def test_what_it_says():
    assert text() == "gpudoctor · 75 s · step 1,240 · 41.2 ms a step · 24.3 steps/s · data wait 58 % · forward 30 %"
    assert text(ranks=8).endswith(" · 8 ranks")
    assert text(ranks=0) == "gpudoctor · 75 s · no training step seen yet"
    assert text(still=42.0) == "gpudoctor · 75 s · step 1,240 · no step for 42 s"
    assert text(ended=True) == "gpudoctor · 75 s · step 1,240 · the training has ended"
    assert text(step_seconds=math.nan) == "gpudoctor · 75 s · step 1,240"


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_is_written_where_there_is_no_terminal_or_it_is_not_wanted(shown, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    plain = io.StringIO()
    line = StatusLine(plain, shown=shown)
    line.show("x")
    line.close()
    assert plain.getvalue() == ""


def test_quiet_writes_nothing_to_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    with os.fdopen(theirs, "w") as stream:
        line = StatusLine(stream, shown=False)
        line.show("x")
        line.release()
        line.close()
        with pytest.raises(BlockingIOError):
            os.read(ours, 10)
    os.close(ours)
