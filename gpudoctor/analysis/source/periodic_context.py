"""Edits that enter a measuring block (`with FlopCounterMode() as counter`) only every so many passes."""

import ast

from gpudoctor.analysis.source.control_flow import enclosing, function_of, loop_node, statement
from gpudoctor.analysis.source.loop_counters import counter_at
from gpudoctor.analysis.source.periodic_edits import events_at, own_lines
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_edits import put_under, replace_node
from gpudoctor.model.remedy import Edit, ImportEdit
from gpudoctor.model.signs.source import Script, Source


def entered_seldom(source: Source, path: str, line: int, column: int, period: int) -> tuple[Edit, ...]:
    """Edits that enter what a `with` of every pass makes only every `period` passes; its block runs as before.

    The statements after the block that read it go along. Nothing where the block itself reads it.
    """
    for script, loop, event in events_at(source, path, line, column):
        head, place = loop_node(script, loop), statement(script, event.node)
        if head is None or not isinstance(place, ast.With) or len(place.items) != 1:
            continue
        found, item = counter_at(script, loop, head, place), place.items[0]
        reads = _reads_after(script, place, item)
        if found is None or reads is None or item.context_expr is not event.node:
            continue
        if found.zero or all(isinstance(node, ast.Expr) for node in reads):
            under = [put_under(script, reads, f"if {found.name} % {period} == 0:")] if reads else []
            return (*found.edits, *_either(script, item.context_expr, found.name, period), *under)
    return ()


def _reads_after(script: Script, place: ast.With, item: ast.withitem) -> list[ast.stmt] | None:
    """The statements right behind a block that read what it has made; None where others do too."""
    if item.optional_vars is None:
        return []
    if not isinstance(item.optional_vars, ast.Name):
        return None
    name, function = item.optional_vars.id, function_of(script, place)
    readers = [
        node
        for node in nodes(script, ast.Name)
        if node.id == name and isinstance(node.ctx, ast.Load) and function_of(script, node) is function
    ]
    behind = _behind(script, place)
    near = [
        part for part in behind if any(node.id == name for node in ast.walk(part) if isinstance(node, ast.Name))
    ]
    wanted = behind[: len(near)]
    inside = {id(node) for part in wanted for node in ast.walk(part)}
    simple = all(isinstance(part, ast.Expr | ast.Assign) and own_lines(script, part) for part in wanted)
    return wanted if near == wanted and simple and all(id(node) in inside for node in readers) else None


def _behind(script: Script, place: ast.stmt) -> list[ast.stmt]:
    """The statements of the same block that follow one."""
    above = next(iter(enclosing(script, place)), None)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list) and any(part is place for part in block):
            return block[next(at for at, part in enumerate(block) if part is place) + 1 :]
    return []


def _either(script: Script, maker: ast.expr, name: str, period: int) -> tuple[Edit, ...]:
    """`with maker if step % 500 == 0 else contextlib.nullcontext()`."""
    text = ast.get_source_segment(script.text, maker) or ""
    new = f"{text} if {name} % {period} == 0 else contextlib.nullcontext()"
    return (replace_node(script, maker, new), ImportEdit(path=script.path, statement="import contextlib"))
