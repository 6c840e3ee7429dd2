"""Steps whose parts are not timed, where even that would cost too much: on the CPU, a few milliseconds long.

Of such a step its end, its wait for data and its loss are noted; hooks of model, backward pass and optimizer
let it through. The rest of its time is shared out as in the timed steps nearby, which are drawn by chance:
sums over steps are unbiased, and what is much longer than those is nobody's (`OTHER`). A call that is timed
wherever it happens (a save, a print) is taken off first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .clock import BACKWARD, COLLECTIVE, DATA_WAIT, FORWARD, OPTIMIZER, TRANSFER
from .table import AT, EMPTY, NAN, OTHER, WIDTH

if TYPE_CHECKING:
    from .probe import Probe

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
