"""Answers LOOP002: switch gradients and modes where evaluation and training begin."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.syntax import FunctionNode
from gpudoctor.analysis.source.syntax_edits import insert_after, insert_before
from gpudoctor.analysis.source.syntax_places import find
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, ImportEdit, Patient, Remedy, Rule
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.loop.eval_mode_misuse import EvalModeMisuseDetail

_MODE = "https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval"
_NO_GRAD = "https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html"


class EvalModeMisuseRule(Rule):
    """Gradients off and eval mode on for the evaluation; training mode on for the training."""

    answers = Code("LOOP002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(EvalModeMisuseDetail)
        model = detail.model or "model"
        if detail.how == "training":
            yield Remedy(
                id="LOOP002-train",
                title=say("call {model}.train() before training continues", model=model),
                steps=(say("at the head of the training loop: {model}.train()", model=model),),
                applicability=Applicability.UNSAFE,
                effort=Effort.ONE_LINE,
                edits=_train(finding, patient),
                references=(_MODE,),
            )
            return
        if detail.how == "mode":
            yield Remedy(
                id="LOOP002-eval",
                title=say("call {model}.eval() before the evaluation, {model}.train() after it", model=model),
                steps=(
                    say("before the loop: {model}.eval()", model=model),
                    say("after it: {model}.train()", model=model),
                ),
                applicability=Applicability.UNSAFE,
                effort=Effort.ONE_LINE,
                edits=_evaluation(finding, patient),
                references=(_MODE,),
            )
            return
        yield Remedy(
            id="LOOP002-no-grad",
            title="put torch.no_grad() around the evaluation",
            steps=("@torch.no_grad() above the function, or: with torch.no_grad(): around the loop",),
            applicability=Applicability.UNSAFE,  # a caller may use what the function returns in a backward pass
            effort=Effort.ONE_LINE,
            edits=_no_grad(finding, patient),
            references=(_NO_GRAD,),
        )


def _loop(finding: Finding, patient: Patient) -> tuple[Script, ast.stmt] | None:
    detail = finding.detail_of(EvalModeMisuseDetail)
    for kind in (ast.For, ast.AsyncFor, ast.While):
        found = find(scripts_given(patient), detail.loop, kind)
        if found is not None and isinstance(found[1], ast.stmt):
            return found[0], found[1]
    return None


def _no_grad(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The decorator on the function that evaluates and does nothing else."""
    found = _loop(finding, patient)
    if found is None or not finding.detail_of(EvalModeMisuseDetail).whole:
        return ()
    script, loop = found
    kinds = FunctionNode
    function = next((item for item in enclosing(script, loop) if isinstance(item, kinds)), None)
    if not isinstance(function, ast.FunctionDef) or any(
        isinstance(item, ast.Yield | ast.YieldFrom) for item in ast.walk(function)
    ):
        return ()
    edit = insert_before(script, function, "@torch.no_grad()")
    return (
        (edit,)
        if script.imports.get("torch") == "torch"
        else (edit, ImportEdit(path=script.path, statement="import torch"))
    )


def _evaluation(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """Both switches around the loop."""
    found = _loop(finding, patient)
    model = finding.detail_of(EvalModeMisuseDetail).model
    if found is None or not model:
        return ()
    script, loop = found
    return insert_before(script, loop, f"{model}.eval()"), insert_after(script, loop, f"{model}.train()")


def _train(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The switch before the training loop, or as the first line of its body when the evaluation is inside."""
    detail = finding.detail_of(EvalModeMisuseDetail)
    found = _loop(finding, patient)
    model = detail.model
    if found is None or not model:
        return ()
    script, loop = found
    body = getattr(loop, "body", [])
    if detail.inside and body and body[0].lineno > loop.lineno:
        return (insert_before(script, body[0], f"{model}.train()"),)
    return () if detail.inside else (insert_before(script, loop, f"{model}.train()"),)
