"""Which steps are looked at closely: all, where steps are long; one of a few, where looking would cost too
much.

In between, steps are light. Their phases are timed, their calls counted and their loss is read as ever; what
is left for the steps that are watched are questions about batch, model, gradients and memory. Whatever does
not go as in the watched steps before (another loader, an evaluation, a bad loss) ends the lightness at once.
Where even that costs too much, most of the light steps are not timed either (`Gaps`).
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING

from .clock import BACKWARD, COLLECTIVE, DATA_WAIT, FORWARD, OPTIMIZER, TRANSFER
from .table import AT, EMPTY, NAN, OTHER, WIDTH

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


# Steps whose parts are not timed, where even that would cost too much: on the CPU, a few milliseconds long.
#
# Of such a step its end, its wait for data and its loss are noted; hooks of model, backward pass and optimizer
# let it through. The rest of its time is shared out as in the timed steps nearby, which are drawn by chance:
# sums over steps are unbiased, and what is much longer than those is nobody's (`OTHER`). A call that is timed
# wherever it happens (a save, a print) is taken off first.

_PHASES = (TRANSFER, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE)
_COUNTS = tuple(AT[name] for name in ("backwards", "batches", "samples", "tokens", "padding"))
_PLACES = (*_PHASES, DATA_WAIT, *_COUNTS)
_COUNT, _T, _LOSS, _DURATION, _LONGEST_STEP, _RSS = (
    AT[name] for name in ("count", "t", "loss", "duration", "longest", "rss")
)
_MEMORY = 0.15
"""Weight of the newest timed step in what steps are like."""
_LONGEST = 2.0
"""How much longer than a timed step one may be and still be like it."""


End = tuple[float, float, float]
"""Of an untimed step: its end, its wait for data, its loss."""


class Gaps:
    """Keeps what is known of untimed steps until their rows are made."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self.renew()

    def renew(self) -> None:
        """In a new process."""
        self._clock.blind = self._clock.deep = self._clock.stepping = False
        self._clock.waited = 0.0
        self._clock.loss = NAN
        self.ends: list[End] = []
        """End, wait for data and loss of each."""
        self.mark = 0.0
        """When the last timed step ended, or a call that was timed in an untimed one."""
        self._other = 0.0
        self._like: list[float] = []
        """Seconds of the phases in a timed step, and of all but its wait for data."""
        self._shares: list[tuple[int, float]] = []
        """Places and seconds of the phases that take any."""
        self._pattern: list[float] = [*EMPTY[:WIDTH]]
        """The row of one untimed step, without what differs between them."""
        self._pattern[_COUNT] = 1.0
        self._counts: list[float] = []
        self._base: list[float] | None = None
        """What the row in the making had of them before the timed step; None where that was empty."""

    # -- timed steps

    def timed_begins(self) -> None:
        """A step begins that is to be timed."""
        row = self._clock.row
        self._base = [row[place] for place in _PLACES] if row[_COUNT] else None

    def timed(self, row: list[float], duration: float) -> None:
        """It has ended, in this row (which may hold others before it): what steps are like."""
        more = [row[place] for place in _PLACES]
        if self._base is not None:
            more = [b - a if a == a else b for a, b in zip(self._base, more)]
        size = len(_PHASES)
        like = [*more[:size], duration - more[size]]
        self._counts = more[size + 1 :]
        if self._like:
            like = [old + _MEMORY * (new - old) for old, new in zip(self._like, like)]
        self._like = like
        self._shares = [(place, seconds) for place, seconds in zip(_PHASES, like) if seconds]
        pattern = self._pattern
        for place, amount in zip(_COUNTS, self._counts):
            pattern[place] = amount

    # -- untimed ones

    def open(self) -> None:
        """The next step is untimed."""
        clock = self._clock
        self.mark = clock.mark
        self._other = clock.row[OTHER]
        clock.loss = NAN
        clock.error = 0  # another exception may get the same place in memory, and no hook sees it pass
        clock.blind = clock.deep = True

    def ended(self, now: float) -> None:
        """An untimed step has ended."""
        clock, steps = self._clock, self._probe.steps
        if clock.mark == self.mark:
            self.ends.append((now, clock.waited, clock.loss))
            clock.waited = 0.0
            steps.index += 1
        else:  # calls were timed in it
            self._catch_up()
            self._spread()
            self._count(clock.row, 0)
            steps.put(steps.index, clock.mark)
            self.mark, self._other = clock.mark, clock.row[OTHER]
            steps.index += 1

    def close(self) -> None:
        """The next step is timed, or this one is from here on; rows of those before are made."""
        clock = self._clock
        clock.blind = clock.deep = clock.stepping = False
        self._catch_up()

    def leave(self, drawn: bool) -> None:
        """The step in the making is watched from here on; whether it has its batch, if it waited for one."""
        self.close()
        if self._spread() and drawn:
            self._count(self._clock.row, 1)

    def _catch_up(self) -> None:
        """Make the rows of the untimed steps that have ended."""
        ends, self.ends = self.ends, []
        if not ends:
            return
        clock, steps = self._clock, self._probe.steps
        touched = clock.mark != self.mark
        mine, own = clock.row, 0.0
        if touched:  # what the step in the making was charged with began at the first of these
            mine[OTHER] -= ends[-1][0] - steps.last
            own = mine[OTHER] - self._other
            if not mine[_COUNT]:
                clock.row = [*EMPTY]
        else:
            clock.mark = self.mark = ends[-1][0]
        if touched or not steps.plain():
            for index, (now, waited, loss) in enumerate(ends, steps.index - len(ends)):
                self._put(index, now, waited, loss)
        else:
            self._put_all(ends)
        if touched and mine[_COUNT] == 0:
            steps.finish()
            clock.row = mine
        self._other = clock.row[OTHER] - own

    def _put_all(self, ends: list[End]) -> None:
        """The same for steps of which there is nothing else to say.

        Written out: a call of each step's own would cost more than everything that its hooks do.
        """
        steps, table = self._probe.steps, self._probe.table
        at, size = 0, len(ends)
        first = steps.index - size
        steps.backwards += int(self._counts[0]) * size
        if table.takes(size) and not self._clock.row[_COUNT]:
            table.extend(self._rows(first, ends), size)
            return
        while at < size:
            row = self._clock.row
            until = min(size, at + max(1, table.room - int(row[_COUNT])))
            self._put_chunk(row, first + until - 1, ends[at:until])
            at = until
            if row[_COUNT] >= table.room:
                steps.finish()

    def _rows(self, index: int, ends: list[End]) -> list[float]:
        """Rows of one step each, one after the other."""
        steps, started = self._probe.steps, self._clock.started
        shares, whole = self._shares, self._like[-1]
        limit = _LONGEST * whole
        values: list[float] = []
        last = steps.last
        pattern = self._pattern
        for now, waited, loss in ends:
            row = pattern.copy()
            row[0] = index
            row[_T] = now - started
            row[_DURATION] = row[_LONGEST_STEP] = duration = now - last
            row[DATA_WAIT] = waited
            own = duration - waited
            scale = (own if own < limit else limit) / whole if whole else 0.0
            for place, seconds in shares:
                row[place] = seconds * scale
            row[_LOSS] = loss
            values += row
            last = now
            index += 1
        steps.last = last
        steps.put_memory(values, _RSS - WIDTH)
        return values

    def _put_chunk(self, row: list[float], index: int, ends: list[End]) -> None:
        """Steps that go into one row; `index` is the last one's."""
        steps = self._probe.steps
        whole = self._like[-1]
        limit = _LONGEST * whole
        begin = last = steps.last
        shared = wait = 0.0
        longest = row[_LONGEST_STEP]
        for now, waited, loss in ends:
            duration = now - last
            last = now
            if duration > longest:
                longest = duration
            wait += waited
            own = duration - waited
            shared += own if own < limit else limit
            if loss == loss:
                row[_LOSS] = loss
        steps.last = last
        steps.put_memory(row)
        count = len(ends)
        total = last - begin
        row[:5] = index, row[_COUNT] + count, last - self._clock.started, row[_DURATION] + total, longest
        row[DATA_WAIT] += wait
        row[OTHER] += total - wait
        if whole > 0.0:
            scale = shared / whole
            for place, seconds in zip(_PHASES, self._like):
                if seconds:
                    seconds *= scale
                    row[place] += seconds
                    row[OTHER] -= seconds
        for place, amount in zip(_COUNTS, self._counts):
            before = row[place]
            row[place] = before + amount * count if before == before else amount * count

    def _put(self, index: int, now: float, waited: float, loss: float) -> None:
        clock, steps = self._clock, self._probe.steps
        row = clock.row
        own = now - steps.last - waited
        row[DATA_WAIT] += waited
        row[OTHER] += own
        self._share(row, own)
        self._count(row, 0)
        if loss == loss:
            row[_LOSS] = loss
        steps.put(index, now)

    def _spread(self) -> float:
        """What is known of the step in the making goes into its row; returns its wait for data."""
        clock = self._clock
        clock.switch(clock.phase)
        row, waited = clock.row, clock.waited
        row[DATA_WAIT] += waited
        row[OTHER] -= waited
        if clock.loss == clock.loss:
            row[_LOSS] = clock.loss
        self._share(row, row[OTHER] - self._other)
        clock.waited = 0.0
        clock.loss = NAN
        return waited

    def _share(self, row: list[float], own: float) -> None:
        """Share out so many seconds, that are now nobody's, as in a timed step."""
        like = self._like
        whole = like[-1]
        scale = min(own / whole, _LONGEST) if whole > 0.0 else 0.0
        for place, seconds in zip(_PHASES, like):
            if seconds:
                seconds *= scale
                row[place] += seconds
                row[OTHER] -= seconds

    def _count(self, row: list[float], first: int) -> None:
        """Count backward passes (but not from `first` 1 on) and batches as in a timed step."""
        counts = self._counts
        for place, count in zip(_COUNTS[first:], counts[first:]):
            before = row[place]
            row[place] = before + count if before == before else count
        if not first:
            self._probe.steps.backwards += int(counts[0])
