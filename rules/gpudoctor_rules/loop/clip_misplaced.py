"""Answers LOOP004: clip between backward and step, on unscaled gradients."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import bare_call, block, insert_before, move_before
from gpudoctor.analysis.source.syntax_places import find
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.loop.clip_misplaced import ClipMisplacedDetail

_REFERENCES = ("https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping",)


class ClipMisplacedRule(Rule):
    """Put the clip, or the unscaling, where it works."""

    answers = Code("LOOP004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(ClipMisplacedDetail)
        scaler, optimizer = detail.scaler, detail.optimizer
        where = finding.span.text if finding.span else say("the clip")
        late = detail.how == "late"
        unscale = f"{scaler}.unscale_({optimizer})"
        step = f"{scaler}.step({optimizer})" if scaler else f"{optimizer}.step()"
        if detail.how == "part":
            yield Remedy(
                id="LOOP004-whole",
                title="clip the tensor that the optimizer has",
                steps=(say("instead of {clip}", clip=where), "    clip the whole tensor, or scale its .grad by hand"),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
                references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",),
            )
            return
        if detail.how == "micro":
            yield Remedy(
                id="LOOP004-once-a-step",
                title=say("clip once, right before {step}", step=step),
                steps=(
                    say(
                        "move {clip} to where {step} runs, after the last backward() of a step:", clip=where, step=step
                    ),
                    *((f"    {unscale}",) if scaler else ()),
                    f"    {where}",
                    f"    {step}",
                ),
                applicability=Applicability.UNSAFE,
                effort=Effort.SMALL_EDIT,
                references=_REFERENCES,
            )
            return
        if late:
            title = say("clip before {step}", step=step)
            steps = (
                say("after backward() and before {step}:", step=step),
                *((f"    {unscale}",) if scaler else ()),
                f"    {where}",
            )
        else:
            title = say("call {unscale} before the clip", unscale=unscale)
            steps = (say("before {where}", where=where), f"    {unscale}")
        yield Remedy(
            id="LOOP004-before-step" if late else "LOOP004-unscale",
            title=title,
            steps=steps,
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            edits=_late(finding, patient, unscale) if late else _scaled(finding, patient, unscale),
            references=_REFERENCES,
        )


def _statement(place: str, patient: Patient) -> tuple[Script, ast.stmt] | None:
    found = find(patient.source, place)
    if found is None:
        return None
    statement = bare_call(*found)
    return None if statement is None else (found[0], statement)


def _scaled(finding: Finding, patient: Patient, unscale: str) -> tuple[Edit, ...]:
    """The unscaling as a line before the clip; one that stands later moves there."""
    detail = finding.detail_of(ClipMisplacedDetail)
    clip = _statement(detail.clip, patient)
    if clip is None:
        return ()
    script, statement = clip
    if detail.unscale:
        moved = _statement(detail.unscale, patient)
        if moved is None or moved[0] is not script:
            return ()
        return move_before(script, moved[1], statement)
    return (insert_before(script, statement, unscale),)


def _late(finding: Finding, patient: Patient, unscale: str) -> tuple[Edit, ...]:
    """The clip as a line before the step that stands in the same block and after a backward there."""
    detail = finding.detail_of(ClipMisplacedDetail)
    clip, step = _statement(detail.clip, patient), _statement(detail.step, patient)
    if clip is None or step is None or clip[0] is not step[0]:
        return ()
    script, moved, target = clip[0], clip[1], step[1]
    body = block(script, target)
    if body is not block(script, moved):
        return ()
    earlier = body[: body.index(target)]
    if not any("backward(" in ast.unparse(item) for item in earlier) or body.index(moved) < body.index(target):
        return ()
    wanted = bool(detail.scaler) and not detail.unscale
    return move_before(script, moved, target, *((unscale,) if wanted else ()))
