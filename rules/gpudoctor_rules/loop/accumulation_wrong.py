"""Answers LOOP003: divide, clear and schedule where it belongs."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import statement
from gpudoctor.analysis.source.syntax import segment
from gpudoctor.analysis.source.syntax_edits import bare_call, block, insert_after, remove, replace_node
from gpudoctor.analysis.source.syntax_places import find, find_extent
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.loop.accumulation_wrong import AccumulationWrongDetail

_ACCUMULATION = "https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation"
_SCHEDULE = "https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_ACCELERATE = "https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation"


class AccumulationWrongRule(Rule):
    """One remedy for each way to get it wrong."""

    answers = Code("LOOP003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(AccumulationWrongDetail)
        how = detail.how
        guilty = finding.span.text if finding.span else ""
        text = detail.text
        id_, title, steps, edits, reference = {
            "undivided": (
                "LOOP003-divide",
                say("divide the loss by {count}", count=detail.count),
                (say("in {statement}", statement=guilty), say("    use {expression}", expression=text)),
                _divided(finding, patient, text),
                _ACCUMULATION,
            ),
            "cleared": (
                "LOOP003-clear-after-step",
                say("clear the gradients where the optimizer steps"),
                (
                    say(
                        "move {statement} behind the optimizer's step, under the same condition",
                        statement=guilty,
                    ),
                ),
                _moved(finding, patient, drop=detail.kept),
                _ACCUMULATION,
            ),
            "scheduled": (
                "LOOP003-schedule-after-step",
                say("step the scheduler where the optimizer steps"),
                (
                    say(
                        "move {statement} behind the optimizer's step, under the same condition",
                        statement=guilty,
                    ),
                ),
                _moved(finding, patient, drop=False),
                _SCHEDULE,
            ),
            "early": (
                "LOOP003-schedule-later",
                say("step the scheduler after the optimizer"),
                (
                    say(
                        "move {statement} to the end of the epoch"
                        if detail.epochs
                        else "move {statement} after the step",
                        statement=guilty,
                    ),
                ),
                _ended(finding, patient) if detail.epochs else _moved(finding, patient, drop=False),
                _SCHEDULE,
            ),
            "never": (
                "LOOP003-step-schedule",
                say("call {call}", call=text),
                (
                    say(
                        "{call} after each epoch, or after each optimizer step if the schedule counts steps",
                        call=text,
                    ),
                ),
                (),
                _SCHEDULE,
            ),
            "twice": (
                "LOOP003-divide-once",
                say("leave the division to Accelerate"),
                (say("give backward() the loss as it is; under accumulate() it is divided there"),),
                _undone(finding, patient),
                _ACCELERATE,
            ),
        }[how]
        yield Remedy(
            id=id_,
            title=title,
            steps=steps,
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            edits=edits,
            references=(reference,),
        )


def _divided(finding: Finding, patient: Patient, text: str) -> tuple[Edit, ...]:
    found = find_extent(patient.source, finding.detail_of(AccumulationWrongDetail).edit_at)
    return (replace_node(*found, text),) if found is not None and text else ()


def _statement(place: str, patient: Patient) -> tuple[Script, ast.stmt] | None:
    found = find(patient.source, place)
    bare = bare_call(*found) if found is not None else None
    return (found[0], bare) if found is not None and bare is not None else None


def _moved(finding: Finding, patient: Patient, *, drop: bool) -> tuple[Edit, ...]:
    """The statement behind the step; only taken away when another one stands there."""
    detail = finding.detail_of(AccumulationWrongDetail)
    guilty, step = _statement(detail.guilty, patient), _statement(detail.step, patient)
    if guilty is None or step is None or guilty[0] is not step[0]:
        return ()
    script, moved = guilty
    text = segment(script, moved)
    gone = remove(script, moved)
    if not gone or "\n" in text:
        return ()
    return gone if drop else (*gone, insert_after(script, step[1], text))


def _ended(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The statement at the end of the block that holds it, the epoch's."""
    guilty = _statement(finding.detail_of(AccumulationWrongDetail).guilty, patient)
    if guilty is None:
        return ()
    script, moved = guilty
    body = block(script, moved)
    last = body[-1] if body else moved
    text = segment(script, moved)
    gone = remove(script, moved)
    jumps = isinstance(last, ast.Return | ast.Break | ast.Continue | ast.Raise)
    if last is moved or jumps or not gone or "\n" in text or last.col_offset != moved.col_offset:
        return ()
    return (*gone, insert_after(script, last, text))


def _undone(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The loss instead of its quotient; a statement that does nothing else goes."""
    found = find_extent(patient.source, finding.detail_of(AccumulationWrongDetail).edit_at)
    if found is None:
        return ()
    script, node = found
    if isinstance(node, ast.AugAssign):
        return remove(script, node)
    holder = statement(script, node)
    if not isinstance(node, ast.BinOp):
        return ()
    whole = isinstance(holder, ast.Assign) and holder.value is node
    if isinstance(holder, ast.Assign) and whole and ast.unparse(holder.targets[0]) == ast.unparse(node.left):
        return remove(script, holder)
    return (replace_node(script, node, segment(script, node.left) or ast.unparse(node.left)),)
