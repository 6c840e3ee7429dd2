"""Answers OBS004: the period to evaluate at."""

from collections.abc import Iterator

from gpudoctor.analysis.run.trainer_engines import engine_setting
from gpudoctor.analysis.source.periodic_edits import thinned
from gpudoctor.analysis.source.trainer_periods import period_for, transformers_period
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, SourceSpan
from gpudoctor_checks.observability.evaluation_too_often import EvaluationTooOftenDetail
from gpudoctor_rules.observability.settings import by_setting

EVERY = 500
"""Steps between two evaluations: transformers' default."""


class EvaluationTooOftenRule(Rule):
    """Evaluate every 500 steps, or a part of the set."""

    answers = Code("OBS004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(EvaluationTooOftenDetail)
        every, edits = transformers_period(patient, "eval", EVERY)
        setting = engine_setting(detail.engine_loop, "evaluate", every)
        if setting is not None:
            yield by_setting("OBS004", setting, "eval", every, edits)
            return
        every = period_for(finding, patient, EVERY, detail.period, detail.norm)
        option = detail.option or ""
        edits = _edits(finding, patient, every)
        yield Remedy(
            id="OBS004-every",
            title=say(
                "evaluate every {every} steps ({option} {every})" if option else "evaluate every {every} steps",
                every=every,
                option=option,
            ),
            steps=(
                *((say("launch with {option} {every}", option=option, every=every),) if option else ()),
                say(
                    "if step % {every} == 0:   # around the evaluation, or once after the loop over the batches",
                    every=every,
                ),
            ),
            # Early stopping and schedulers that look at the metric see it less often.
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            override=(("every", str(every)),),
            sets=(("evaluation_period", str(every)),),
            edits=edits,
        )


def _edits(finding: Finding, patient: Patient, every: int) -> tuple[Edit, ...]:
    """The number of the guard around the evaluation, or a guard around it, where the loop reaches it."""
    detail = finding.detail_of(EvaluationTooOftenDetail)
    places = [(part.path, part.line, part.column) for part in finding.evidence if isinstance(part, SourceSpan)]
    if detail.event_line:
        inside = str(detail.event_path), int(detail.event_line or 0)
        places.insert(0, (*inside, int(detail.event_column or 0)))
    for path, line, column in places:
        edits = thinned(scripts_given(patient), path, line, column, every, block=True)
        if edits:
            return edits
    return ()
