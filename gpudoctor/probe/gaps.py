"""Steps whose parts are not timed, where even that would cost too much: on the CPU, a few milliseconds long.

Of such a step its end, its wait for data and its loss are noted; hooks of model, backward pass and optimizer
let it through. The rest of its time is shared out as in the timed steps nearby, which are drawn by chance:
sums over steps are unbiased, and what is much longer than those is nobody's (`OTHER`). A call that is timed
wherever it happens (a save, a print) is taken off first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .clock import BACKWARD, COLLECTIVE, DATA_WAIT, FORWARD, OPTIMIZER, TRANSFER
from .table import AT, EMPTY, NAN, OTHER

if TYPE_CHECKING:
    from .probe import Probe

_PHASES = (TRANSFER, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE)
_COUNTS = tuple(AT[name] for name in ("backwards", "batches", "samples", "tokens", "padding"))
_COUNT, _LOSS = AT["count"], AT["loss"]
_MEMORY = 0.15
"""Weight of the newest timed step in what steps are like."""
_LONGEST = 2.0
"""How much longer than a timed step one may be and still be like it."""


class Gaps:
    """Keeps what is known of untimed steps until their rows are made."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self.renew()

    def renew(self) -> None:
        """In a new process."""
        self._clock.blind = self._clock.deep = False
        self._clock.waited = 0.0
        self._clock.loss = NAN
        self.ends: list[tuple[float, float, float]] = []
        """End, wait for data and loss of each."""
        self.mark = 0.0
        """When the last timed step ended, or a call that was timed in an untimed one."""
        self._other = 0.0
        self._like: list[float] = []
        """Seconds of the phases in a timed step, and of all but its wait for data."""
        self._counts: list[float] = []
        self._base: list[float] = []
        """What the row in the making had of them before the timed step."""

    # -- timed steps

    def timed_begins(self) -> None:
        """A step begins that is to be timed."""
        row = self._clock.row
        self._base = [row[place] for place in (*_PHASES, DATA_WAIT, *_COUNTS)]

    def timed(self, row: list[float], duration: float) -> None:
        """It has ended, in this row (which may hold others before it): what steps are like."""
        now = [row[place] for place in (*_PHASES, DATA_WAIT, *_COUNTS)]
        more = [b - a if a == a else b for a, b in zip(self._base, now)]
        size = len(_PHASES)
        like = [*more[:size], duration - more[size]]
        self._counts = more[size + 1 :]
        if self._like:
            like = [old + _MEMORY * (new - old) for old, new in zip(self._like, like)]
        self._like = like

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
        clock.blind = clock.deep = False
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
        for index, (now, waited, loss) in enumerate(ends, steps.index - len(ends)):
            self._put(index, now, waited, loss)
        if touched and mine[_COUNT] == 0:
            steps.finish()
            clock.row = mine
        self._other = clock.row[OTHER] - own

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
