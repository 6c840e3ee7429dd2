"""Puts one server into an agent's settings, or takes it out; every other character of the file stays.

JSON may have comments and trailing commas, as VS Code and Cursor write it. What does not parse is refused.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpudoctor.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NOISE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCALAR = re.compile(r"[^\s,\]}/]+")
_INDENT = "  "


class _NotJson(ValueError):
    """The text is no JSON, with comments or without."""


def _noise(text: str, at: int) -> int:
    found = _NOISE.match(text, at)
    return found.end() if found else at


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of the text, read once: time must not double with each level of a deep file."""

    value: Any
    begin: int
    end: int
    members: tuple[tuple[str, int, "_Node"], ...] = ()
    """Of an object or array: each member's key ("" in an array), where it begins, and its value."""


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"


def _node(text: str, at: int) -> _Node:
    """The value that begins here."""
    opening = text[at : at + 1]
    if opening in ("{", "["):
        members, end = _members(text, at)
        nodes = [(key, node.value) for key, _, node in members]
        return _Node(dict(nodes) if opening == "{" else [value for _, value in nodes], at, end, tuple(members))
    found = (_STRING if opening == '"' else _SCALAR).match(text, at)
    if found is None:
        raise _NotJson(f"{_line(text, at)} is no JSON")
    return _Node(json.loads(found[0]), at, found.end())


def _members(text: str, at: int) -> tuple[list[tuple[str, int, _Node]], int]:
    """The members of the object or array that begins here, and where it ends."""
    close = "}" if text[at] == "{" else "]"
    members: list[tuple[str, int, _Node]] = []
    at = _noise(text, at + 1)
    while text[at : at + 1] != close:
        key, start = "", at
        if close == "}":
            found = _STRING.match(text, at)
            if found is None:
                raise _NotJson(f"{_line(text, at)} has no key")
            key = json.loads(found[0])
            at = _noise(text, found.end())
            if text[at : at + 1] != ":":
                raise _NotJson(f"{_line(text, at)} has no colon after {key!r}")
            at = _noise(text, at + 1)
        node = _node(text, at)
        members.append((key, start, node))
        at = _noise(text, node.end)
        if text[at : at + 1] == ",":
            at = _noise(text, at + 1)
        elif text[at : at + 1] != close:
            raise _NotJson(f"{_line(text, at)} has neither a comma nor {close}")
    return members, at + 1


def _root(text: str) -> _Node:
    root = _node(text, _noise(text, 0))
    if _noise(text, root.end) != len(text):
        raise _NotJson(f"{_line(text, root.end)} has more than one value")
    return root


def plain(text: str) -> Any:
    """The JSON without its comments and trailing commas. Raises `ValueError`."""
    return _root(text).value


def with_json(text: str, key: str, name: str, entry: dict[str, Any] | None, where: str) -> str:
    """The settings with the entry at `key`.`name`, or without it (None). Raises `UsageError`."""
    text = text if text.strip() else "{}\n"
    try:
        before = plain(text)
        if not isinstance(before, dict) or not isinstance(before.get(key, {}), dict):
            raise _NotJson(f"{key} is no object")
        new = _edited(text, key, name, entry)
        after = plain(new)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: cannot be edited ({error}); correct the file, or see --print") from error
    expected = json.loads(json.dumps(before))
    expected.setdefault(key, {}).pop(name, None)
    if entry is not None:
        expected[key][name] = entry
    if {**after, key: after.get(key, {})} != expected:
        raise UsageError(f"{where}: has keys twice; correct the file, or see --print")
    return new


def _edited(text: str, key: str, name: str, entry: dict[str, Any] | None) -> str:
    root = _root(text)
    holder = next((node for found, _, node in root.members if found == key), None)
    if holder is None:
        return text if entry is None else _inserted(text, root.begin, key, {name: entry}, 1)
    for found, start, node in holder.members:
        if found == name:
            if entry is None:
                return _without(text, start, node.end)
            return text[: node.begin] + _dumped(entry, 2) + text[node.end :]
    return text if entry is None else _inserted(text, holder.begin, name, entry, 2)


def _inserted(text: str, at: int, key: str, value: Any, depth: int) -> str:
    """A member put first into the object that begins here."""
    empty = text[_noise(text, at + 1)] == "}"
    pad = "\n" + _INDENT * depth
    rest = text[at + 1 :]
    member = f"{pad}{json.dumps(key)}: {_dumped(value, depth)}"
    if not empty:
        return text[: at + 1] + member + "," + (rest if rest[:1].isspace() else pad + rest)
    tail = "" if "\n" in text[at : _noise(text, at + 1)] else "\n" + _INDENT * (depth - 1)
    return text[: at + 1] + member + tail + rest


def _dumped(value: Any, depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + _INDENT * depth)


def _without(text: str, start: int, end: int) -> str:
    """Without a member, with the comma that belongs to it."""
    after = _noise(text, end)
    if text[after : after + 1] == ",":
        return text[:start].rstrip(" \t").rstrip("\n") + text[after + 1 :]
    head = text[:start].rstrip()
    return (head[:-1] if head.endswith(",") else head) + text[end:]


# TOML: the tables of one server are a stretch of lines.


def with_toml(text: str, key: str, name: str, entry: dict[str, Any] | None, where: str) -> str:
    """The settings with the table [`key`.`name`], or without it (None). Raises `UsageError`."""
    try:
        before = tomllib.loads(text)
        kept = "".join(_lines_without(text, f"{key}.{name}"))
        new = kept if kept == text else kept.rstrip("\n") + "\n" * bool(kept.strip())
        if entry is not None:
            gap = "" if not kept.strip() else "\n" if kept.endswith("\n") else "\n\n"
            lines = [f"[{key}.{name}]", *(f"{word} = {_toml(value)}" for word, value in entry.items())]
            new = kept + gap + "\n".join(lines) + "\n"
        after = tomllib.loads(new)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: cannot be edited ({error}); correct the file, or see --print") from error
    servers = {word: value for word, value in before.get(key, {}).items() if word != name}
    servers |= {name: entry} if entry is not None else {}
    if {**after, key: after.get(key, {})} != {**before, key: servers}:
        raise UsageError(f"{where}: {key}.{name} is not a table of its own; remove it by hand, then try again")
    return new


def _lines_without(text: str, table: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines(keepends=True):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        if header:
            found = header[1].replace('"', "").replace("'", "").replace(" ", "")
            inside = found == table or found.startswith(f"{table}.")
        if not inside:
            yield line


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def server_entry(command: Sequence[str], *, typed: bool, toml: bool) -> dict[str, Any]:
    """What registers the server."""
    entry: dict[str, Any] = {"type": "stdio"} if typed else {}
    entry |= {"command": command[0], "args": list(command[1:])}
    # A first start of uvx downloads; trials take minutes.
    return entry | ({"startup_timeout_sec": 60, "tool_timeout_sec": 3600} if toml else {})
