"""Which steps are looked at closely: all, where steps are long; one of a few, where looking would cost too
much.

In between, steps are light. Their phases are timed, their calls counted and their loss is read as ever; what
is left for the steps that are watched are questions about batch, model, gradients and memory. Whatever does
not go as in the watched steps before (another loader, an evaluation, a bad loss) ends the lightness at once.
Where even that costs too much, most of the light steps are not timed either (gaps.py).
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING

from .table import OTHER
from .untimed_steps import Gaps

if TYPE_CHECKING:
    from .probe import Probe

FIRST = 128
"""Steps that are watched in any case."""
SHARE, LEAST = 0.002, 3e-6
"""What watching may cost, and what timing may: this share of a step, or so many seconds."""
TICKS = 1000
"""What watching one step costs, in readings of the clock, until it has been measured."""
MOST, MOST_QUICK, QUICK = 24, 128, 0.25
"""One step of so many is watched at least, on the average; up to half as many more may lie in between. Where
steps are short, the larger number, as long as that many take no more than so many seconds."""
KEPT = 32
"""Differences between watched and light steps that are kept."""
TIMED = 5.0
"""What timing a step costs of what watching it is expected to: its own calls, and making the rows of the
untimed ones before it (160 to 230 µs between operations of torch where that was 30 to 80; measured)."""
FEWEST, FEWEST_QUICK, QUICK_TIMED = 16, 40, 0.08
"""One of so many light steps is timed at least. Where steps are short, the larger number, as long as that many
take no more than so many seconds."""


class Pace:
    """Decides, and measures what watching costs."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        stride = probe.settings.get("stride")
        self._stride = int(stride) if stride else 0
        """One step of so many is watched, whatever it costs (for tests); 0: as it costs."""
        self.gaps = Gaps(probe)
        self.renew()

    def renew(self) -> None:
        """In a new process."""
        self.gaps.renew()
        self._clock.light = False
        self._usual = 0.0
        self._expected = self._cost = TICKS * _tick()
        self._own = 0.0
        """What our own calls take in a watched step."""
        self._left = 0
        """Light steps until the next watched one."""
        self._every = 1
        """One of so many light steps is timed."""
        self._lights: list[float] = []
        """Durations of those since the last."""
        self._costs: list[float] = []
        self._random = 1
        self._partial = False
        """Whether the step in the making was light until something happened."""

    def watch_all(self) -> None:
        """From now on every step is watched, whatever it costs: a trial replays one."""
        self._stride = 1

    def leave(self, drawn: bool = True) -> None:
        """Something happens that is to be looked at: so is the rest of this step. `drawn`: it has its batch."""
        clock = self._clock
        if clock.light:
            if clock.blind:
                self._left += clock.gap
                self.gaps.leave(drawn)
            clock.light = False
            self._partial = True

    def timed_ended(self, row: list[float], duration: float) -> None:
        """A light step has ended that was timed."""
        self._lights.append(duration)
        self._left -= 1
        if self._left <= 0:
            self._clock.light = False
        elif self._every > 1:
            self.gaps.timed(row, duration)
            self._open()

    def _open(self) -> None:
        """Untimed steps follow."""
        gap = min(self._left, 1 + self._chance(2 * self._every - 3))
        self._left -= gap
        self._clock.gap = gap
        self.gaps.open()

    def untimed_ended(self, now: float) -> None:
        """A step has ended that was not timed: the last before a timed one, or one with timed calls in it."""
        clock = self._clock
        self.gaps.ended(now)
        clock.gap -= 1
        if clock.gap <= 0:
            self.gaps.close()
            self.gaps.timed_begins()
            clock.light = self._left > 0

    def end(self) -> None:
        """The process ends."""
        self.gaps.close()

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
            if self._every > 1:
                self.gaps.timed_begins()
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
        budget, timing = max(SHARE * self._usual, LEAST), TIMED * self._expected
        most = max(MOST, min(MOST_QUICK, int(QUICK / self._usual)))
        stride = self._stride or min(most, 1 + int((max(self._cost, self._own) + timing) / budget))
        fewest = max(FEWEST, min(FEWEST_QUICK, int(QUICK_TIMED / self._usual)))
        every = fewest if self._stride > FEWEST else min(fewest, 1 + int(timing / budget))
        self._every = every if stride > 1 and self._simple() else 1
        spread = stride - 1
        return spread - spread // 2 + self._chance(2 * (spread // 2) + 1)

    def _simple(self) -> bool:
        """Whether the loop is one whose steps may go untimed: one optimizer, on the CPU, alone.

        Where a device or other ranks are waited for, a step's time is not shared out as in the one before.
        """
        probe, steps = self._probe, self._probe.steps
        torch = probe.torch
        alone = steps.marker == "optimizer" and len(steps.known) == 1 and not steps.nested and not steps.scaled
        if not alone or self._compiles() or probe.numerics.waits() or torch.cuda.is_initialized():
            return False
        return not (torch.distributed.is_available() and torch.distributed.is_initialized())

    def _compiles(self) -> bool:
        """Whether Dynamo is at work: it would guard on what changes from step to step."""
        utils = sys.modules.get("torch._dynamo.utils")
        return utils is not None and bool(utils.counters["frames"])

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
