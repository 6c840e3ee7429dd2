"""From a kind's own keys to canonical names: the table applied, switches and strategies obeyed."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

from gpudoctor.model.signs.configs import ConfigKind, ConfigValue, Entry, Said
from gpudoctor.vitals.configs.config_text import key_tables, words
from gpudoctor.vitals.configs.tree import Flat


class KeyMeaning(NamedTuple):
    """What one key means."""

    name: str
    unit: str
    reading: str


_TABLES: Final = {
    "llama-factory": "huggingface llama_factory",
    "axolotl": "huggingface axolotl",
    "peft": "peft quantisation",
    "sections": "huggingface quantisation sections",
}
"""The tables of kinds that have more than the one of their name."""
_SUFFIXED: Final = frozenset({ConfigKind.LIGHTNING, ConfigKind.SECTIONS})
"""Kinds whose keys are matched by their last parts, since their owners choose the sections."""


@cache
def table(kind: ConfigKind) -> dict[str, KeyMeaning]:
    """Key (dotted) to meaning, for one kind; later tables win."""
    rows: dict[str, KeyMeaning] = {}
    for tool in _TABLES.get(kind.value, kind.value).split():
        for meaning, keys in key_tables()["meanings"].get(tool, {}).items():
            name, unit, reading = meaning.split()
            rows |= dict.fromkeys(keys.split(), KeyMeaning(name, "" if unit == "-" else unit, reading))
    return rows


_SWITCHES: Final = ("enabled", "enable", "active", "is_enabled")
_PERIODS: Final = {
    "logging_period": ("log",),
    "profile_period": ("profil",),
    "flops_period": ("flops", "profil"),
    "evaluation_period": ("eval", "valid"),
    "save_period": ("save", "checkpoint"),
}
"""A period and the words of the switches beside it that turn it off: `flops_profile: false`."""
_EPOCH_WORDS: Final = re.compile(r"epoch", re.IGNORECASE)
_STEP_WORDS: Final = re.compile(r"step|iter|batch", re.IGNORECASE)
_STEPPED: Final = words("max_steps max_iters train_iters total_steps train_steps num_train_steps")
_LONGEST_SUFFIX: Final = 3
_STRATEGISTS: Final = frozenset(
    {ConfigKind.HUGGINGFACE, ConfigKind.LLAMA_FACTORY, ConfigKind.AXOLOTL, ConfigKind.SECTIONS}
)


def canonical(flat: Flat, kind: ConfigKind) -> dict[str, tuple[Said, ...]]:
    """Canonical name to what the file says about it. Values that only the tool can fill in are left out."""
    rows = table(kind)
    if not rows:
        return {}
    off_beside: dict[tuple[str, ...], list[str]] = {}
    for entry in flat.entries.values():
        if entry.value is False:
            off_beside.setdefault(entry.parts[:-1], []).append(entry.last.lower())
    names = {entry.last.lower() for entry in flat.entries.values()}
    stepped = bool(names & _STEPPED) and not any("epoch" in name for name in names)
    """Whether the run's length is in steps."""
    said: dict[str, list[Said]] = {}
    told: set[tuple[str, int, int]] = set()
    for entry in flat.entries.values():
        row = _row(entry, rows, kind)
        if row is None or entry.interpolated or entry.value == "auto" or _off(entry, row, off_beside):
            continue
        for name, value in _read(row, entry, stepped):
            if (name, entry.line, entry.column) in told:
                continue  # the same line again, through an alias or a merge
            told.add((name, entry.line, entry.column))
            said.setdefault(name, []).append(Said(value=value, unit=row.unit, key=entry.key))
    if kind in _STRATEGISTS:
        _obey_strategies(said, flat, kind)
    return {name: tuple(items) for name, items in said.items() if items}


def _off(entry: Entry, row: KeyMeaning, off_beside: dict[tuple[str, ...], list[str]]) -> bool:
    """Whether a switch beside the key, or above it, says that it is not used.

    `off_beside`: path of a section to the names in it that are written false.
    """
    if entry.last in _SWITCHES or not off_beside:
        return False
    for length in range(len(entry.parts) - 1, 0, -1):
        if any(name in _SWITCHES for name in off_beside.get(entry.parts[:length], ())):
            return True
    telling = _PERIODS.get(row.name, ())
    return any(
        word in name for name in off_beside.get(entry.parts[:-1], ()) for word in telling if "strategy" not in name
    )


def _row(entry: Entry, rows: dict[str, KeyMeaning], kind: ConfigKind) -> KeyMeaning | None:
    if kind not in _SUFFIXED:
        return rows.get(entry.key)
    parts = [part.lower().replace("-", "_") for part in entry.parts]
    for length in range(min(_LONGEST_SUFFIX, len(parts)), 0, -1):
        row = rows.get(".".join(parts[-length:]))
        if row is not None:
            return row
    return None


def _read(row: KeyMeaning, entry: Entry, stepped: bool) -> Iterator[tuple[str, ConfigValue]]:
    """The canonical names and values of one entry: usually one, none when the value is not of its kind."""
    if row.reading == "precision":
        yield from _precision(entry.value)
        return
    read = READINGS[row.reading](entry.value)
    if row.reading in {"often", "sure"} and not _in_steps(row.reading, entry.key, stepped):
        read = None
    if read is not None:
        yield row.name, read


def _in_steps(reading: str, key: str, stepped: bool) -> bool:
    """Whether a period without a unit in its name counts steps; `often` is yes unless it says epochs."""
    if _STEP_WORDS.search(key):
        return True
    return (reading == "often" or stepped) and not _EPOCH_WORDS.search(key)


def _number(value: ConfigValue) -> int | float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    if isinstance(value, float) and abs(value) < 1e15 and value == int(value):
        return int(value)
    return value


def _count(value: ConfigValue) -> int | None:
    number = _number(value)
    return number if isinstance(number, int) and number >= 0 else None


def _period(value: ConfigValue) -> int | None:
    """Whole steps; a share of the run (a float below 1), 0 and -1 (off) are none."""
    number = _count(value)
    return number or None


def _switch(value: ConfigValue) -> bool | None:
    if isinstance(value, str) and value.lower() in {"true", "false", "yes", "no", "on", "off"}:
        return value.lower() in {"true", "yes", "on"}
    return value if isinstance(value, bool) else None


def _word(value: ConfigValue) -> str | None:
    if isinstance(value, bool):
        return "true" if value else None
    return value if isinstance(value, str) and value else None


def _names(value: ConfigValue) -> ConfigValue:
    if isinstance(value, tuple):
        return tuple(str(item) for item in value)
    if isinstance(value, str) and value:
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return None


def _precision(value: ConfigValue) -> Iterator[tuple[str, ConfigValue]]:
    """`bf16-mixed`, `fp16`, `16`, `bfloat16`, `32-true`."""
    text = str(value).lower()
    if isinstance(value, bool) or value is None or isinstance(value, tuple):
        return
    yield "precision", text
    if text.startswith(("bf16", "bfloat16")):
        yield "bf16", True
    elif text in {"16", "fp16", "float16", "half"} or text.startswith(("16-", "fp16-")):
        yield "fp16", True


READINGS: Final[dict[str, Callable[[ConfigValue], ConfigValue]]] = {
    "period": _period,
    "often": _period,
    "sure": _period,
    # Lightning's `val_check_interval`: 1.0 is a whole epoch, 1 is a batch.
    "whole_period": lambda value: _period(value) if isinstance(value, int) else None,
    "count": _count,
    "number": _number,
    "positive": lambda value: number if (number := _number(value)) is not None and number > 0 else None,
    "switch": _switch,
    "unless": lambda value: None if (switch := _switch(value)) is None else not switch,
    "word": _word,
    "names": _names,
    "devices": lambda value: (
        len(value) or None if isinstance(value, tuple) else _period(value) if isinstance(value, int) else None
    ),
    "four": lambda value: 4 if _switch(value) else None,
    "eight": lambda value: 8 if _switch(value) else None,
}
"""How a value is read; None is "says nothing"."""


def _obey_strategies(said: dict[str, list[Said]], flat: Flat, kind: ConfigKind) -> None:
    """The Trainer's `*_strategy` keys decide whether the `*_steps` beside them are used at all."""
    # The Trainer evaluates only when a strategy asks for it; axolotl's eval_steps is such an asking.
    needed = kind in {ConfigKind.HUGGINGFACE, ConfigKind.LLAMA_FACTORY}
    for name, keys in _STRATEGIES.items():
        for entry in (item for item in flat.entries.values() if item.last in keys and item.value == "epoch"):
            said.setdefault(name.replace("period", "epochs"), []).append(Said(value=1, unit="{epoch}", key=entry.key))
        for item in list(said.get(name, ())):
            prefix = item.key[: item.key.rfind(".") + 1]
            written = next((flat.entries[prefix + key] for key in keys if prefix + key in flat.entries), None)
            steps = not needed or name != "evaluation_period" if written is None else written.value == "steps"
            if not steps:
                said[name].remove(item)


_STRATEGIES: Final = {
    "logging_period": ("logging_strategy",),
    "save_period": ("save_strategy",),
    "evaluation_period": ("eval_strategy", "evaluation_strategy"),
}
