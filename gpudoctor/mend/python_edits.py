"""Edits of Python calls and imports, given back as splices: `ast` finds the call, LibCST rewrites it alone.

LibCST keeps formatting and comments; it reads no more than the call, because a whole file takes it a second.
"""

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.analysis.source.syntax import walk
from gpudoctor.mend.file_text import CannotMend, Splice, offset
from gpudoctor.model import ImportEdit, KeywordEdit

if TYPE_CHECKING:
    import libcst as cst


class PythonFile:
    """A Python file parsed once, for all its edits."""

    def __init__(self, text: str) -> None:
        try:
            self._tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise CannotMend("it does not parse (line {line})", line=getattr(error, "lineno", None) or 1) from error
        self._text = text
        self._lines = text.split("\n")
        self._calls: dict[tuple[int, int], list[ast.Call]] = {}
        for node in walk(self._tree):
            if isinstance(node, ast.Call):
                place = (node.lineno, self._column(node.lineno, node.col_offset))
                self._calls.setdefault(place, []).append(node)

    def keywords(self, edits: Sequence[KeywordEdit]) -> Splice:
        """One splice for all keyword edits of one call; later edits win where they set the same keyword."""
        place = (edits[0].line, edits[0].column)
        found = self._calls.get(place)
        if not found:
            raise CannotMend("no call at line {line}, column {column} any more", line=place[0], column=place[1])
        if len(found) > 1:  # `Trainer(...).train()`: both calls start at one place
            found = [item for item in found if _last_name(item) == edits[0].method]
        if len(found) != 1:
            raise CannotMend(
                "line {place} chains calls; the edit cannot tell them apart; apply it by hand", place=place[0]
            )
        start = offset(self._text, *place)
        last = found[0].end_lineno or place[0]
        end = offset(self._text, last, self._column(last, found[0].end_col_offset or 0))
        new = _call(self._text[start:end], place[0])
        for edit in edits:
            for name, value in edit.set:
                new = _set(new, name, value)
            for name in edit.remove:
                new = _remove(new, name)
        return Splice(start, end, _code(new))

    def calls_at(self, line: int, column: int) -> int:
        """How many calls begin at a 1-based place."""
        return len(self._calls.get((line, column), ()))

    def _column(self, line: int, offset: int) -> int:
        """The 1-based column, in characters, of an offset in bytes."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        if text.isascii():
            return offset + 1
        return len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")) + 1

    def imports(self, edit: ImportEdit) -> Splice | None:
        """A line after the last import of the module's head; None when the import is there already."""
        tree = self._tree
        wanted = ast.unparse(ast.parse(edit.statement))
        last = 0
        for index, node in enumerate(tree.body):
            if isinstance(node, ast.Import | ast.ImportFrom):
                if wanted in _single(node):
                    return None
                last = node.end_lineno or node.lineno
            elif not (index == 0 and isinstance(node, ast.Expr)):
                break
            elif isinstance(node, ast.Expr):
                last = node.end_lineno or node.lineno
        if any(wanted in _single(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)):
            return None
        at = sum(len(line) + 1 for line in self._lines[:last])
        return Splice(at, at, edit.statement + "\n")


def _call(text: str, line: int) -> "cst.Call":
    """The call that a text is; in parentheses, so that it may go over several lines."""
    import libcst as cst

    try:
        call = cst.parse_expression(f"({text})")
    except cst.ParserSyntaxError as error:
        raise CannotMend("the call at line {line} cannot be parsed into parts", line=line) from error
    if not isinstance(call, cst.Call):  # Python before 3.12 places what stands in an f-string elsewhere
        raise CannotMend("no call at line {line} any more", line=line)
    return call.with_changes(lpar=call.lpar[1:], rpar=call.rpar[:-1])


def _code(call: "cst.Call") -> str:
    import libcst as cst

    return cst.Module([]).code_for_node(call)


def _last_name(call: ast.Call) -> str:
    """The last part of the called name: `train` of `Trainer(...).train()`."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _single(node: object) -> list[str]:
    """The imports of a statement, one name each, as source."""
    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(names=[name])) for name in node.names]
    assert isinstance(node, ast.ImportFrom)
    return [ast.unparse(ast.ImportFrom(node.module, [name], node.level)) for name in node.names]


def _set(call: "cst.Call", name: str, value: str) -> "cst.Call":
    """The call with a keyword set: in place when it is there, else at the end of its arguments."""
    import libcst as cst

    expression = cst.parse_expression(value)
    for index, argument in enumerate(call.args):
        if argument.keyword is not None and argument.keyword.value == name:
            changed = argument.with_changes(value=expression)
            return call.with_changes(args=[*call.args[:index], changed, *call.args[index + 1 :]])
    added = cst.Arg(
        keyword=cst.Name(name),
        value=expression,
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    return call.with_changes(args=_appended(call.args, added))


def _appended(arguments: "Sequence[cst.Arg]", added: "cst.Arg") -> "list[cst.Arg]":
    """Arguments with one more, before `**kwargs`, on a line of its own where the others stand so."""
    import libcst as cst

    items = list(arguments)
    at = next((index for index, item in enumerate(items) if item.star == "**"), len(items))
    if not items:
        return [added]
    separator = _separator(items)
    if at < len(items):
        return [*items[:at], added.with_changes(comma=separator), *items[at:]]
    last = items[-1]
    trailing = last.comma if isinstance(last.comma, cst.Comma) else None
    if trailing is not None:
        between, closing = _handed_over(separator, trailing)
        return [*items[:-1], last.with_changes(comma=between), added.with_changes(comma=closing)]
    # The white space before the closing parenthesis belongs to the last argument and moves to the new one.
    moved = added.with_changes(whitespace_after_arg=last.whitespace_after_arg)
    plain = last.with_changes(comma=separator, whitespace_after_arg=cst.SimpleWhitespace(""))
    return [*items[:-1], plain, moved]


def _handed_over(separator: "cst.Comma", trailing: "cst.Comma") -> "tuple[cst.Comma, cst.Comma]":
    """The comma behind what was the last argument, its comment kept there, and the one that closes the list."""
    import libcst as cst

    before, after = separator.whitespace_after, trailing.whitespace_after
    if isinstance(before, cst.ParenthesizedWhitespace) and isinstance(after, cst.ParenthesizedWhitespace):
        separator = separator.with_changes(whitespace_after=before.with_changes(first_line=after.first_line))
        trailing = trailing.with_changes(whitespace_after=after.with_changes(first_line=cst.TrailingWhitespace()))
    return separator, trailing


def _separator(items: "list[cst.Arg]") -> "cst.Comma":
    """The comma between two arguments as this call writes it, comments left where they are."""
    import libcst as cst

    for item in items[:-1]:
        if isinstance(item.comma, cst.Comma):
            after = item.comma.whitespace_after
            if isinstance(after, cst.ParenthesizedWhitespace):
                after = after.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
            return cst.Comma(whitespace_after=after)
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _remove(call: "cst.Call", name: str) -> "cst.Call":
    """The call without a keyword."""
    import libcst as cst

    kept = [item for item in call.args if item.keyword is None or item.keyword.value != name]
    if len(kept) == len(call.args) or not kept:
        return call.with_changes(args=kept)
    was_last = call.args[-1] not in kept
    if was_last and not isinstance(call.args[-1].comma, cst.Comma):
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    elif was_last:
        kept[-1] = kept[-1].with_changes(comma=call.args[-1].comma)
    return call.with_changes(args=kept)
