"""Edits of a script by its syntax: the text that stands there now goes along, so that nobody edits blindly.

Python counts columns in bytes; an edit counts them in characters. Everything that makes an edit from
a node comes through here.
"""

import ast

from gpudoctor.analysis.source.control_flow import enclosing, statement
from gpudoctor.analysis.source.syntax import last_name, segment, walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.remedy import TextEdit
from gpudoctor.model.signs.source import Script, Source


def _edit(script: Script, start: tuple[int, int], end: tuple[int, int], new_text: str) -> TextEdit:
    """Other text between two places, each a line and a column from 1 on."""
    lines = script.text.splitlines()
    old = [lines[number - 1] if number <= len(lines) else "" for number in range(start[0], end[0] + 1)]
    old[-1] = old[-1][: end[1] - 1]
    old[0] = old[0][start[1] - 1 :]
    return TextEdit(
        path=script.path,
        line=start[0],
        column=start[1],
        end_line=end[0],
        end_column=end[1],
        new_text=new_text,
        expected="\n".join(old),
    )


def _ends(script: Script, node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where a node begins and ends."""
    first: int = getattr(node, "lineno", 1)
    last: int = getattr(node, "end_lineno", None) or first
    lines = script.text.splitlines()
    begin = _column(lines[first - 1], getattr(node, "col_offset", 0))
    return (first, begin), (last, _column(lines[last - 1], getattr(node, "end_col_offset", None) or 0))


def _column(line: str, offset: int) -> int:
    """The 1-based character column of a byte offset."""
    if line.isascii():
        return offset + 1
    return len(line.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")) + 1


def replace_node(script: Script, node: ast.AST, new_text: str) -> TextEdit:
    """Replace an expression or a statement; a statement keeps what stands before and after it on its lines."""
    return _edit(script, *_ends(script, node), new_text)


def insert_before(script: Script, statement: ast.stmt, text: str) -> TextEdit:
    """Put a line before a statement, indented like it. `text` is one line without its indentation."""
    start, _ = _ends(script, statement)
    indent = script.text.splitlines()[start[0] - 1][: start[1] - 1]
    return _edit(script, start, start, f"{text}\n{indent}")


def insert_after(script: Script, statement: ast.stmt, text: str) -> TextEdit:
    """Put a line after a statement, indented like its first line."""
    lines = script.text.splitlines()
    start, (last, _) = _ends(script, statement)
    indent = lines[start[0] - 1][: start[1] - 1]
    end = (last, len(lines[last - 1]) + 1)
    return _edit(script, end, end, f"\n{indent}{text}")


def put_under(script: Script, block: list[ast.stmt], line: str) -> TextEdit:
    """Statements one behind the other, each with its lines for itself, one level further in, under a line."""
    whole = ast.copy_location(ast.Pass(), block[0])
    whole.end_lineno, whole.end_col_offset = block[-1].end_lineno, block[-1].end_col_offset
    indent = indentation(script, block[0])
    step = "\t" if "\t" in indent else "    "
    old = f"{indent}{replace_node(script, whole, '').expected}".split("\n")
    return replace_node(script, whole, "\n".join([line, *(step + part if part.strip() else part for part in old)]))


def indentation(script: Script, place: ast.stmt) -> str:
    """The white space before a statement that begins its line."""
    line = script.text.splitlines()[place.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def own_lines(script: Script, place: ast.stmt) -> str | None:
    """The text of a statement that has its lines for itself and can be indented; None otherwise."""
    text = segment(script, place)
    long = any(
        isinstance(part, ast.Constant | ast.JoinedStr) and part.lineno != part.end_lineno for part in walk(place)
    )
    return text if text and alone(script, place) and not ("\n" in text and long) else None


_TAKEN_OUT = frozenset(
    ["empty_cache", "ipc_collect", "collect", "release_memory", "clear_device_cache", "free_memory", "clear",
     "synchronize", "barrier", "wait_for_everyone", "flush", "fsync"]
)  # fmt: skip
"""Calls that edits take out."""


def delete_statement(script: Script, statement: ast.stmt, body: list[ast.stmt]) -> TextEdit:
    """Remove a statement that has its lines for itself; `pass` takes its place when its block could be empty.

    A block of nothing but flushes and waits could: other findings' edits may take those out too. `body` is the
    block that holds it. Raises `ValueError` when it shares a line with another statement.
    """
    lines = script.text.splitlines()
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    others = [item for item in body if item is not statement]
    shared = any(item.lineno <= last and (item.end_lineno or item.lineno) >= first for item in others)
    if shared or lines[first - 1][: _column(lines[first - 1], statement.col_offset) - 1].strip():
        raise ValueError("the statement shares a line with another one")
    if all(_may_go(item) for item in others):
        return replace_node(script, statement, "pass")
    if last >= len(lines):  # the file may end without a newline: the one before goes
        return _edit(script, (first - 1, len(lines[first - 2]) + 1), (last, len(lines[last - 1]) + 1), "")
    return _edit(script, (first, 1), (last + 1, 1), "")


def _may_go(statement: ast.stmt) -> bool:
    """Whether it is a bare call of the kinds that edits take out."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and last_name(call.func) in _TAKEN_OUT


def block(script: Script, node: ast.stmt) -> list[ast.stmt]:
    """The list of statements that holds a statement."""
    above = next(enclosing(script, node), script.tree)
    for name in ("body", "orelse", "finalbody"):
        found = getattr(above, name, [])
        if isinstance(found, list) and any(item is node for item in found):
            return found
    return []


def alone(script: Script, node: ast.stmt) -> bool:
    """Whether a statement has its lines for itself."""
    lines = script.text.splitlines()
    last = node.end_lineno or node.lineno
    head = lines[node.lineno - 1].encode()[: node.col_offset].strip()
    tail = lines[last - 1].encode()[node.end_col_offset or 0 :].decode().strip()
    return not head and (not tail or tail.startswith("#"))


def bare_call(script: Script, node: ast.AST) -> ast.Expr | ast.Assign | None:
    """The statement of a call that is a whole statement, or all that one assigns, alone on its lines."""
    found = statement(script, node)
    if isinstance(found, ast.Expr | ast.Assign) and found.value is node and alone(script, found):
        return found
    return None


def remove(script: Script, node: ast.stmt) -> tuple[TextEdit, ...]:
    """The edit that removes a statement; none where it shares its line."""
    try:
        return (delete_statement(script, node, block(script, node)),)
    except ValueError:
        return ()


def without(script: Script, place: SourceSpan) -> TextEdit | None:
    """The deletion of a call that is a statement of its own, with its lines; None when it is more or less."""
    for call in script.calls:
        whole = statement(script, call.node) if call.span == place else None
        if isinstance(whole, ast.Expr) and whole.value is call.node:
            return next(iter(remove(script, whole)), None)
    return None


def settable(
    source: Source, span: SourceSpan, *names: str, method: str = "", free: int = 0, remove: tuple[str, ...] = ()
) -> bool:
    """Whether keywords of the call at a place may be set or removed by an edit.

    Each is written there, or neither stars nor more than `free` positional arguments could carry it already.
    The calls of a chain `a.map(f).shuffle()` all begin at one place: `method` is the one meant, and the edit
    must name it too.
    """
    for script in source.scripts:
        if script.path != span.path:
            continue
        here = [call for call in script.calls if (call.span.line, call.span.column) == (span.line, span.column)]
        meant = [call for call in here if not method or call.method == method]
        if len(meant) != 1:
            return False
        outer = meant[0]
        written = {item.arg for item in outer.node.keywords}
        stars = None in written or any(isinstance(item, ast.Starred) for item in outer.node.args)
        absent = [name for name in names if name not in written]
        return set(remove) <= written and (not absent or (not stars and len(outer.node.args) <= free))
    return False
