"""Puts one server into an agent's settings; every other key stays.

What does not parse is refused, JSON with comments too: a person adds the entry that the sentence shows.
"""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from gpudoctor.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def with_json(text: str, key: str, name: str, entry: dict[str, Any], where: str) -> str:
    """The settings with the entry at `key`.`name`. Raises `UsageError`."""
    try:
        settings = json.loads(text if text.strip() else "{}", object_pairs_hook=_each_once)
        if not isinstance(settings, dict) or not isinstance(settings.get(key, {}), dict):
            raise ValueError(f"{key} is no object")
    except (ValueError, RecursionError) as error:
        by_hand = json.dumps({key: {name: entry}})
        raise UsageError(f"{where}: not plain JSON ({error}); correct the file, or do it by hand: {by_hand}") from error
    servers = settings.get(key, {})
    if servers.get(name) == entry:
        return text
    settings[key] = {**servers, name: entry}
    indent = re.search(r"\n([ \t]+)\"", text)
    return json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; one that has a key twice would lose a value when it is written again."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("it has a key twice")
    return made


# TOML: the tables of one server are a stretch of lines.


def with_toml(text: str, key: str, name: str, entry: dict[str, Any], where: str) -> str:
    """The settings with the table [`key`.`name`], at the end where there is none. Raises `UsageError`."""
    try:
        servers = tomllib.loads(text).get(key, {})
        if servers.get(name) == entry:
            return text
        lines = [f"[{key}.{name}]", *(f"{word} = {_toml(value)}" for word, value in entry.items())]
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        new = text + gap + "\n".join(lines) + "\n"
        tomllib.loads(new)  # another table of this name is refused
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: cannot be edited ({error}); correct the file, or see --print") from error
    return new


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
