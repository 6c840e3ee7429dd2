"""Answers CFG003: one optimizer, one rate, one schedule."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.config.optimizer_mismatch import OptimizerMismatchDetail
from gpudoctor_rules.config.placing import auto_remedy, settings


class OptimizerMismatchRule(Rule):
    """Leave the numbers to the training arguments, and one optimizer to one place."""

    answers = Code("CFG003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        cure = finding.detail_of(OptimizerMismatchDetail).cure
        items = [item for _, item in settings(finding, patient)]
        if cure == "auto" and items:
            yield auto_remedy(finding, patient, items[0].key)
        elif cure == "drop":
            yield Remedy(
                id="CFG003-drop",
                title="remove the optimizer section from the DeepSpeed config",
                steps=("remove `optimizer` (and `scheduler`) from the DeepSpeed config; the script builds its own",),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
            )
        else:
            written = [f"{item.key}={item.shown}" for item in items[:2]]
            named = (
                say("{first} or {second}", first=written[0], second=written[1])
                if len(written) == 2
                else written[0]
                if written
                else say("one of the two")
            )
            yield Remedy(
                id="CFG003-one",
                title=say("keep one: {settings}", settings=named),
                steps=(say("remove the other of {settings}, or give both the same value", settings=named),),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
            )
