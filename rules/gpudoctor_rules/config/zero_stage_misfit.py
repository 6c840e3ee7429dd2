"""Answers CFG004: the stage that suits the job."""

from collections.abc import Iterator

from gpudoctor.analysis.memory_forecasts import change_words, stage_that_fits
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.signs.memory import Choice
from gpudoctor.text import size
from gpudoctor_rules.memory.fields import answer, edits, job_of


class ZeroStageMisfitRule(Rule):
    """The fastest way to shard that fits, from the estimate."""

    answers = Code("CFG004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        job = job_of(finding, patient)
        better = stage_that_fits(job)
        if better is None:
            return
        changes: dict[str, Choice] = {name: value for name, value in better.items() if job.values[name] != value}
        projected = job.projected(**better)
        made = edits(job, changes, patient)
        yield Remedy(
            id="CFG004-stage",
            title=say("use {changes} ({peak})", changes=change_words(better), peak=size(projected.peak))
            if projected is not None
            else say("use {changes}", changes=change_words(better)),
            steps=tuple(answer(job, name, value, patient) for name, value in changes.items()),
            applicability=Applicability.UNSAFE if made else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            sets=tuple((name, str(value)) for name, value in changes.items()),
            edits=made,
        )
