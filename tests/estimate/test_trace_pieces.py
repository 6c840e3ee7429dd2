"""Pieces of the trace that need no torch: the ledger, extrapolation, the child."""

import sys

import pytest
from some import some

from gpudoctor.errors import IncompleteError
from gpudoctor.estimate.real.config import Pattern, pattern
from gpudoctor.estimate.traced import child
from gpudoctor.estimate.traced.extrapolate import depth_of, whole
from gpudoctor.estimate.traced.ledger import Ledger, TracedWindow


def ledger_of(layers, weight=2048, kept=1024):
    """A run of blocks that each have a weight and keep something for the backward."""
    ledger = Ledger()
    for _ in range(layers):
        ledger.storages[ledger.born(weight)].kind = "weights"
    saved = []
    for at in range(layers):
        ledger.enter(TracedWindow("forward", at))
        saved.append(ledger.born(kept))
    ledger.enter(TracedWindow("loss"))
    loss = ledger.born(700)
    for at in reversed(range(layers)):
        ledger.enter(TracedWindow("backward", at))
        scratch = ledger.born(5000)
        ledger.freed(saved[at])
        ledger.freed(scratch)
    ledger.freed(loss)
    ledger.enter(TracedWindow("idle"))
    return ledger


def test_the_peak_of_each_window():
    peaks = {(window.phase, window.block): peak for window, peak in ledger_of(3).peaks()}
    assert peaks[("loss", -1)].kinds == {"weights": 3 * 2048, "activations": 3 * 1024, "loss": 1024}
    assert peaks[("backward", 2)].bytes == 3 * 2048 + 3 * 1024 + 1024 + 5120
    assert peaks[("backward", 0)].bytes == 3 * 2048 + 1024 + 1024 + 5120
    assert peaks[("idle", -1)].bytes == 3 * 2048


def test_two_depths_tell_of_thirty_blocks():
    blocks = Pattern(layers=30, prefix=0, period=1)
    found = tuple(depth_of(ledger_of(count), blocks, count, {}) for count in blocks.depths())
    assert [each.layers for each in found] == [2, 3]
    told = whole(found, blocks)
    for window, peak in some(ledger_of(30).peaks()):
        end = {29: ("last", 0), 0: ("first", 0), -1: ("", 0)}.get(window.block)
        if end is not None and window.phase != "load":
            assert sum(each.bytes for each in told[(window.phase, end[0], 0, end[1], 0)].values()) == peak.bytes


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
