"""The keys that each tool knows, and which known key an unknown one was meant to be."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gpudoctor.model.signs.configs import ConfigKind


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTable:
    """The keys of one tool."""

    name: str
    version: str
    """The newest version that they were read from."""
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
            version=str(table["versions"]).split()[-1] if table["versions"] else "",
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
LONG = 9
"""Letters from which two slips, or one letter for another, still tell the word."""


DIGITS = re.compile(r"\d")


def slip(key: str, known_key: str) -> bool:
    """Whether one slip, or none but underscores and case, lies between two keys."""
    one, other = (item.lower().replace("-", "_") for item in (key, known_key))
    return one.replace("_", "") == other.replace("_", "") or distance(one, other) <= 1


def meant(key: str, keys: Iterable[str]) -> str | None:
    """The one key that this is a slip of; None when there is none or several."""
    name = key.lower().replace("-", "_")
    if len(name) < SHORTEST:
        return None
    plain = name.replace("_", "")
    close: dict[int, list[str]] = {}
    for candidate in keys:
        if candidate.replace("_", "").lower() == plain:
            return candidate
        if abs(len(candidate) - len(name)) > 2 or len(candidate) < SHORTEST:
            continue
        if DIGITS.sub("", candidate) == DIGITS.sub("", name):
            continue  # fp16 and fp8, v1 and v2: another thing, no slip
        far = distance(name, candidate)
        allowed = 2 if min(len(name), len(candidate)) >= LONG else 1
        if far > allowed or (far == 1 and min(len(name), len(candidate)) < LONG and len(name) == len(candidate)
                             and sorted(name) != sorted(candidate)):  # fmt: skip
            continue
        close.setdefault(far, []).append(candidate)
    best = close[min(close)] if close else []
    return best[0] if len(best) == 1 else None


def distance(one: str, other: str) -> int:
    """Slips between two words: a letter more, a letter less, another letter, two letters swapped."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        previous, row = row, [i]
        for j, wanted in enumerate(other, 1):
            best = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before = previous
    return row[-1]
