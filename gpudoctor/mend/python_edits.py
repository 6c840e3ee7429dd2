"""Edits of Python calls and imports by LibCST, which keeps formatting and comments, given back as splices."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.mend.text import CannotMend, Splice, offset
from gpudoctor.model import ImportEdit, KeywordEdit

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodeRange, MetadataWrapper


class PythonFile:
    """A Python file parsed once, for all its edits."""

    def __init__(self, text: str) -> None:
        import libcst as cst
        from libcst.metadata import MetadataWrapper

        try:
            self._wrapper: MetadataWrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        except cst.ParserSyntaxError as error:
            raise CannotMend(f"it does not parse (line {error.raw_line})") from error
        self._text = text
        self._calls = _collect_calls(self._wrapper)

    def keywords(self, edits: Sequence[KeywordEdit]) -> Splice:
        """One splice for all keyword edits of one call; later edits win where they set the same keyword."""
        place = (edits[0].line, edits[0].column)
        found = self._calls.get(place)
        if not found:
            raise CannotMend(f"no call at line {place[0]}, column {place[1]} any more")
        if (
            len(found) > 1
        ):  # `Trainer(...).train()`: both calls start at one place, and the edit cannot say which
            raise CannotMend(f"line {place[0]} chains calls; the edit cannot tell them apart, apply it by hand")
        call, where = found[0]
        new = call
        for edit in edits:
            for name, value in edit.set:
                new = _set(new, name, value)
            for name in edit.remove:
                new = _remove(new, name)
        start = offset(self._text, where.start.line, where.start.column + 1)
        end = offset(self._text, where.end.line, where.end.column + 1)
        # The code of the node alone would lose the indentation of the block around it: the whole is written.
        whole = self._wrapper.module.with_deep_changes(call, args=new.args).code
        return Splice(start, end, whole[start : end + len(whole) - len(self._text)])

    def imports(self, edit: ImportEdit) -> Splice | None:
        """A line after the last import of the module's head; None when the import is there already."""
        import ast

        tree = ast.parse(self._text)
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
        lines = self._text.split("\n")
        at = sum(len(line) + 1 for line in lines[:last])
        return Splice(at, at, edit.statement + "\n")


def _single(node: object) -> list[str]:
    """The imports of a statement, one name each, as source."""
    import ast

    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(names=[name])) for name in node.names]
    assert isinstance(node, ast.ImportFrom)
    return [ast.unparse(ast.ImportFrom(node.module, [name], node.level)) for name in node.names]


def _collect_calls(wrapper: "MetadataWrapper") -> "dict[tuple[int, int], list[tuple[cst.Call, CodeRange]]]":
    """Calls by 1-based line and column; several where they are chained, as in `a.b(x).c(y)`."""
    import libcst as cst
    from libcst.metadata import PositionProvider

    positions = wrapper.resolve(PositionProvider)
    found: dict[tuple[int, int], list[tuple[cst.Call, CodeRange]]] = {}

    class Collector(cst.CSTVisitor):
        def visit_Call(self, node: cst.Call) -> None:
            where = positions[node]
            found.setdefault((where.start.line, where.start.column + 1), []).append((node, where))

    wrapper.module.visit(Collector())
    return found


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
        trailing = trailing.with_changes(
            whitespace_after=after.with_changes(first_line=cst.TrailingWhitespace())
        )
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
