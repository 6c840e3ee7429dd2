"""TOML with lines: the standard library reads the values, a scan finds the line of each key.

Values have no place of their own: they are not edited.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpudoctor.vitals.configs.config_text import TOO_DEEP, UnreadConfig, load_toml
from gpudoctor.vitals.configs.tree import ConfigNode, ConfigPair

_TABLE: Final = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]")
_KEY: Final = re.compile(r"\s*([\w.-]+)\s*=")
_MAX_DEPTH: Final = 64


def read_toml(text: str) -> ConfigNode:
    """The tree. Raises `UnreadConfig`."""
    try:
        data = load_toml(text)
    except RecursionError as error:
        raise UnreadConfig(TOO_DEEP) from error
    except ValueError as error:
        raise UnreadConfig("not valid TOML: {error}", error=error) from error
    return _build(data, "", _lines(text), 1)


def _build(data: Any, key: str, lines: Mapping[str, int], line: int) -> ConfigNode:
    """The tree of a value; what has no line of its own stands where its table does."""
    node = ConfigNode(line, 1, line, 1)
    if key.count(".") > _MAX_DEPTH:
        return node
    if isinstance(data, dict):
        node.pairs = []
        for name, value in data.items():
            inner = f"{key}.{name}" if key else name
            at = lines.get(inner, line)
            node.pairs.append(ConfigPair(name, at, 1, _build(value, inner, lines, at)))
    elif isinstance(data, list):
        node.items = [_build(value, key, lines, line) for value in data]
    else:
        node.value = data if isinstance(data, bool | int | float | str) else str(data)
    return node


def _lines(text: str) -> dict[str, int]:
    """Dotted key to its 1-based line."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _TABLE.match(line):
            table = header[1] + "."
            found.setdefault(header[1], number)
        elif key := _KEY.match(line):
            found.setdefault(table + key[1], number)
    return found
