"""The keys that each tool knows, and which known key an unknown one was meant to be."""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from gpudoctor.model.records import frozen
from gpudoctor.model.signs.configs import ConfigKind


@frozen
class KeyTable:
    """The keys of one tool."""

    name: str
    keys: frozenset[str]
    sections: Mapping[str, frozenset[str]]
    """Dotted section to the keys in it."""
    closed: frozenset[str]
    """Sections whose reader refuses other keys."""


@cache
def tables() -> dict[str, KeyTable]:
    """Every table by its name in known_keys.json."""
    raw = json.loads(files(__package__).joinpath("known_keys.json").read_text("utf-8"))
    return {
        name: KeyTable(
            name=name,
            keys=frozenset(table["keys"] if isinstance(table["keys"], dict) else table["keys"].split()),
            sections={key: frozenset(words.split()) for key, words in table.get("sections", {}).items()},
            closed=frozenset(table.get("closed", ())),
        )
        for name, table in raw["tables"].items()
    }


@cache
def everywhere() -> frozenset[str]:
    """Every key that any tool knows: no typo, wherever it stands."""
    found: set[str] = set()
    for table in tables().values():
        found |= table.keys
        for keys in table.sections.values():
            found |= keys
    return frozenset(found)


KINDS: dict[ConfigKind, tuple[str, ...]] = {
    ConfigKind.HUGGINGFACE: ("training-arguments", "trl", "script-arguments"),
    ConfigKind.LLAMA_FACTORY: ("llama-factory", "training-arguments"),
    ConfigKind.AXOLOTL: ("axolotl",),
    ConfigKind.ACCELERATE: ("accelerate",),
    ConfigKind.DEEPSPEED: ("deepspeed",),
    ConfigKind.TORCHTUNE: ("torchtune",),
    ConfigKind.PEFT: ("peft-lora",),
    ConfigKind.QUANTISATION: ("bitsandbytes",),
}
"""The tables of a file's top level."""


def known(names: Iterable[str]) -> frozenset[str]:
    """The keys of several tables."""
    return frozenset().union(*(tables()[name].keys for name in names))


SHORTEST = 5
"""Letters; shorter words have too many neighbours."""
ALIKE = 0.9
"""Share of common letters of two keys that differ by a slip: one letter for another in ten."""
_DIGITS = re.compile(r"\d")


def meant(key: str, keys: Iterable[str]) -> str | None:
    """The key that this is a slip of; None when there is none."""
    name = key.lower().replace("-", "_")
    plain = _DIGITS.sub("", name)  # fp16 and fp8, v1 and v2: another thing, no slip
    near = {item.lower(): item for item in keys if len(item) >= SHORTEST}
    near = {low: item for low, item in near.items() if low == name or _DIGITS.sub("", low) != plain}
    best = get_close_matches(name, near, n=1, cutoff=ALIKE) if len(name) >= SHORTEST else []
    return near[best[0]] if best else None
