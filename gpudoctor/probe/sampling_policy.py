"""Which steps are looked at closely: all, where steps are long; one of a few, where looking would cost too much.

In between, steps are light. Their phases are timed, their calls counted and their loss is read as ever; what is
left for the steps that are watched are questions about graph, model, gradients and memory. A loss that is not
finite, or a profiler that goes on, ends the lightness at once.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from .table import OTHER

if TYPE_CHECKING:
    from .probe import Probe

FIRST = 128
"""Steps that are watched in any case."""
SHARE, LEAST = 0.002, 3e-6
"""What watching may cost: this share of a step, or so many seconds."""
HIDDEN = 2.0
"""What watching costs, in times of what is measured: the hooks' own questions are not."""
MOST, MOST_QUICK, QUICK = 24, 128, 0.25
"""One step of so many is watched at least, on the average; up to half as many more may lie in between. Where
steps are short, the larger number, as long as that many take no more than so many seconds."""


class Pace:
    """Decides, and measures what watching costs."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._stride = int(probe.settings.get("stride") or 0)
        """One step of so many is watched, whatever it costs (for tests); 0: as it costs."""
        self._clock.light = self._clock.quick = False
        self._usual = self._own = 0.0
        """Seconds of a step, and of our own calls in a watched one."""
        self._left = 0
        """Light steps until the next watched one."""
        self._random = 1

    def watch_all(self) -> None:
        """From now on every step is watched, whatever it costs: a trial replays one."""
        self._stride = 1

    def leave(self) -> None:
        """Something happens that is to be looked at: so is the rest of this step."""
        self._clock.light = self._clock.quick = False

    def ended(self, duration: float, own: float) -> None:
        """A watched step has ended, `own` seconds of it ours: what are the next ones?"""
        clock, windows = self._clock, self._probe.windows
        after = perf_counter() - clock.mark
        # One step with an evaluation in it is not what steps are like.
        self._usual = _near(self._usual, duration + after, 2)
        self._own = _near(self._own, own + clock.own + after, 4)
        self._left = self._choose() if self._probe.steps.index >= FIRST else 0
        if self._left > 0 and clock.phase == OTHER and not (windows is not None and windows.on()):
            clock.light = True
            alone = clock.device is None and clock.compiled is None
            clock.quick = alone and self._probe.steps.may_be_quick() and self._probe.numerics.usual()
            self._probe.numerics.gradients.pause()

    def timed_ended(self) -> None:
        """A light step has ended."""
        self._left -= 1
        if self._left <= 0:
            self._clock.light = self._clock.quick = False

    def _choose(self) -> int:
        """Light steps before the next watched one; by chance, so that no rhythm of the loop's can hide."""
        budget = max(SHARE * self._usual, LEAST)
        most = max(MOST, min(MOST_QUICK, int(QUICK / self._usual)))
        spread = (self._stride or min(most, 1 + int(HIDDEN * self._own / budget))) - 1
        self._random = self._random * 1103515245 + 12345 & 0x7FFFFFFF  # touches nobody's random state
        return spread - spread // 2 + (self._random >> 8) % (2 * (spread // 2) + 1)


def _near(usual: float, value: float, times: float) -> float:
    """A running mean, in which one value counts no more than so many times the mean."""
    return usual + 0.1 * (min(value, times * usual) - usual) if usual else value
