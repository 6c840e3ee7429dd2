"""Answers NUM008: build the optimizer over the model that is trained."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import segment
from gpudoctor.analysis.source.syntax_edits import alone, block, insert_after, remove, replace_node
from gpudoctor.analysis.source.syntax_places import find_extent
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.numerics.weights_frozen import WeightsFrozenDetail


class WeightsFrozenRule(Rule):
    """Order, or the right model's name."""

    answers = Code("NUM008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(WeightsFrozenDetail)
        optimizer, text = detail.optimizer or say("the optimizer"), (detail.text or "")
        how = detail.how or "other"
        if how not in ("order", "copy", "other"):
            return
        title, steps, edits = {
            "order": (
                say("build {optimizer} after the model has its final form", optimizer=optimizer),
                (say("move the line that builds it behind the last change of the model"),),
                _moved(finding, patient),
            ),
            "copy": (
                say("give {optimizer} the parameters of the model that is trained", optimizer=optimizer),
                (say("use {model} there", model=text or say("the model itself")),),
                _renamed(finding, patient, text),
            ),
            "other": (
                say("give {optimizer} the parameters of the model that is trained", optimizer=optimizer),
                (say("pass the parameters of the model that the message names"),),
                (),
            ),
        }[str(how)]  # fmt: skip
        yield Remedy(
            id=f"NUM008-{how}",
            title=title,
            steps=steps,
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            edits=edits,
            references=("https://docs.pytorch.org/docs/stable/optim.html#constructing-it",),
        )


def _moved(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The optimizer's statement behind the change, in the same block, when nothing between uses it."""
    detail = finding.detail_of(WeightsFrozenDetail)
    built = find_extent(scripts_given(patient), detail.statement)
    change = find_extent(scripts_given(patient), detail.edit_at)
    if built is None or change is None or built[0] is not change[0]:
        return ()
    script, moved, target = built[0], built[1], change[1]
    if not isinstance(moved, ast.stmt) or not isinstance(target, ast.stmt) or not alone(script, moved):
        return ()
    body = block(script, moved)
    text = segment(script, moved)
    if target not in body or not alone(script, target) or "\n" in text:
        return ()
    name = re.compile(rf"\b{re.escape(str(detail.optimizer))}\b")
    between = body[body.index(moved) + 1 : body.index(target) + 1]
    if any(name.search(ast.unparse(item)) for item in between):
        return ()
    gone = remove(script, moved)
    return (*gone, insert_after(script, target, text)) if gone else ()


def _renamed(finding: Finding, patient: Patient, text: str) -> tuple[Edit, ...]:
    found = find_extent(scripts_given(patient), finding.detail_of(WeightsFrozenDetail).edit_at)
    return (replace_node(found[0], found[1], text),) if found is not None and text else ()
