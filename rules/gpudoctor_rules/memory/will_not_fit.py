"""Answers MEM004: the changes that make the job fit, with the bytes that each gives back."""

from collections.abc import Iterator

from gpudoctor.analysis.memory_forecasts import change_words, command
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effect, EffectOrigin, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.signs.memory import Holds, JobMemory, Projection
from gpudoctor.text import size
from gpudoctor_rules.memory.fields import answer, edits

_ONE_SETTING = frozenset({"checkpointing", "batch", "optimizer", "loss"})


class WillNotFitRule(Rule):
    """What fits, cheapest change first: single changes that are enough, else the fewest that together are."""

    answers = Code("MEM004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        job = next(job for job in patient.memory if job.title == finding.subject)
        enough = [cut for cut in job.cuts if cut.holds is Holds.FITS]
        for cut in enough or job.cuts:
            yield _remedy(job, cut, patient)
        yield Remedy(
            id="MEM004-search",
            title="search what fits",
            steps=(f"gpudoctor estimate {command(job)} --fit",),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.REWRITE,
        )


def _remedy(job: JobMemory, cut: Projection, patient: Patient) -> Remedy:
    changes = dict(cut.changes)
    gives = job.now.peak - cut.peak
    fits = {Holds.FITS: say("fits"), Holds.TIGHT: say("is tight"), Holds.NOT: say("is not enough alone")}[cut.holds]
    made = edits(job, changes, patient)
    return Remedy(
        id="MEM004-" + "-".join(f"{name}-{value}".replace("_", "-") for name, value in changes.items()),
        title=say(
            "use {change_words}: {peak}, {fits}", change_words=change_words(changes), peak=size(cut.peak), fits=fits
        ),
        steps=tuple(answer(job, name, value, patient) for name, value in changes.items()),
        applicability=Applicability.UNSAFE if made else Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE if changes.keys() <= _ONE_SETTING else Effort.SMALL_EDIT,
        effect=Effect(quantity="memory", low=gives, high=gives, unit="B", provenance=EffectOrigin.ESTIMATE),
        sets=tuple((name, str(value)) for name, value in changes.items()),
        edits=made,
    )
