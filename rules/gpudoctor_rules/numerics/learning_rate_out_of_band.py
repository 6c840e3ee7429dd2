"""Answers NUM009: a rate from the middle of the band."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    Patient,
    Remedy,
    Rule,
    Setting,
    SourceSpan,
)
from gpudoctor_checks.numerics.learning_rate_out_of_band import LearningRateOutOfBandDetail

MIDDLES = {
    "adam": ("1e-3", say("from scratch 1e-4 to 1e-3")),
    "sgd": ("0.1", say("from scratch 0.01 to 0.1")),
    "low": ("1e-4", say("from scratch 1e-4 to 1e-3, full fine-tuning 1e-5 to 5e-5, LoRA 1e-4 to 3e-4")),
    "full": ("2e-5", say("full fine-tuning 1e-5 to 5e-5")),
    "lora": ("1e-4", say("LoRA 1e-4 to 3e-4")),
}
"""What was found, the rate to try first, and the band."""


class LearningRateOutOfBandRule(Rule):
    """Start in the middle of the band; the best rate is found by trying."""

    answers = Code("NUM009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(LearningRateOutOfBandDetail)
        cure, method = detail.cure, detail.method
        if method and cure in {"adam", "low"}:
            cure = method
        if cure == "spent":
            return
        value, band = MIDDLES[cure]
        place = finding.evidence[0]
        key = place.key.rpartition(".")[2] if isinstance(place, Setting) else "lr"
        edits = _edits(place, value, patient)
        yield Remedy(
            id=f"NUM009-{cure}",
            title=f"{key}={value}",
            steps=(say("{key}={value}   # {band}", key=key, value=value, band=band),),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
            sets=(("learning_rate", value),),
            edits=edits,
        )


def _edits(place: object, value: str, patient: Patient) -> tuple[Edit, ...]:
    if isinstance(place, Setting):
        number = f"{float(value):.0e}".replace("e-0", ".0e-")  # YAML 1.1 reads 1e-4 as text
        for file in patient.configs.files:
            entry = file.entries.get(place.key) if file.path == place.path else None
            edit = file.edit(entry, number) if entry is not None else None
            if edit is not None:
                return (edit,)
    elif isinstance(place, SourceSpan):
        return _in_script(place, value, patient)
    return ()


def _in_script(place: SourceSpan, value: str, patient: Patient) -> tuple[Edit, ...]:
    script = next((item for item in scripts_given(patient).scripts if item.path == place.path), None)
    for call in script.calls if script is not None else ():
        for node in (*(item.value for item in call.node.keywords), *call.node.args[1:2]):
            if script is None or not isinstance(node, ast.Constant) or node.lineno != place.line:
                continue
            keyword = next((item for item in call.node.keywords if item.value is node), None)
            if script.span(keyword if keyword is not None else node) == place:
                return (replace_node(script, node, value),)
    return ()
