"""Answers OBS004: the period to evaluate at."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.reading.cadence import event_at, less_often
from gpudoctor.model.reading.recordings.engines import engine_setting
from gpudoctor.model.signs.source import Known
from gpudoctor.model.workload import scripts_given

EVERY = 500
"""Steps between two evaluations: transformers' default."""


class EvaluationTooOftenRule(Rule):
    """Evaluate every 500 steps, or a part of the set."""

    answers = Code("OBS004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        setting = engine_setting(finding, "evaluate", EVERY)
        if setting is not None:
            yield Remedy(
                id="OBS004-setting",
                title=setting[0],
                steps=(setting[1],),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
                sets=(("evaluation_period", str(EVERY)),),
            )
            return
        option = str(finding.fact("option") or "")
        edits = _edits(finding, patient)
        yield Remedy(
            id="OBS004-every",
            title=f"evaluate every {EVERY} steps" + (f" ({option} {EVERY})" if option else ""),
            steps=(
                *((f"launch with {option} {EVERY}",) if option else ()),
                f"if step % {EVERY} == 0:   # around the evaluation, or once after the loop over the batches",
            ),
            # Early stopping and schedulers that look at the metric see it less often.
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            override=(("every", str(EVERY)),),
            sets=(("evaluation_period", str(EVERY)),),
            edits=edits,
        )
        yield Remedy(
            id="OBS004-part",
            title="a fixed part of the set between whole evaluations",
            steps=("for batch in itertools.islice(val_loader, 10):   # whole once an epoch",),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )


def _edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The number of the guard around the evaluation, or a guard around the call in the loop's own text."""
    span = finding.span
    for script, loop in scripts_given(patient).training_loops if span is not None else ():
        if span is None or script.path != span.path or loop.span.line != finding.fact("loop_line"):
            continue
        inside = event_at(
            loop,
            int(finding.fact("event_line") or 0),
            int(finding.fact("event_column") or 0),
            str(finding.fact("event_path")),
        )
        if inside is not None and inside.period != Known(value=1, origin="unguarded"):
            return less_often(script, loop, inside, EVERY, block=True)
        event = event_at(loop, span.line, span.column, span.path)
        if event is not None:
            return less_often(script, loop, event, EVERY)
    return ()
