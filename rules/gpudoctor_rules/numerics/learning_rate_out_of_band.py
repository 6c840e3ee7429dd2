"""Answers NUM009: a rate from the middle of the band."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, SourceSpan
from gpudoctor_checks.numerics.learning_rate_out_of_band import LearningRateOutOfBandDetail

MIDDLES = {
    "adam": ("1e-3", say("from scratch 1e-4 to 1e-3")),
    "sgd": ("0.1", say("from scratch 0.01 to 0.1")),
    "low": ("1e-4", say("from scratch 1e-4 to 1e-3, full fine-tuning 1e-5 to 5e-5, LoRA 1e-4 to 3e-4")),
}
"""What was found, the rate to try first, and the band."""


class LearningRateOutOfBandRule(Rule):
    """Start in the middle of the band; the best rate is found by trying."""

    answers = Code("NUM009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        cure = finding.detail_of(LearningRateOutOfBandDetail).cure
        if cure == "spent":
            return
        value, band = MIDDLES[cure]
        edits = _edits(finding.span, value, patient)
        yield Remedy(
            id=f"NUM009-{cure}",
            title=f"lr={value}",
            steps=(say("{key}={value}   # {band}", key="lr", value=value, band=band),),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
            sets=(("learning_rate", value),),
            edits=edits,
        )


def _edits(place: SourceSpan | None, value: str, patient: Patient) -> tuple[Edit, ...]:
    """The rate of the optimizer that is made at the place, where it is written there as a number."""
    scripts = scripts_given(patient).scripts if place is not None else ()
    script = next((item for item in scripts if place is not None and item.path == place.path), None)
    for call in script.calls if script is not None else ():
        if script is None or place is None or call.span.line != place.line:
            continue
        for node in (keyword_value(call.node, "lr"), *call.node.args[1:2]):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                return (replace_node(script, node, value),)
    return ()
