"""Finding syntax again by its place, and the block that a statement stands in: what rules need for an edit."""

import ast
import os
from collections.abc import Iterable, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.lang import say
from gpudoctor.lang.message import row
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, Script, Source


@once
def resolved_calls(script: Script) -> Mapping[ast.AST, Call]:
    """The resolved call of each call node."""
    return {call.node: call for call in script.calls}


def place(span: SourceSpan) -> str:
    """A place as a fact that a finding carries: `path:line:column`."""
    return f"{span.path}:{span.line}:{span.column}"


def line_at(span: SourceSpan, home: SourceSpan | None = None) -> str:
    """A line in words; with its file when that is another one than the file of `home`."""
    away = home is not None and span.path != home.path
    return (
        say("line {line} of {file}", line=span.line, file=os.path.basename(span.path))
        if away
        else say("line {line}", line=span.line)
    )


def lines_at(spans: Iterable[SourceSpan], home: str = "", most: int = 8) -> str:
    """Lines in words, each file once: `lines 3, 9`, `line 3; line 9 of model.py`; how many more there are.

    `home`: the file that is not named; without it that of the first place.
    """
    places = list(dict.fromkeys((span.path, span.line) for span in spans))
    home = home or places[0][0]
    places.sort(key=lambda item: (item[0] != home, item))
    shown: dict[str, list[int]] = {}
    for path, line in places[:most]:
        shown.setdefault(path, []).append(line)
    parts = []
    for path, lines in shown.items():
        numbers = ", ".join(map(str, lines))
        words = say("line {line}", line=numbers) if len(lines) == 1 else say("lines {lines}", lines=numbers)
        parts.append(words if path == home else say("{words} of {file}", words=words, file=os.path.basename(path)))
    rest = len(places) - most
    listed = row("; ", parts)
    return say("{lines} and {rest} more", lines=listed, rest=rest) if rest > 0 else listed


def find(source: Source, fact: object, kind: type[ast.AST] = ast.Call) -> tuple[Script, ast.AST] | None:
    """The outermost node of a kind at a place that `place` wrote."""
    path, _, rest = str(fact or "").rpartition(":")
    path, _, line = path.rpartition(":")
    if not (path and line.isdigit() and rest.isdigit()):
        return None
    script = next((item for item in source.scripts if item.path == path), None)
    if script is None:
        return None
    for node in nodes(script, kind):
        if (getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1) == (int(line), int(rest)):
            return script, node
    return None
