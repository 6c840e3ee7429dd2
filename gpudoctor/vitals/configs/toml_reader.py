"""TOML with places: the standard library reads the values, a scan of the (then valid) text finds the lines.

A value of several lines, and one inside an inline table, has a line and no text of its own: it is not edited.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

from gpudoctor.lang import say
from gpudoctor.vitals.configs.config_text import TOO_DEEP, UnreadConfig, load_toml
from gpudoctor.vitals.configs.tree import ConfigNode, ConfigPair

_PART: Final = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_KEYS: Final = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_LONG: Final = r'"{3}(?:[^\\]|\\.)*?"{3,5}' + r"|'{3}.*?'{3,5}"
_SHORT: Final = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^"'#\n])+"""
_STATEMENT: Final = re.compile(
    rf"^[ \t]*(?:(?P<table>\[\[?)[ \t]*(?P<header>{_KEYS})"
    rf"|(?P<keys>{_KEYS})[ \t]*=[ \t]*(?:(?P<long>{_LONG})|(?P<short>{_SHORT})))",
    re.MULTILINE | re.DOTALL,
)
_MAX_DEPTH: Final = 64
_Place = tuple[int, int, int, int, int, int]
"""Key's line and column, value's line and column, value's end line and column."""


def read_toml(text: str) -> tuple[ConfigNode, tuple[str, ...]]:
    """The tree and notes. Raises `UnreadConfig` with the line."""
    try:
        data = load_toml(text)
    except RecursionError as error:
        raise UnreadConfig(TOO_DEEP) from error
    except ValueError as error:
        where = re.search(r"at line (\d+), column (\d+)", str(error))
        said = re.sub(r" ?\(at [^()]*\)", "", str(error))
        prefix = say("line {line}, column {column}: ", line=where[1], column=where[2]) if where else ""
        raise UnreadConfig("{prefix}not valid TOML: {said}", prefix=prefix, said=said) from error
    return _build(data, (), _places(text), ConfigNode(1, 1), 0), ()


def _build(
    data: Any, path: tuple[str, ...], places: Mapping[tuple[str, ...], _Place], near: ConfigNode, depth: int
) -> ConfigNode:
    place = places.get(path)
    node = ConfigNode(*place[2:]) if place else ConfigNode(near.line, near.column, near.line, near.column)
    if depth > _MAX_DEPTH:
        return node
    if isinstance(data, dict):
        node.pairs = []
        for name, value in data.items():
            child = (*path, name)
            built = _build(value, child, places, node, depth + 1)
            line, column = places[child][:2] if child in places else (built.line, built.column)
            node.pairs.append(ConfigPair(name, line, column, built))
    elif isinstance(data, list):
        node.items = [_build(value, (*path, str(index)), places, node, depth + 1) for index, value in enumerate(data)]
    else:
        node.value = data if isinstance(data, bool | int | float | str) else str(data)
    for inside in [pair.node for pair in node.pairs or ()] + (node.items or []):
        node.end_line = max(node.end_line, inside.end_line)
    return node


def _places(text: str) -> dict[tuple[str, ...], _Place]:
    """Where tables, keys and values stand in TOML that is known to be valid."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: dict[tuple[str, ...], _Place] = {}
    arrays: dict[tuple[str, ...], int] = {}
    prefix: tuple[str, ...] = ()

    def at(position: int) -> tuple[int, int]:
        line = bisect_right(starts, position)
        return line, position - starts[line - 1] + 1

    for match in _STATEMENT.finditer(text):
        written = match["header"] or match["keys"]
        names = tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, written))
        if match["table"]:
            here = at(match.start("table"))
            prefix = ()
            for name in names:  # through the last table of each array
                prefix += (str(arrays[prefix]), name) if prefix in arrays else (name,)
            if match["table"] == "[[":
                found.setdefault(prefix, (*here, *here, *here))
                arrays[prefix] = arrays.get(prefix, -1) + 1
                prefix += (str(arrays[prefix]),)
            found[prefix] = (*here, *here, *here)
            continue
        value = "long" if match["long"] else "short"
        begin, end = at(match.start(value)), at(match.start(value) + len(match[value].rstrip()))
        if match[value][0] in "[{" and match[value].count("[") != match[value].count("]"):
            end = begin
        place = (*at(match.start("keys")), *begin, *end)
        path = (*prefix, *names)
        for length in range(len(prefix) + 1, len(path)):  # a.b = 1 makes the table a
            found.setdefault(path[:length], place)
        found[path] = place
    return found
