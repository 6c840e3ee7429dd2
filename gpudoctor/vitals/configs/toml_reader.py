"""TOML with places: the standard library reads the values, a scan of the (then valid) text finds the lines."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpudoctor.lang import say
from gpudoctor.model.signs.configs import Scalar
from gpudoctor.vitals.configs.config_text import TOO_DEEP, UnreadConfig, load_toml
from gpudoctor.vitals.configs.tree import ConfigNode, ConfigPair

_KEY: Final = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*(\.)?""")
_STRING: Final = re.compile(
    r'"{3}(?:[^\\]|\\.)*?"{3,5}' + r"|'{3}.*?'{3,5}" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'", re.DOTALL
)
_MAX_DEPTH: Final = 64


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
        raise UnreadConfig(say("{prefix}not valid TOML: {said}", prefix=prefix, said=said)) from error
    places = _Finder(text).places
    return _build(data, (), places, ConfigNode(1, 1), 0), ()


_Place = tuple[int, int, int, int, int, int]
"""Key's line and column, value's line and column, value's end line and column."""


def _build(
    data: Any, path: tuple[str, ...], places: Mapping[tuple[str, ...], _Place], near: ConfigNode, depth: int
) -> ConfigNode:
    place = places.get(path)
    # A value inside an inline table has no place of its own: it stands empty where the table starts.
    node = ConfigNode(*place[2:]) if place else ConfigNode(near.line, near.column, near.line, near.column)
    if depth > _MAX_DEPTH:
        return node
    if isinstance(data, dict):
        node.pairs = []
        for name, value in data.items():
            child = (*path, name)
            found = places.get(child)
            built = _build(value, child, places, node, depth + 1)
            line, column = found[:2] if found else (built.line, built.column)
            node.pairs.append(ConfigPair(name, line, column, built))
    elif isinstance(data, list):
        node.items = [_build(value, (*path, str(index)), places, node, depth + 1) for index, value in enumerate(data)]
    else:
        node.value = _scalar(data)
    for child_node in [pair.node for pair in node.pairs or ()] + (node.items or []):
        node.end_line = max(node.end_line, child_node.end_line)
    return node


def _scalar(value: Any) -> Scalar:
    return value if isinstance(value, bool | int | float | str) else str(value)


class _Finder:
    """Finds where keys and values stand in TOML that is known to be valid."""

    def __init__(self, text: str) -> None:
        self.places: dict[tuple[str, ...], _Place] = {}
        self.text = text
        self.line = 1
        self.line_start = 0
        self.position = 0
        self.prefix: tuple[str, ...] = ()
        self.tables: dict[tuple[str, ...], int] = {}
        self.scan()

    def scan(self) -> None:
        while self.position < len(self.text):
            char = self.text[self.position]
            if char in " \t":
                self.position += 1
            elif char == "\n":
                self.advance(self.position + 1)
            elif char == "#":
                self.advance(self.line_end())
            elif char == "[":
                self.header()
            else:
                self.pair()

    def header(self) -> None:
        line, column = self.here()
        array = self.text.startswith("[[", self.position)
        self.position += 2 if array else 1
        path = self.resolved(self.keys())
        if array:
            index = self.tables.get(path, 0)
            self.tables[path] = index + 1
            self.places.setdefault(path, (line, column, line, column, line, column))
            path = (*path, str(index))
        self.prefix = path
        self.places[path] = (line, column, line, column, line, column)
        self.advance(self.line_end())

    def resolved(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """A header's path with the index of the array tables it passes through."""
        done: tuple[str, ...] = ()
        for index, part in enumerate(path):
            done = (*done, part)
            if index < len(path) - 1 and done in self.tables:
                done = (*done, str(self.tables[done] - 1))
        return done

    def pair(self) -> None:
        line, column = self.here()
        path = (*self.prefix, *self.keys())
        start = self.text.find("=", self.position)
        if start < 0:
            self.advance(len(self.text))
            return
        start += 1
        while start < len(self.text) and self.text[start] in " \t":
            start += 1
        self.advance(start)
        value_line, value_column = self.here()
        self.advance(self.value_end(start))
        self.places[path] = (line, column, value_line, value_column, *self.here())
        for length in range(len(self.prefix) + 1, len(path)):  # a.b = 1 makes the table a
            self.places.setdefault(path[:length], (line, column, value_line, value_column, *self.here()))
        if self.text[self.position : self.position + 1] not in {"\n", "#", " ", "\t", ""}:
            self.advance(self.line_end())

    def keys(self) -> tuple[str, ...]:
        parts: list[str] = []
        while match := _KEY.match(self.text, self.position):
            parts.append(next(group for group in match.groups()[:3] if group is not None))
            self.position = match.end()
            if match[4] is None:
                break
        return tuple(parts)

    def value_end(self, start: int) -> int:
        """After the value's last character: brackets and strings balanced, comments skipped."""
        position, depth, last = start, 0, start
        while position < len(self.text):
            char = self.text[position]
            if char in "\"'":
                match = _STRING.match(self.text, position)
                position = last = match.end() if match else len(self.text)
                continue
            if char == "#" or (char == "\n" and depth == 0):
                if depth == 0:
                    break
                end = self.text.find("\n", position)
                position = len(self.text) if char == "#" and end < 0 else (end if char == "#" else position + 1)
                continue
            depth += (char in "[{") - (char in "]}")
            position += 1
            if char not in " \t\n":
                last = position
        return last

    def line_end(self) -> int:
        end = self.text.find("\n", self.position)
        return len(self.text) if end < 0 else end

    def advance(self, position: int) -> None:
        count = self.text.count("\n", self.position, position)
        if count:
            self.line += count
            self.line_start = self.text.rfind("\n", self.position, position) + 1
        self.position = max(position, self.position)

    def here(self) -> tuple[int, int]:
        return self.line, self.position - self.line_start + 1
