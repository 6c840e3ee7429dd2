"""Other processes on the machine's CPUs: what they took of them beside the run, and when."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, median

from gpudoctor.model.reading.once import once
from gpudoctor.model.reading.recordings.numbers import started, steady_window
from gpudoctor.model.signs.recording import Process, Recording

_FULL = 0.9
"""Busy share of all CPUs from which on who wants one waits for it."""
_MUCH = 0.15
"""Share of all CPUs that others take; less is what any machine does beside."""
_LEAST = 5
"""Samples, one a second."""
_AROUND = 2
"""Samples before and after one that smooth it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Others that kept the CPUs busy while the run wanted them."""

    others: float
    """CPUs that they took, the median over steady state."""
    cpus: int
    """Of so many."""
    times: Sequence[float]
    """Seconds on the machine's clock..."""
    got: Sequence[float]
    """...and CPUs that the run got then."""

    def got_at(self, t: float) -> float:
        """CPUs that the run got around a time."""
        at = min(bisect_left(self.times, t), len(self.times) - 1)
        return fmean(self.got[max(0, at - _AROUND) : at + _AROUND + 1])


@once
def crowd(recording: Recording) -> Crowd | None:
    """None where CPUs were idle, where the run itself took them, or where nobody can tell.

    On a machine of which the run may use some CPUs only, how busy all are says nothing of those.
    """
    facts, machine = recording.machine_facts, recording.machine
    cpus = facts.get("cpus")
    if not isinstance(cpus, int) or facts.get("machine_cpus", cpus) != cpus or len(recording.nodes) > 1:
        return None
    begin, end = steady_window(recording)
    columns = (machine.column(name) for name in ("t", "cpu", "tree_cpu"))
    rows = [row for row in zip(*columns, strict=False) if begin <= row[0] <= end and all(map(isfinite, row))]
    if len(rows) < _LEAST:
        return None
    others = median(busy - mine for _, busy, mine in rows)
    if median(busy for _, busy, _ in rows) < _FULL * cpus or others < _MUCH * cpus:
        return None
    return Crowd(
        others=min(others, float(cpus)),
        cpus=cpus,
        times=tuple(row[0] for row in rows),
        got=tuple(row[2] for row in rows),
    )


def fairness(recording: Recording, process: Process, ends: Sequence[float]) -> list[float]:
    """By the end of each step: CPUs that the run got then over those it got on average; ones in no crowd.

    A step's seconds times that are what it would have taken had it been served evenly.
    """
    found, begun = crowd(recording), started(recording)
    usual = fmean(found.got) if found is not None else 0.0
    if found is None or begun is None or not usual:
        return [1.0] * len(ends)
    return [found.got_at(end + process.wall - begun) / usual for end in ends]
