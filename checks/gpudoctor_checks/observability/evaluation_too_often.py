"""OBS004: the training stops for an evaluation every few steps."""

import re
from collections.abc import Iterator, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import Observation
from gpudoctor.analysis.run.steady_run import Run, hot_lines
from gpudoctor.analysis.source.call_frequency import full_batch, known_period, often
from gpudoctor.lang import say, template
from gpudoctor.model import Finding, Patient, Reads, Severity, Threshold, Trait, Whose
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import replace
from gpudoctor.model.signs.source import Event, Loop, LoopRole
from gpudoctor_checks.declared import PeriodDetail, measured
from gpudoctor_checks.run_check import RecurringCheck
from gpudoctor_checks.thresholds import EVENTS

_EVALUATES = re.compile(r"eval|valid|test|(^|[_.])val(_|$)", re.IGNORECASE)
"""In the function or the loader of a loop that evaluates; others may be a part of the step."""


class EvaluationTooOften(RecurringCheck):
    """The training stops for a whole evaluation every few steps.

    What it finds:
        A loop that evaluates the model over another loader inside the training loop, or in a function that it
        calls. It runs on every pass or more often than every 50 passes.
    Why it hurts:
        An evaluation over 100 batches costs as much as 30 to 50 training steps. A forward pass is about a third
        of a step. Every 10 steps, the job spends three quarters of its time on it.
    How it knows:
        From the source: which loop evaluates (a forward without backward, over a loader). It also reads where
        the training loop reaches it, and under which conditions. More often than every 50 steps is a note. The
        cost depends on the size of the set, which only a run shows. From a recording:
        the time in evaluations.
    False alarms:
        A validation set of one or two batches. An evaluation once an epoch, or in a loop whose pass is an
        epoch, is not reported. Neither is one behind a switch that is off. A loop counts only if its function or
        its loader is named after an evaluation.
    Remedies:
        Evaluate every 500 steps or once an epoch, over a part of the set in between.
    References:
        - https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments.eval_steps
    """

    code = "OBS004"
    phase = "evaluation"
    measures = template("evaluation share")
    whose = Whose.DEVICE
    sentence = template("Evaluation takes {cost}{often}{where}.")
    traits = frozenset({Trait.IN_EVALUATION})
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(
            "eval_period",
            50,
            "{steps}",
            "a tenth of transformers' default of 500 steps",
            "Evaluating more often than once in this many steps is a finding.",
        ),
        *Threshold.note_and_warning("Evaluation that takes this share of a recorded run is", noted=0.15, warned=0.30),
        EVENTS,
    )

    def recurs(self, patient: Patient, seen: Observation, suspected: Sequence[Finding]) -> Iterator[Finding]:
        if not of_run.gathers(patient):  # a policy that acts in eval mode looks like an evaluation
            yield from super().recurs(patient, seen, suspected)

    def seen(self, patient: Patient, run: Run) -> Observation:
        owners = (of_run.LineOwner.EVALUATION,)
        seen = of_run.price(patient, run, phases=(self.phase,), owners=owners, whose=self.whose)
        spans = [*seen.spans, *hot_lines(patient, run, self.phase)][:4]
        spans = list(dict.fromkeys((*spans, *of_run.callers(patient, spans[:2]))))
        return of_run.recurring_in_run(run, replace(seen, spans=tuple(spans), where=of_run.at(spans)), self.phase)

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        said: set[tuple[str, int]] = set()
        for _, loop in patient.source.training_loops:
            best: dict[Loop | None, tuple[float, Event]] = {}
            for event in loop.events if not (full_batch(loop) or loop.engine) else ():  # where a pass is no epoch
                own = next((item for item in event.inner if item.role is LoopRole.EVALUATION), None)
                period = known_period(event)
                known = best[own][0] if own in best else self.limit("eval_period")
                if own is not None and period is not None and period < known:
                    best[own] = period, event
            for own, (period, event) in best.items():
                assert own is not None
                span = event.via[0] if event.via else own.span
                place = (span.path, span.line)
                named = _EVALUATES.search(own.function.rpartition(".")[2]) or _EVALUATES.search(own.iterates)
                if place not in said and own.confident and named:
                    said.add(place)
                    yield self._found(loop, own, period, span)

    def _found(self, loop: Loop, own: Loop, period: float, span: SourceSpan) -> Finding:
        return self.finding(
            say(
                "The model is evaluated {often}{where}; the norm is a period of {limit:.0f} steps or more.",
                often=often(period),
                where=say(" (the loop over {iterable} at line {line})", iterable=own.iterates, line=own.span.line),
                limit=self.limit("eval_period"),
            ),
            evidence=(*dict.fromkeys((span, own.span)), measured("steps_between_evaluations", period, "{steps}", loop)),
            severity=Severity.NOTE,
            detail=PeriodDetail(period=period, norm=self.limit("eval_period")),
        )
