"""PERF013 step-time-drift."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.live.growth import step_drift
from gpudoctor.analysis.live.stack_shares import watched
from gpudoctor.analysis.run.cost_attribution import at, confirmed
from gpudoctor.analysis.run.recorded_statements import calling
from gpudoctor.analysis.run.rollouts import plays
from gpudoctor.analysis.run.steady_run import demanded, level, measured, spot
from gpudoctor.analysis.run.step_time_drift import Drift, drift, growing_lines
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, Threshold, Whose
from gpudoctor.text import duration

_EPISODES = ", which gathers experience: longer episodes are not a fault"


@dataclass(frozen=True, slots=True)
class StepTimeDriftDetail(Detail):
    """What the rule reads."""

    part: str
    """The part of the step that grows: `logging`, `other`, ..."""
    episodes: bool = False
    """It is the episodes that get longer."""


class StepTimeDrift(Check):
    """Steps take longer and longer as the run goes on.

    What it finds:
        A step time that rises along a recorded run by 5 % or more: over the run, or in an hour of it.
    Why it hurts:
        Work that grows a little with every step finally dominates it: a log that is rewritten in full, a list
        that is searched, a graph that gets longer, memory that fragments, a card that gets hot.
    How it knows:
        From a recording: the slope of Theil and Sen over the step times with the test of Mann and Kendall (p
        under 0.001), on steps of the second half as well as on the whole. The finding names the part of the
        step that rises (its own rise may be significant even if busy passes hide it), and the lines with more
        samples in the second half than in the first. The same test on the step times of a watched job, where
        `gpudoctor run` records it, from a minute on.
    False alarms:
        Lengths that rise with a curriculum, the first seconds of a cold machine: a rise that stops is not
        reported, nor is one under 100 steps. CPU time of other processes is excluded. If the program steps an
        environment, longer episodes are the likely reason, and the rise is a note.
    Remedies:
        By what grows: append instead of rewriting, keep a bounded window, detach what you keep, cool the card.
    References:
        - https://doi.org/10.1080/01621459.1968.10480934
        - https://github.com/awslabs/sagemaker-debugger
    """

    code = Code("PERF013")
    name = "step-time-drift"
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="share_noted",
            default=0.05,
            unit="1",
            source="convention: gpudoctor's own choice, no published figure is known",
            meaning="A rise by this share over the run, or in an hour of it, is a note.",
        ),
        Threshold(
            name="share_warned",
            default=0.15,
            unit="1",
            source="convention: gpudoctor's own choice, no published figure is known",
            meaning="A rise by this share over the run, or in an hour of it, is a warning.",
        ),
        Threshold(
            name="least_steps",
            default=100,
            unit="{steps}",
            source="convention: a leak counts from 50 steps; times vary more than bytes",
            meaning="Fewer steady steps are not judged.",
        ),
        Threshold(
            name="hour_seconds",
            default=600,
            unit="s",
            source="convention: a rise is extrapolated to an hour from ten minutes on",
            meaning="A shorter run is judged only by its own rise.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from step_drift(self, window, StepTimeDriftDetail)
            return
        run = demanded(patient, self.limit("least_steps"))
        found = drift(run.lead, run.recording)
        if found is None:
            return
        rise = self._rise(found)
        severity = level(rise, self.limit("share_noted"), self.limit("share_warned"))
        if severity is None:
            return
        growing = growing_lines(run.lead)
        longer = any(plays(patient, place.path, place.line) for place in growing)
        spans = [spot(patient, place) for place in growing]
        spans += [spot(patient, place) for span in spans[:1] for place in calling(patient, span)]
        yield confirmed(
            self,
            (),
            f"A step takes {duration(found.last)} at the end of the run and took {duration(found.first)} "
            "at its "
            f"start ({found.steps} steps, p={found.p:.1g}); the part that grows is {found.part}{at(spans)}"
            f"{_EPISODES if longer else ''}.",
            share=None if longer else found.lost,
            whose=Whose.STEPS,
            spans=list(dict.fromkeys(spans)),
            severity=Severity.NOTE if longer else severity,
            run=run,
            name="drift_share",
            numbers=(measured("step_time_rise", rise, "1", run.recording),),
            detail=StepTimeDriftDetail(found.part, longer),
        )

    def _rise(self, found: Drift) -> float:
        """The rise over the run, or that of an hour at the same pace where the run is long enough to tell."""
        if found.seconds < self.limit("hour_seconds"):
            return found.rise
        return max(found.rise, found.rise * 3600.0 / found.seconds)
