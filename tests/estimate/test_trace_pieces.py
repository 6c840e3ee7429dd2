"""Pieces of the trace that need no torch: the ledger, extrapolation, the child."""

import sys

import pytest

from gpudoctor.errors import IncompleteError
from gpudoctor.estimate.real.config import pattern
from gpudoctor.estimate.traced import child


@pytest.mark.parametrize(
    ("kinds", "prefix", "period"),
    [("aaaaaa", 0, 1), ("ababab", 0, 2), ("daaaaa", 1, 1), ("aaabaaabaa", 0, 4), ("abc", 0, 3)],
)
def test_what_repeats_in_a_row_of_blocks(kinds, prefix, period):
    found = pattern(kinds)
    assert (found.layers, found.prefix, found.period) == (len(kinds), prefix, period)
    assert all(kinds[depth - 1] == kinds[-1] for depth in found.depths())


def test_a_child_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr(child, "_installed", lambda _: True)
    monkeypatch.setattr(child, "COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    with pytest.raises(IncompleteError, match=r"longer than 200 ms"):
        child.ask_child({"jobs": []}, 0.2)
