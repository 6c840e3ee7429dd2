"""Ranks aligned by step: who is late, who waits, and what the late one does meanwhile."""

import math
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import median

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.steady_state import OTHER, Steady, counts, steady
from gpudoctor.analysis.run.trends import above_zero
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import PHASES, Process, Recording

LEAST_ALIGNED = 100
"""Steps before a straggler is named: on shared cores a rank is late now and then."""
FEW_STEPS, LONG = 40, 10.0
"""Fewer will do where they last so many seconds: no scheduler keeps one rank waiting for so long."""
FLOOR = 0.001
"""Seconds a step below which a delay is noise of the host (gloo on shared cores)."""
_SURE = 1e-3
"""One-sided p-value (Wilcoxon) above which a delay may be chance."""
_WAITING = ("backward", "collective", "sync", "optimizer")
"""Phases in which a rank waits for the others: gradients are reduced in backward, FSDP gathers there too."""
_VARIED = 0.5
"""Of the losses, the part that has to be different from each other."""
_IDLE = "device_idle"
STEP_ON_DEVICE = ("device_busy", _IDLE)
"""Columns whose sum is a step on the device's clock."""
_AWAITED = "device_collective"
_WAITING_ON_DEVICE = ("device_backward", _AWAITED, "device_optimizer")
_PARTS_ON_DEVICE = {"transfer": "device_transfer", "forward": "device_forward", "backward": "device_backward"}
_CELLS = 1 << 18
"""Ranks x steps that are looked at; of more steps, evenly spaced ones."""

_Key = tuple[int, int]
"""A row of several ranks: its last step and its number of steps."""


class Aligned:
    """Steady steps that all ranks made, side by side."""

    def __init__(self, states: Sequence[Steady], rows: Sequence[Mapping[_Key, int]], common: Sequence[_Key]) -> None:
        self._states = states
        self._by_index = rows
        self._common = common
        self._rows = [[mine[key] for key in common] for mine in rows]
        self._weights = [max(1, weight) for _, weight in common]
        self.ranks = tuple(state.process.rank for state in states)
        self.steps = len(common)
        """Steps looked at; a row of several steps counts as one."""

    @property
    def enough(self) -> bool:
        """Whether there are steps enough to tell who is late."""
        if self.steps >= LEAST_ALIGNED:
            return True
        return self.steps >= FEW_STEPS and min(map(sum, self.column("duration"))) >= LONG

    def on_device(self) -> "Aligned | None":
        """The same where every rank's device was timed: in these steps its own time can be compared, too.

        None where no rank's was: then there is the host's time alone.
        """
        if not any(state.known(_IDLE) for state in self._states):
            return None
        idles = [state.process.steps.column(_IDLE) for state in self._states]
        sides = list(zip(idles, self._rows, strict=True))
        timed = [all(len(idle) and math.isfinite(idle[rows[i]]) for idle, rows in sides) for i in range(self.steps)]
        common = [key for key, kept in zip(self._common, timed, strict=True) if kept]
        return Aligned(self._states, self._by_index, common)

    def column(self, name: str) -> list["array[float]"]:
        """Seconds a step by rank and step; 0 where not known."""
        return [self._of(state, rows, name) for state, rows in zip(self._states, self._rows, strict=True)]

    def without(self, whole: Sequence["array[float]"], *names: str) -> list["array[float]"]:
        """What is left of values by rank and step when columns are taken away."""
        rest = [array("d", mine) for mine in whole]
        for name in names:
            for mine, part in zip(rest, self.column(name), strict=True):
                for i, seconds in enumerate(part):
                    mine[i] -= seconds
        return rest

    def _of(self, state: Steady, rows: Sequence[int], name: str) -> "array[float]":
        values = state.process.steps.column(name)
        if not len(values):
            return array("d", bytes(8 * self.steps))
        found = (values[row] / weight for row, weight in zip(rows, self._weights, strict=True))
        return array("d", (value if math.isfinite(value) else 0.0 for value in found))


@frozen
class Straggler:
    """A rank for which the others wait."""

    rank: int
    seconds: float
    """How much longer than the median of the others it works in a step (median over steps)."""
    share: float
    """That over the step's duration (0..1): what its cure gives back at most."""
    p: float
    """One-sided probability of so steady a delay by chance (Wilcoxon)."""
    steps: int
    """Steps looked at."""
    parts: Mapping[str, float]
    """Seconds a step by which each of its phases is longer than the others', most first."""


@once
def aligned(recording: Recording) -> Aligned | None:
    """The ranks' steady steps side by side; None for fewer than two ranks with steps in common."""
    states = [state for state in map(steady, recording.ranks) if state.steps]
    if len(states) < 2:
        return None
    rows = [_by_index(state) for state in states]
    common = set(rows[0]).intersection(*rows[1:])
    if not common:
        return None
    ordered = sorted(common)
    stride = math.ceil(len(ordered) * len(states) / _CELLS)
    return Aligned(states, rows, ordered[::stride])


def _by_index(state: Steady) -> dict[_Key, int]:
    """Rows by last step and number of steps: thinned rows of two ranks match where both are the same."""
    weights, indices = counts(state.process), state.process.steps.column("index")
    return {(int(indices[row]), int(weights[row])): row for row in state.rows}


@once
def straggler(recording: Recording) -> Straggler | None:
    """The rank that works longest before the others can go on; None where none does so steadily.

    A rank's own work is its step without the phases in which ranks wait for each other. The culprit has the
    most of it, step by step. Judged over 100 steps or 10 s, above 1 ms, with p < 0.001.

    Where devices were timed it is their time: a host that launches work waits where it reads a value, or where
    a queue is full, whoever is late. The waits that were seen are taken away first. Where that leaves nobody, a
    backward pass may hold waits that nobody saw: those of the punctual ranks make up for the late one's work.
    """
    table = aligned(recording)
    timed = table.on_device() if table is not None else None
    if timed is None:
        return _latest(table, ("duration",), (*_WAITING, "probe"), {})
    seen = _latest(timed, STEP_ON_DEVICE, (_AWAITED,), _PARTS_ON_DEVICE)
    return seen or _latest(timed, STEP_ON_DEVICE, _WAITING_ON_DEVICE, _PARTS_ON_DEVICE)


def _latest(
    table: Aligned | None, whole: Sequence[str], waiting: Sequence[str], columns: Mapping[str, str]
) -> Straggler | None:
    """The straggler, where a step is the sum of some columns and the waiting in it that of others."""
    if table is None or not table.enough:
        return None
    durations = _sum(*(table.column(name) for name in whole))
    work = table.without(durations, *waiting)
    late = _lateness(work)
    middles = [median(mine) for mine in late]
    worst = max(range(len(late)), key=middles.__getitem__)
    seconds = middles[worst]
    p = above_zero([value - FLOOR for value in late[worst]])
    if seconds < FLOOR or p > _SURE:
        return None
    known = {name: columns.get(name, name) for name in PHASES if name not in _WAITING}
    known |= {name: column for name, column in columns.items() if column not in waiting}
    return Straggler(
        rank=table.ranks[worst],
        seconds=seconds,
        share=min(1.0, seconds / median(map(max, zip(*durations, strict=True)))),
        p=p,
        steps=table.steps,
        parts=_parts(table, work, worst, known),
    )


def _parts(table: Aligned, work: Sequence["array[float]"], worst: int, own: Mapping[str, str]) -> dict[str, float]:
    """Seconds a step by which each part of a rank's own work is longer than the others', most first: `own` has
    the column of each.
    """
    parts = {name: median(_lateness(table.column(column), worst)[0]) for name, column in own.items()}
    parts[OTHER] = median(_lateness(table.without(work, *own.values()), worst)[0])
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


def _sum(*columns: Sequence["array[float]"]) -> list["array[float]"]:
    """Columns by rank and step, added up."""
    return [array("d", map(math.fsum, zip(*mine, strict=True))) for mine in zip(*columns, strict=True)]


def _lateness(values: Sequence[Sequence[float]], only: int | None = None) -> list["array[float]"]:
    """By rank and step: how far it is above the median of the others; of one rank only, where one is named."""
    wanted = range(len(values)) if only is None else [only]
    late = [array("d") for _ in wanted]
    for at_step in zip(*values, strict=True):
        ordered = sorted(at_step)
        for row, rank in zip(late, wanted, strict=True):
            row.append(at_step[rank] - _median_without(ordered, at_step[rank]))
    return late


def _median_without(ordered: Sequence[float], one: float) -> float:
    """The median of sorted values without one of them."""
    place, rest = bisect_left(ordered, one), len(ordered) - 1

    def at(index: int) -> float:
        return ordered[index if index < place else index + 1]

    middle = rest // 2
    return at(middle) if rest % 2 else (at(middle - 1) + at(middle)) / 2


@once
def same_losses(recording: Recording) -> int:
    """Steps whose losses are equal on all ranks, bit for bit, where all common ones are: ranks with the same weights
    saw the same samples. 0 for one rank, and for a loss that mostly stands still and tells nothing.
    """
    losses = [found for process in recording.ranks if (found := _losses(process))]
    if len(losses) < 2:
        return 0
    common = set.intersection(*map(set, losses))
    equal = all(one[step] == losses[0][step] for one in losses[1:] for step in common)
    varied = len({losses[0][step] for step in common}) >= _VARIED * len(common)
    return len(common) if equal and varied else 0


def _losses(process: Process) -> dict[int, float]:
    """Step to loss, where a row is one step and the loss is finite."""
    rows = zip(*(process.steps.column(name) for name in ("index", "count", "loss")), strict=False)
    return {int(step): loss for step, count, loss in rows if count == 1 and math.isfinite(loss)}
