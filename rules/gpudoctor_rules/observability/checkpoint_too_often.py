"""Answers OBS003: the period to save at."""

from collections.abc import Iterator

from gpudoctor.analysis.run.trainer_engines import engine_setting
from gpudoctor.analysis.source.periodic_edits import thinned
from gpudoctor.analysis.source.trainer_periods import period_for, transformers_period
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.observability.checkpoint_too_often import CheckpointTooOftenDetail
from gpudoctor_rules.observability.settings import by_setting

EVERY = 500
"""Steps between two saves: transformers' default."""
NEAR = 50
"""Where no edit can save once more at the end: the check's limit, so that no more steps than that are lost."""


class CheckpointTooOftenRule(Rule):
    """Save every 500 steps; write in the background."""

    answers = Code("OBS003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(CheckpointTooOftenDetail)
        every, edits = transformers_period(patient, "save", EVERY)
        setting = engine_setting(detail.engine_loop, "save", every)
        if setting is not None:
            yield by_setting("OBS003", setting, "save", every, edits)
            return
        every, option = period_for(finding, patient, EVERY, detail.period, detail.norm), (detail.option or "")
        edits = _edits(finding, patient, every, last=True)
        if not edits and (
            closer := _edits(
                finding, patient, period_for(finding, patient, NEAR, detail.period, detail.norm), last=False
            )
        ):
            every, edits = period_for(finding, patient, NEAR, detail.period, detail.norm), closer
        steps = [say("if step % {every} == 0:   # around the save, and one more save after the loop", every=every)]
        if option:
            steps.insert(0, say("launch with {option} {every}", option=option, every=every))
        yield Remedy(
            id="OBS003-every",
            title=say(
                "save every {every} steps ({option} {every})" if option else "save every {every} steps",
                every=every,
                option=option,
            ),
            steps=tuple(steps),
            # The files that a run leaves behind are other ones: not the same result.
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            override=(("every", str(every)),),
            sets=(("save_period", str(every)),),
            edits=edits,
        )


def _edits(finding: Finding, patient: Patient, every: int, *, last: bool) -> tuple[Edit, ...]:
    """Fewer saves, and one after the loop, so that the last state is kept."""
    span = finding.span
    if span is None:
        return ()
    return thinned(scripts_given(patient), span.path, span.line, span.column, every, last=last)
