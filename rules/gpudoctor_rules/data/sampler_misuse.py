"""Answers DATA008 sampler-misuse."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import insert_before, settable
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, ImportEdit, KeywordEdit, Patient, Remedy, Rule
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.data.sampler_misuse import SamplerMisuseDetail

_REFERENCES = ("https://pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler",)


class SamplerMisuseRule(Rule):
    """A DistributedSampler, told the epoch."""

    answers = Code("DATA008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kind = finding.detail_of(SamplerMisuseDetail).kind
        if kind == "twice":
            yield _one(finding, patient)
        elif kind == "unsplit":
            yield _split(finding, patient)
        else:
            yield _epoch(finding, patient)


def _one(finding: Finding, patient: Patient) -> Remedy:
    span = finding.span
    edits: tuple[Edit, ...] = ()
    if span is not None and settable(patient.source, span, remove=("shuffle",)):
        edits = (KeywordEdit(path=span.path, line=span.line, column=span.column, remove=("shuffle",)),)
    return Remedy(
        id="DATA008-one",
        title="remove the shuffle argument: the sampler decides the order",
        steps=("Remove shuffle=True from the DataLoader; shuffle in the sampler.",),
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE,
        edits=edits,
        references=_REFERENCES,
    )


def _split(finding: Finding, patient: Patient) -> Remedy:
    """The sampler built in the call; a set that is an expression of its own must get a name first."""
    detail = finding.detail_of(SamplerMisuseDetail)
    span, dataset = finding.span, detail.dataset
    edits: tuple[Edit, ...] = ()
    told = _told(finding, patient, "")
    fits = span is not None and settable(patient.source, span, "sampler", "shuffle", free=2)
    if span is not None and fits and dataset.replace(".", "_").isidentifier() and (told or not detail.loop_line):
        sampler = f"torch.utils.data.distributed.DistributedSampler({dataset})"
        edits = (
            KeywordEdit(
                path=span.path, line=span.line, column=span.column, set=(("sampler", sampler),), remove=("shuffle",)
            ),
            ImportEdit(path=span.path, statement="import torch.utils.data.distributed"),
            *told,
        )
    return Remedy(
        id="DATA008-split",
        title="use sampler=DistributedSampler(dataset) without shuffle, and call set_epoch in each epoch",
        steps=(
            f"sampler = torch.utils.data.distributed.DistributedSampler({dataset})",
            "loader = DataLoader(..., sampler=sampler)   # shuffle=True goes: the sampler shuffles",
            "sampler.set_epoch(epoch)                    # first line of each epoch",
        ),
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        edits=edits,
        references=_REFERENCES,
    )


def _epoch(finding: Finding, patient: Patient) -> Remedy:
    detail = finding.detail_of(SamplerMisuseDetail)
    name, epoch = detail.sampler or "sampler", detail.epoch
    edits = _told(finding, patient, name)
    return Remedy(
        id="DATA008-epoch",
        title=say("call {name}.set_epoch({epoch}) first in each epoch", name=name, epoch=epoch or "epoch"),
        steps=(
            say(
                "{name}.set_epoch({epoch})   # the first line of the loop over epochs",
                name=name,
                epoch=epoch or "epoch",
            ),
        ),
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE,
        edits=edits,
        references=_REFERENCES,
    )


def _told(finding: Finding, patient: Patient, sampler: str) -> tuple[Edit, ...]:
    """`set_epoch` as the first line of the loop over epochs; nothing where its names are not in sight."""
    detail = finding.detail_of(SamplerMisuseDetail)
    path, line, epoch = detail.loop_path, detail.loop_line, detail.epoch
    script = next((item for item in patient.source.scripts if item.path == path), None)
    head = _head(script, line) if script is not None and isinstance(line, int) else None
    if script is None or head is None or not epoch:
        return ()
    target = _visible(script, head, sampler, detail.loader, finding)
    return (insert_before(script, head.body[0], f"{target}.set_epoch({epoch})"),) if target else ()


def _head(script: Script, line: int) -> ast.For | None:
    return next((node for node in ast.walk(script.tree) if isinstance(node, ast.For) and node.lineno == line), None)


def _visible(script: Script, head: ast.For, sampler: str, loader: str, finding: Finding) -> str:
    """The sampler by its own name or through its loader, whichever the epoch loop's scope binds."""
    if finding.span is None or finding.span.path != script.path or head.body[0].lineno == head.lineno:
        return ""
    scope = next(
        (node for node in ast.walk(script.tree)
         if isinstance(node, ast.FunctionDef) and node.lineno <= head.lineno <= (node.end_lineno or 0)),
        script.tree,
    )  # fmt: skip
    bound = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if isinstance(scope, ast.FunctionDef):
        bound |= {item.arg for item in scope.args.args}
    if sampler in bound:
        return sampler
    return f"{loader}.sampler" if loader in bound else ""
