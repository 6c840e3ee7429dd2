"""The machine's CPUs: what the run used of them and what other processes took beside it."""

from math import isfinite
from statistics import fmean, median

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.run_numbers import steady_window
from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Recording

BESIDE_OTHERS = say("; other processes kept all CPUs busy, and each write gives them its CPU")
"""What makes writing look dearer than it is."""
_FULL = 0.9
"""Busy share of all CPUs from which on who wants one waits for it."""
_MUCH = 0.15
"""Share of all CPUs that others take; less is what any machine does beside."""
_LEAST = 5
"""Samples, one a second, by which others are blamed."""
_FEW = 2
"""Samples that say how busy the CPUs are: each is the mean of a second."""
_PART = 0.25
"""Share of the samples with a crowd from which on it bears on the run's times."""


@frozen
class CpuContention:
    """Others that kept the CPUs busy while the run wanted them."""

    others: float
    """CPUs that they took, the median over the samples with a crowd."""
    share: float
    """Share of steady state with a crowd."""
    cpus: int
    """Of so many."""


@frozen
class CpuUse:
    """CPUs in steady state, medians of a sample a second."""

    job: float
    """CPUs that the processes of the command used."""
    reach: float
    """CPUs that it could have used: those of the machine or of its limit, less what others took."""


@once
def cpu_use(recording: Recording) -> CpuUse | None:
    """What the job used of the CPUs of its only machine; None where too little was sampled."""
    cpus = recording.machine_facts.get("cpus")
    rows = _samples(recording)
    if not isinstance(cpus, int | float) or cpus <= 0 or len(recording.nodes) > 1 or len(rows) < _FEW:
        return None
    own = recording.machine_facts.get("machine_cpus", cpus) != cpus  # others may have been on other CPUs
    others = 0.0 if own else median(max(0.0, busy - mine) for _, busy, mine in rows)
    return CpuUse(job=median(mine for *_, mine in rows), reach=max(1.0, cpus - others))


def _samples(recording: Recording) -> list[tuple[float, ...]]:
    """Time, busy CPUs, and those of the command's processes, in steady state."""
    begin, end = steady_window(recording)
    columns = (recording.machine.column(name) for name in ("t", "cpu", "tree_cpu"))
    return [row for row in zip(*columns, strict=False) if begin <= row[0] <= end and all(map(isfinite, row))]


@once
def crowd(recording: Recording) -> CpuContention | None:
    """None where CPUs were idle, where the run itself took them, or where nobody can tell.

    On a machine of which the run may use some CPUs only, how busy all are says nothing of those.
    """
    facts = recording.machine_facts
    cpus = facts.get("cpus")
    if not isinstance(cpus, int) or facts.get("machine_cpus", cpus) != cpus or len(recording.nodes) > 1:
        return None
    rows = _samples(recording)
    if len(rows) < _LEAST:
        return None
    full = [busy >= _FULL * cpus and busy - mine >= _MUCH * cpus for _, busy, mine in rows]
    share = fmean(full)
    if share < _PART or sum(full) < _LEAST:
        return None
    others = median(busy - mine for crowded, (_, busy, mine) in zip(full, rows, strict=True) if crowded)
    return CpuContention(others=min(others, float(cpus)), share=share, cpus=cpus)
