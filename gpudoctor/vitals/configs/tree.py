"""A config as a tree with places, whatever its format, and the flat entries that checks read."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpudoctor.model.signs.configs import Duplicate, Entry, Scalar, Section

MAX_ENTRIES = 50_000
"""Entries kept of one file: five times the largest config anybody has asked for, and a bound for aliases."""
MAX_DEPTH = 64
"""Depth of keys kept; an alias may point at what holds it."""


@dataclass(slots=True)
class ConfigNode:
    """One value: plain when `pairs` and `items` are None. Lines and columns are 1-based, the end exclusive."""

    line: int
    column: int
    end_line: int = 0
    end_column: int = 0
    value: Scalar = None
    pairs: "list[ConfigPair] | None" = None
    items: "list[ConfigNode] | None" = None


@dataclass(slots=True)
class ConfigPair:
    """A key of a mapping and its value."""

    name: str
    line: int
    column: int
    node: ConfigNode


@dataclass(slots=True)
class Flat:
    """What `flatten` gives."""

    entries: dict[str, Entry] = field(default_factory=dict)
    sections: dict[str, Section] = field(default_factory=dict)
    duplicates: list[Duplicate] = field(default_factory=list)
    full: bool = False
    """Whether something was left out, for being too much or too deep."""


def flatten(root: ConfigNode, text: str) -> Flat:
    """Every plain value under its dotted key. Bounded in number and depth, so an alias bomb ends here."""
    flat = Flat()
    lines = text.split("\n")
    work: list[tuple[str, tuple[str, ...], int, int, ConfigNode]] = [("", (), root.line, root.column, root)]
    visited = 0
    while work:
        key, parts, line, column, node = work.pop()
        visited += 1
        if visited > 4 * MAX_ENTRIES or len(flat.entries) >= MAX_ENTRIES or len(parts) > MAX_DEPTH:
            flat.full = True
            if len(parts) > MAX_DEPTH:
                continue
            break
        plain = _plain(node)
        if plain is not None or (node.pairs is None and node.items is None):
            if parts:
                flat.entries[key] = Entry(
                    key=key,
                    parts=parts,
                    value=node.value if plain is None else plain,
                    line=line,
                    column=column,
                    value_line=node.line,
                    value_column=node.column,
                    end_line=node.end_line,
                    end_column=node.end_column,
                    text=_slice(lines, node),
                )
            continue
        if parts:
            flat.sections[key] = Section(key=key, line=line, column=column, end_line=max(node.end_line, line))
        work.extend(reversed(list(_children(node, key, parts, flat))))
    return flat


def _children(
    node: ConfigNode, key: str, parts: tuple[str, ...], flat: Flat
) -> Iterator[tuple[str, tuple[str, ...], int, int, ConfigNode]]:
    if node.pairs is not None:
        for pair in _winners(node.pairs, key, flat):
            name = f"{key}.{pair.name}" if key else pair.name
            yield name, (*parts, pair.name), pair.line, pair.column, pair.node
    for index, item in enumerate(node.items or ()):
        yield f"{key}[{index}]", (*parts, str(index)), item.line, item.column, item


def _winners(pairs: list[ConfigPair], key: str, flat: Flat) -> list[ConfigPair]:
    """One pair a name: the last written."""
    chosen: dict[str, ConfigPair] = {}
    for pair in pairs:
        before = chosen.get(pair.name)
        if before is not None:
            name = f"{key}.{pair.name}" if key else pair.name
            flat.duplicates.append(Duplicate(key=name, line=pair.line, first_line=before.line))
        chosen[pair.name] = pair
    return list(chosen.values())


def _plain(node: ConfigNode) -> tuple[Scalar, ...] | None:
    """A list of plain values as a tuple; None for anything else."""
    if node.items is None or any(item.pairs is not None or item.items is not None for item in node.items):
        return None
    return tuple(item.value for item in node.items)


def _slice(lines: list[str], node: ConfigNode) -> str:
    """The text between a node's start and end."""
    if node.line == node.end_line:
        return lines[node.line - 1][node.column - 1 : node.end_column - 1] if node.line <= len(lines) else ""
    chosen = lines[node.line - 1 : node.end_line]
    if not chosen:
        return ""
    chosen[0] = chosen[0][node.column - 1 :]
    if len(chosen) == node.end_line - node.line + 1:
        chosen[-1] = chosen[-1][: node.end_column - 1]
    return "\n".join(chosen)
