"""The runs of a leak's search: one change each, judged by the growth with it beside the baseline's."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpudoctor.analysis.run.memory_growth import rise
from gpudoctor.analysis.source.retention import Retention, RetentionKind
from gpudoctor.mend.plan import make_plan
from gpudoctor.model import Code, Confidence, Finding, Measurement, Ranked, Remedy, Severity, SourceSpan, Trait
from gpudoctor.model.leak import LeakTry
from gpudoctor.model.remedy import Applicability, Effort, TextEdit
from gpudoctor.model.signs.recording import Recording
from gpudoctor.trial.arm import Arm
from gpudoctor.trial.candidates import edited_arm
from gpudoctor.trial.cure import growth_rate, memory_column
from gpudoctor.trial.trial_runner import TrialRun, TrialRunner

_GONE, _LESS = 0.2, 0.7
"""Growth as a share of the baseline's, up to which it is gone, and up to which it is less."""
_SLOWER, _SPARE = 2.5, 20.0


@dataclass(slots=True, kw_only=True)
class LeakRuns:
    """Runs changes of one leaking command, as many steps each as its baseline made."""

    bench: TrialRunner
    finding: Finding
    """Its traits say which memory grows."""
    rate: float
    """Bytes a step of the baseline."""
    steps: int
    seconds: float
    """Of the baseline."""
    deadline: float
    """On the monotonic clock."""
    doing: Callable[[str], None]
    tries: list[LeakTry] = field(default_factory=list)
    names: tuple[str, ...] = ()
    """Containers that the last run has cleared."""

    def left(self) -> bool:
        """Whether there is time for another run."""
        return time.monotonic() + _SPARE + self.seconds < self.deadline

    def run(self, change: str, arm: Arm, place: SourceSpan | None = None) -> LeakTry:
        """One run, judged and noted."""
        self.doing(change)
        limit = _SPARE + _SLOWER * self.seconds
        lap = self.bench.look(arm, steps=self.steps, seconds=limit, machine=True)
        reached = [item for rank in lap.recording.ranks for item in rank.of("override") if item.get("reached")]
        self.names = tuple(dict.fromkeys(str(name) for item in reached for name in item.get("names") or ()))
        if arm.overrides and not reached and not lap.problem:
            made = LeakTry(change=change, place=place, outcome="no place to edit")
        else:
            made = self._judged(change, place, lap)
        self.tries.append(made)
        return made

    def _judged(self, change: str, place: SourceSpan | None, lap: TrialRun) -> LeakTry:
        """The growth of a run beside the baseline's."""
        if lap.problem:
            return LeakTry(change=change, place=place, outcome="failed", reason=lap.problem)
        after = growth_rate(lap.recording, self.finding.traits)
        if after is None:
            reason = "it made too few steps to judge"
            return LeakTry(change=change, place=place, outcome="failed", reason=reason)
        gone, less = after <= _GONE * self.rate, after <= _LESS * self.rate
        return LeakTry(
            change=change,
            place=place,
            bytes_per_step=max(0.0, after),
            p=_chance(lap.recording, self.finding.traits),
            outcome="gone" if gone else "less" if less else "as before",
        )


def _chance(recording: Recording, traits: frozenset[Trait]) -> float | None:
    column = memory_column(recording, traits)
    found = [growth.trend.p for process in recording.ranks if (growth := rise(process, column)) is not None]
    return min(found) if found else None


def without(lines: Sequence[Retention]) -> Arm:
    """The program without statements."""
    return edited(tuple(edit for keeping in lines for edit in keeping.edits(RetentionKind.NOTHING)))


def edited(edits: tuple[TextEdit, ...]) -> Arm:
    """The program with these edits, in memory."""
    remedy = Remedy(
        id="leak",
        title="",
        steps=("",),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        edits=edits,
    )
    return edited_arm(make_plan([_bearer(remedy)], unsafe=True), "leak")


def _bearer(remedy: Remedy) -> Ranked:
    """A finding for the remedy, as a plan of edits wants it."""
    finding = Finding(
        code=Code("edits"), name="", severity=Severity.NOTE, confidence=Confidence.CONFIRMED, message="",
        evidence=(Measurement(name="", value=0, unit=""),),
    )  # fmt: skip
    return Ranked(rank=1, finding=finding, remedies=(remedy,), set_aside=(), reason="")
