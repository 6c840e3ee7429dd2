"""Forward passes without gradients in a training loop that its backward pass needs nothing of.

Where the model is put into eval mode, the recorder sees an evaluation. Many programs evaluate in training mode.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.run.line_costs import LinePlace, lines, ways
from gpudoctor.analysis.run.steady_run import Run, script_at, source_of, spot
from gpudoctor.analysis.source.autograd_flow import feeds_backward, stored
from gpudoctor.analysis.source.control_flow import loop_node
from gpudoctor.analysis.source.syntax import is_method_call, names_in, walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.source import Script, Source

_SHOWS = frozenset(
    {"print", "write", "info", "debug", "log", "log_metrics", "add_scalar", "add_image", "add_figure", "append",
     "update", "set_description", "set_postfix", "save_image", "eval", "train"}
)  # fmt: skip
"""Calls whose value nobody takes, and that change nothing that a training step reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UngradedPasses:
    """What they cost."""

    share: float
    """Of step time (0..1)."""
    spans: tuple[SourceSpan, ...]
    """The statements that call the model, dearest first."""


def ungraded_passes(patient: Patient, run: Run) -> UngradedPasses | None:
    """Their cost on the first rank, by the sampled stacks; None without such a block in the source."""
    source = source_of(patient)
    blocks = list(_blocks(source)) if source is not None else []
    if not blocks:
        return None
    process = run.lead.process
    known = ways(process)
    sampled = [item for item in lines(process) if item.phase == "forward"]
    total = sum(item.samples for item in sampled)
    spent: dict[SourceSpan, float] = {}
    for item in sampled:
        found = known.get((item.phase, item.place.path, item.place.line), ())
        way_total = sum(way.samples for way in found)
        for way in found:
            place = next((one for one in way.callers if _within(patient, blocks, one)), None)
            if place is not None:
                span = spot(patient, place)
                spent[span] = spent.get(span, 0.0) + item.samples * way.samples / way_total
    if not spent:
        return None
    return UngradedPasses(
        share=run.lead.share("forward") * sum(spent.values()) / total,
        spans=tuple(sorted(spent, key=lambda span: -spent[span])),
    )


def _within(patient: Patient, blocks: list[tuple[Script, ast.With]], place: LinePlace) -> bool:
    script = script_at(patient, place.path)
    return any(
        home is script and block.lineno <= place.line <= (block.end_lineno or block.lineno) for home, block in blocks
    )


def _blocks(source: Source) -> Iterator[tuple[Script, ast.With]]:
    for script, loop in source.training_loops:
        outer = loop_node(script, loop)
        if outer is None:
            continue
        for block in walk(outer):
            if isinstance(block, ast.With) and _without_gradients(block) and _apart(outer, block):
                yield script, block


def _without_gradients(block: ast.With) -> bool:
    heads = " ".join(ast.unparse(item.context_expr) for item in block.items)
    return "no_grad(" in heads or "inference_mode(" in heads


def _apart(outer: ast.AST, block: ast.With) -> bool:
    """Whether no training step reads what a block makes: it is only shown, printed or kept in a list."""
    for part in walk(block):
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            function = part.value.func
            name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
            if name not in _SHOWS:
                return False
        if isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store):
            return False
        if is_method_call(part) and part.func.attr.endswith("_") and not part.func.attr.endswith("__"):
            return False  # it changes a tensor in its place
    made = set().union(*(stored(part) for part in walk(block)))
    before = {
        name
        for part in walk(outer)
        if isinstance(part, ast.stmt) and not hasattr(part, "body") and part.lineno < block.lineno
        for name in names_in(part) - stored(part)
    }
    return not made & before and not feeds_backward(outer, block)
