"""Rules on the topic: loop."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import nodes, segment
from gpudoctor.analysis.source.syntax_edits import bare_call, insert_after, insert_before
from gpudoctor.analysis.source.syntax_places import find, lines_at
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Edit, Effort, Facts, Finding, Patient, Remedy, TextEdit, answers
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, Script
from gpudoctor.text import capitalised
from gpudoctor_checks.loop.clip_misplaced import ClipMisplacedDetail
from gpudoctor_checks.loop.eval_mode_misuse import EvalModeMisuseDetail
from gpudoctor_rules.remedies import after_imports, call_at, keyword_edit, remedy, script_of, source_places


@answers("LOOP001")
def zero_grad_missing(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Clear right after the step: right with and without accumulation."""
    optimizer = _optimizer_named(finding)
    where = finding.span.text if finding.span else f"{optimizer}.step()"
    yield remedy(
        "LOOP001-zero-grad",
        say("call {optimizer}.zero_grad() after each step", optimizer=optimizer),
        say("after {statement}", statement=where),
        f"    {optimizer}.zero_grad()",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        edits=_zero_grad_edits(finding, patient, optimizer),
        references=("https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",),
    )


def _optimizer_named(finding: Finding) -> str:
    """The optimizer's name by the line of its step."""
    text = finding.span.text if finding.span else ""
    found = re.search(r"([A-Za-z_][\w.\[\]]{0,60})\.step\(", text)
    return found[1] if found else "optimizer"


def _zero_grad_edits(finding: Finding, patient: Patient, optimizer: str) -> tuple[Edit, ...]:
    """A line after the statement that steps; only where it stands alone on its lines."""
    span, script = finding.span, script_of(patient, finding.span)
    for node in nodes(script, ast.Expr, ast.Assign) if script is not None else ():
        if span is not None and script is not None and node.lineno == span.line == node.end_lineno:
            alone = script.text.splitlines()[node.lineno - 1].split("#", 1)[0].strip() == segment(script, node)
            return (insert_after(script, node, f"{optimizer}.zero_grad()"),) if alone else ()
    return ()


_MODE = "https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval"


@answers("LOOP002")
def eval_mode_misuse(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Gradients off and eval mode on for the evaluation; training mode on for the training."""
    detail = finding.detail_of(EvalModeMisuseDetail)
    model = detail.model or "model"
    if detail.how == "training":
        yield remedy(
            "LOOP002-train",
            say("call {model}.train() before training continues", model=model),
            say("at the head of the training loop: {model}.train()", model=model),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            edits=_train_edits(finding, patient),
            references=(_MODE,),
        )


def _loop_at(finding: Finding, patient: Patient) -> tuple[Script, ast.stmt] | None:
    detail = finding.detail_of(EvalModeMisuseDetail)
    for kind in (ast.For, ast.AsyncFor, ast.While):
        found = find(scripts_given(patient), detail.loop, kind)
        if found is not None and isinstance(found[1], ast.stmt):
            return found[0], found[1]
    return None


def _train_edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The switch before the training loop, or as the first line of its body when the evaluation is inside."""
    detail = finding.detail_of(EvalModeMisuseDetail)
    found = _loop_at(finding, patient)
    model = detail.model
    if found is None or not model:
        return ()
    script, loop = found
    body = getattr(loop, "body", [])
    if detail.inside and body and body[0].lineno > loop.lineno:
        return (insert_before(script, body[0], f"{model}.train()"),)
    return () if detail.inside else (insert_before(script, loop, f"{model}.train()"),)


_CLIPPING = ("https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping",)


@answers("LOOP004")
def clip_misplaced(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Put the clip, or the unscaling, where it works."""
    detail = finding.detail_of(ClipMisplacedDetail)
    scaler, optimizer = detail.scaler, detail.optimizer
    where = finding.span.text if finding.span else say("the clip")
    late = detail.how == "late"
    unscale = f"{scaler}.unscale_({optimizer})"
    step = f"{scaler}.step({optimizer})" if scaler else f"{optimizer}.step()"
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
    yield remedy(
        "LOOP004-before-step" if late else "LOOP004-unscale",
        title,
        *steps,
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        edits=() if late else _unscale_before_clip(finding, patient, unscale),
        references=_CLIPPING,
    )


def _unscale_before_clip(finding: Finding, patient: Patient, unscale: str) -> tuple[Edit, ...]:
    """The unscaling as a line before the clip."""
    place = finding.detail_of(ClipMisplacedDetail).clip
    found = find(patient.source, place) if place else None
    statement = bare_call(*found) if found is not None else None
    return (insert_before(found[0], statement, unscale),) if found is not None and statement is not None else ()


@answers("LOOP005")
def deprecated_api(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The replacement that torch names, as an edit where it is a plain renaming."""
    detail = finding.detail_of(Facts)
    row = detail.row
    spans = source_places(finding)
    edits = tuple(edit for span in spans for edit in _replacement(finding, span, patient))
    if row.drop:
        title = say("Drop {keyword}= ({replacement})", keyword=row.keyword, replacement=row.new)
    elif row.add:
        title = say("Pass {keyword}={value}", keyword=row.keyword, value=row.add)
    else:
        title = say("replace {old} by {new}", old=detail.what, new=row.new)
    yield remedy(
        "LOOP005-replace",
        title,
        say("{places}: {change}", places=capitalised(lines_at(spans)), change=title),
        applicability=Applicability.UNSAFE if row.add or row.set_to else Applicability.SAFE,
        effort=Effort.ONE_LINE if len(spans) == 1 else Effort.SMALL_EDIT,
        edits=edits if len(edits) == len(spans) else (),
        references=(row.source,),
    )


def _replacement(finding: Finding, span: SourceSpan, patient: Patient) -> Iterator[Edit]:
    row = finding.detail_of(Facts).row
    if row.drop:
        yield keyword_edit(span, remove=(row.keyword,))
    elif row.set_to or row.add:
        yield keyword_edit(span, set=((row.keyword, row.set_to or row.add),))
    elif row.rename:
        found = call_at(patient, span)
        if found is not None:
            yield from _rename(found[1], row.rename, row.first_argument)


def _rename(call: Call, name: str, argument: str) -> Iterator[TextEdit]:
    """Only where the old name is written in full: a name that was imported needs its import changed too."""
    function = call.node.func
    written = ast.unparse(function)
    if written != call.name or function.end_lineno != function.lineno or function.end_col_offset is None:
        return
    old, new = written, name
    if argument:
        old, new = old + "(", f"{name}({argument}" + (", " if call.node.args or call.node.keywords else "")
    start = function.col_offset + 1
    yield TextEdit(
        path=call.span.path,
        line=function.lineno,
        column=start,
        end_line=function.lineno,
        end_column=start + len(old),
        new_text=new,
        expected=old,
    )


@answers("LOOP008")
def seedless(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """One line for torch, one for each other generator that is used."""
    entry = next((item for item in patient.source.scripts if item.path == finding.subject), None)
    lines = ["torch.manual_seed(0)  # CPU and all GPUs"]
    roots = {
        name.split(".")[0]
        for script in patient.source.scripts
        if script.path in {finding.subject, finding.detail_of(Facts).script}
        for name in script.imports.values()
    }
    lines += ["random.seed(0)"] if "random" in roots else []
    lines += ["numpy.random.seed(0)"] if "numpy" in roots else []
    yield remedy(
        "LOOP008-seed",
        "call torch.manual_seed(0) before the model is built",
        *lines,
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        edits=after_imports(entry, "torch.manual_seed(0)") if entry is not None else (),
        references=("https://docs.pytorch.org/docs/stable/notes/randomness.html",),
    )
