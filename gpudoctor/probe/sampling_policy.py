"""Which steps are looked at closely: all, where steps are long; one of a few, where looking would cost too
much.

In between, steps are light. Their phases are timed, their calls counted and their loss is read as ever; what
is left for the steps that are watched are questions about batch, model, gradients and memory. Whatever does
not go as in the watched steps before (another loader, an evaluation, a bad loss) ends the lightness at once.
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
TICKS = 1000
"""What watching one step costs, in readings of the clock, until it has been measured."""
MOST, MOST_QUICK, QUICK = 24, 128, 0.25
"""One step of so many is watched at least, on the average; up to half as many more may lie in between. Where
steps are short, the larger number, as long as that many take no more than so many seconds."""
KEPT = 32
"""Differences between watched and light steps that are kept."""


class Pace:
    """Decides, and measures what watching costs."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        stride = probe.settings.get("stride")
        self._stride = int(stride) if stride else 0
        """One step of so many is watched, whatever it costs (for tests); 0: as it costs."""
        self.renew()

    def renew(self) -> None:
        """In a new process."""
        self._clock.light = False
        self._usual = 0.0
        self._expected = self._cost = TICKS * _tick()
        self._own = 0.0
        """What our own calls take in a watched step."""
        self._left = 0
        """Light steps until the next watched one."""
        self._lights: list[float] = []
        """Durations of those since the last."""
        self._costs: list[float] = []
        self._random = 1
        self._partial = False
        """Whether the step in the making was light until something happened."""

    def watch_all(self) -> None:
        """From now on every step is watched, whatever it costs: a trial replays one."""
        self._stride = 1

    def leave(self) -> None:
        """Something happens that is to be looked at: so is the rest of this step."""
        if self._clock.light:
            self._clock.light = False
            self._partial = True

    def timed_ended(self, duration: float) -> None:
        """A light step has ended."""
        self._lights.append(duration)
        self._left -= 1
        if self._left <= 0:
            self._clock.light = False

    def ended(self, duration: float, own: float) -> None:
        """A watched step has ended, wholly or in part, `own` seconds of it ours: what are the next ones?"""
        partial, self._partial = self._partial, False
        steps, clock, windows = self._probe.steps, self._clock, self._probe.windows
        if partial:
            self._left -= 1
        else:
            after = perf_counter() - clock.mark
            self._note(own + clock.own + after)
            self._measure(duration + after)
            self._left = self._choose() if steps.index >= FIRST else 0
        if self._left > 0 and clock.phase == OTHER and not (windows is not None and windows.on()):
            clock.light = True
            self._probe.numerics.clearing.pause()

    def _note(self, own: float) -> None:
        """Learn what our own calls took in a watched step: what it costs is no less."""
        usual = self._own
        self._own = usual + 0.1 * (min(own, 4 * usual) - usual) if usual else own

    def _measure(self, duration: float) -> None:
        """Learn from a watched step and the light ones before it."""
        usual = self._usual
        # One step with an evaluation in it is not what steps are like.
        self._usual = usual + 0.1 * (min(duration, 2 * usual) - usual) if usual else duration
        lights, self._lights = self._lights, []
        if not lights:
            return
        lights.sort()
        self._costs.append(duration - lights[len(lights) // 2])
        if len(self._costs) >= KEPT:
            costs = sorted(self._costs)
            self._costs = self._costs[KEPT // 2 :]
            self._cost = min(max(costs[KEPT // 2], self._expected / 4), 8 * self._expected)

    def _choose(self) -> int:
        """Light steps before the next watched one; by chance, so that no rhythm of the loop's can hide."""
        budget = max(SHARE * self._usual, LEAST)
        most = max(MOST, min(MOST_QUICK, int(QUICK / self._usual)))
        stride = self._stride or min(most, 1 + int(max(self._cost, self._own) / budget))
        spread = stride - 1
        return spread - spread // 2 + self._chance(2 * (spread // 2) + 1)

    def _chance(self, below: int) -> int:
        """A number from 0 on, without touching anybody's random state."""
        self._random = self._random * 1103515245 + 12345 & 0x7FFFFFFF
        return (self._random >> 8) % below


def _tick() -> float:
    """Seconds that reading the clock takes: how fast this machine runs Python."""
    best = 1.0
    for _ in range(3):
        start = perf_counter()
        for _ in range(50):
            perf_counter()
        best = min(best, (perf_counter() - start) / 51)
    return best
