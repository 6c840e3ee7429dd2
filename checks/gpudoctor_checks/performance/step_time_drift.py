"""PERF013 step-time-drift."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from operator import sub

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spot
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Threshold, Whose
from gpudoctor.model.records import frozen
from gpudoctor.text import duration

_SURE = 1e-3
_RISING = 0.5
"""Kendall's tau below which times go up and down."""
_STILL = 0.3
"""Slope of the second half against the whole: less is a rise that has come to rest."""
_PASSES = ("forward", "backward", "optimizer")
_OWNED = ("evaluation", "checkpoint")
"""What a step holds now and then: no part of its usual time."""


@frozen
class Drift:
    """A step time that rises."""

    first: float
    """Fitted seconds of a step at the beginning."""
    last: float
    """And at the end."""
    steps: int
    seconds: float
    """Of the steps looked at."""
    part: str
    """The phase that rises most, `other` included."""

    @property
    def rise(self) -> float:
        """The rise over the run as a share of a step at its beginning."""
        return self.last / self.first - 1.0

    @property
    def lost(self) -> float:
        """Share of the run's time that is above what its steps took at the beginning."""
        middle = (self.first + self.last) / 2
        return max(0.0, 1.0 - self.first / middle)


class StepTimeDrift(Check):
    """Steps take longer and longer as the run goes on.

    What it finds:
        A step time that rises by 5 % or more along a recorded run, or in an hour of it.
    Why it hurts:
        Work that grows a little with every step finally dominates it. Examples: a log that is rewritten, a list
        that is searched, a longer graph, fragmented memory, a hot card.
    How it knows:
        From a recording: Theil-Sen slope over the step times with a Mann-Kendall test (p under 0.001). The
        second half of the run must show it as well as the whole. The finding names the part of the step that
        rises. It also names the lines with more samples in the second half than in the first.
    False alarms:
        Lengths that rise with a curriculum, and the first seconds of a cold machine. A rise that stops is not
        reported, nor is one under 100 steps. CPU time of other processes is excluded. A program that steps an
        environment is not judged: its episodes get longer.
    Remedies:
        By what grows: append instead of rewriting, keep a bounded window, detach what you keep, cool the card.
    References:
        - https://doi.org/10.1080/01621459.1968.10480934
    """

    code = "PERF013"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        *Threshold.note_and_warning(
            "A rise by this share over the run, or in an hour of it, is", noted=0.05, warned=0.15
        ),
        Threshold(
            "least_steps",
            100,
            "{steps}",
            "convention: a leak counts from 50 steps; times vary more than bytes",
            "Fewer steady steps are not judged.",
        ),
        Threshold(
            "hour_seconds",
            600,
            "s",
            "convention: a rise is extrapolated to an hour from ten minutes on",
            "A shorter run is judged only by its own rise.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, self.limit("least_steps"))
        if of_run.gathers(patient):
            return  # in reinforcement learning the episodes get longer
        found = _drift(run.lead, run.recording)
        if found is None:
            return
        # That of an hour at the same pace where the run is long enough to tell.
        hours = max(1.0, 3600.0 / found.seconds) if found.seconds >= self.limit("hour_seconds") else 1.0
        rise = found.rise * hours
        severity = self.level(rise)
        if severity is None:
            return
        growing = _growing_lines(run.lead)
        spans = [spot(patient, place) for place in growing]
        spans += of_run.callers(patient, spans[:1])
        yield of_run.seen_in_run(run, found.lost, spans, whose=Whose.STEPS).finding(
            self,
            say(
                "A step takes {late} at the end of the run and took {early} at its start ({steps} steps). "
                "The part that grows is {part}{where}.",
                late=duration(found.last),
                early=duration(found.first),
                steps=found.steps,
                part=found.part,
                where=of_run.at(spans),
            ),
            name="drift_share",
            severity=severity,
            detail=Facts(part=found.part),
            numbers=(run.measured("step_time_rise", rise),),
        )


def _drift(state: "of_run.Steady", recording: "of_run.Recording") -> Drift | None:
    """The rise of the step time, without what comes now and then; None where none is sure and goes on.

    Where others crowd the CPUs, a pass that takes longer says nothing.
    """
    every = of_run.counts(state.process)
    weights = [every[row] for row in state.rows]
    columns = {name: _each(state, name, weights) for name in ("duration", *of_run.PHASES)}
    usual = _without(columns, _OWNED)
    indices = state.values("index")
    found = of_run.trend(indices, usual)
    if found is None or found.slope <= 0 or found.first <= 0:
        return None
    part = _part(indices, columns)
    if not _rises(found) or (part in _PASSES and of_run.crowd(recording) is not None):
        return None
    return Drift(first=found.first, last=found.last, steps=state.steps, seconds=state.seconds, part=part)


def _rises(found: "of_run.Trend") -> bool:
    """Whether a rise is sure, goes nearly always up, and goes on."""
    return found.p <= _SURE and found.rising >= _RISING and found.late_slope >= _STILL * found.slope > 0


def _each(state: "of_run.Steady", name: str, weights: Sequence[float]) -> "array[float]":
    """A column by step; zeros where it was not recorded or not known."""
    values = state.values(name) or [0.0] * len(weights)
    each = (value / weight if value == value else 0.0 for value, weight in zip(values, weights, strict=True))
    return array("d", each)


def _without(columns: Mapping[str, "array[float]"], names: Sequence[str]) -> "array[float]":
    """The durations without what some phases took."""
    parts = [columns[name] for name in names if any(columns[name])]
    taken = map(sum, zip(*parts, strict=True)) if parts else repeat(0.0)
    return array("d", map(sub, columns["duration"], taken))


def _part(indices: list[float], columns: Mapping[str, "array[float]"]) -> str:
    """The part of the step whose own trend rises most."""
    rest = _without(columns, of_run.PHASES)
    parts = {name: rest if name == "other" else columns[name] for name in of_run.PARTS}
    found = {name: of_run.trend(indices, values) if any(values) else None for name, values in parts.items()}
    return max(found, key=lambda name: one.growth if (one := found[name]) is not None else 0.0)


def _growing_lines(state: "of_run.Steady") -> "list[of_run.LinePlace]":
    """At most three lines of the user that take more of the samples in the second half of the steps.

    The sampler looks at a constant pace, so more samples are more time.
    """
    middle = (state.begin + state.end) / 2
    early: dict[tuple[str, int], float] = {}
    late: dict[tuple[str, int], float] = {}
    functions: dict[tuple[str, int], str] = {}
    for record in state.process.of("lines"):
        if not state.begin <= record.t:
            continue
        half = early if record.t <= middle else late
        for _, path, line, function, count in record.get("counts") or ():
            if path is not None:
                key = (str(path), int(line or 0))
                half[key] = half.get(key, 0.0) + count
                functions[key] = str(function or "")
    total = {key: late.get(key, 0.0) - early.get(key, 0.0) for key in late}
    sums = sum(late.values())
    found = [key for key in sorted(total, key=lambda key: -total[key]) if total[key] > 0.05 * sums]
    return [of_run.LinePlace(path=path, line=line, function=functions[path, line]) for path, line in found[:3]]
