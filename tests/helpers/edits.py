"""Applies the edits of a remedy to a script's text, to see whether they cure it."""

import ast
from collections.abc import Iterable

from gpudoctor.model import Edit, ImportEdit, KeywordEdit, TextEdit


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after the edits; refuses where something else stands than an edit expects."""
    edits = list(edits)
    placed = [edit for edit in edits if not isinstance(edit, ImportEdit)]
    for edit in sorted(placed, key=lambda item: (item.line, item.column), reverse=True):
        text = _text(text, edit) if isinstance(edit, TextEdit) else _keyword(text, edit)
    for edit in edits:
        text = f"{edit.statement}\n{text}" if isinstance(edit, ImportEdit) else text
    ast.parse(text)
    return text


def _text(text: str, edit: TextEdit) -> str:
    start, end = _offset(text, edit.line, edit.column), _offset(text, edit.end_line, edit.end_column)
    assert text[start:end] == edit.expected
    return text[:start] + edit.new_text + text[end:]


def _keyword(text: str, edit: KeywordEdit) -> str:
    call = next(
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and (node.lineno, node.col_offset + 1) == (edit.line, edit.column)
    )
    old = ast.get_source_segment(text, call)
    assert old is not None
    kept = [item for item in call.keywords if item.arg not in {*edit.remove, *(name for name, _ in edit.set)}]
    added = [ast.keyword(arg=name, value=ast.parse(value, mode="eval").body) for name, value in edit.set]
    call.keywords = kept + added
    start = _offset(text, call.lineno, call.col_offset + 1)
    return text[:start] + ast.unparse(call) + text[start + len(old) :]


def _offset(text: str, line: int, column: int) -> int:
    return sum(len(item) for item in text.splitlines(keepends=True)[: line - 1]) + column - 1
