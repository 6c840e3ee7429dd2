"""The variables that NCCL and torch's use of it read, by version, and what a value is to them.

The facts and their sources stand in nccl_variables.json, whose lists of NCCL's own names leave out `NCCL_`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gpudoctor.lang import say
from gpudoctor_checks.config.known_keys import slip

OURS = re.compile(r"(?:NCCL|TORCH_NCCL|TORCH_FR)_[A-Z0-9_]+\Z")
"""The names that are judged."""

_NUMBER = re.compile(r"\s*[-+]?(?:0x[0-9a-fA-F]+|\d+)\s*\Z")
_LEADING = re.compile(r"\s*([-+]?\d+)")
_FLAGS = frozenset({"y", "yes", "1", "t", "true", "n", "no", "0", "f", "false"})
"""What torch takes for a flag (`getCvarBool`)."""


_PLACES = ("_HOME", "_ROOT", "_LOCATION", "_PREFIX", "_BIN")
"""Names that end so say to a build script where NCCL or its tests are (NCCL_TEST_HOME)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values that one variable can have."""

    words: tuple[str, ...] = ()
    case: bool = False
    """Whether the library compares the words with their case."""
    digits: bool = False
    """Whether it takes a number in place of a word."""
    listed: bool = False
    """Whether it is a list of words, `^ring` and `allreduce:tree,ring;broadcast:ring` included."""
    lowest: int | None = None
    highest: int | None = None

    def refuses(self, value: str) -> str:
        """What the library knows instead; "" for a value that it takes."""
        if self.lowest is not None and self.highest is not None:
            number = _read(value)
            inside = number is None or self.lowest <= number <= self.highest
            return "" if inside else say("{lowest} to {highest}", lowest=self.lowest, highest=self.highest)
        text = value.strip()
        if self.digits and text[:1].isdigit():
            return ""
        wanted = self.words if self.case else tuple(word.lower() for word in self.words)
        for part in _parts(text) if self.listed else [text]:
            if (part if self.case else part.lower()) not in wanted:
                return ", ".join(self.words)
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableTable:
    """What is known of all of them."""

    since: Mapping[str, str]
    """Name to the first release of NCCL that reads it, `2.18`; those of the newest release."""
    gone: Mapping[str, tuple[str, str]]
    """Name to the last release that reads it and what replaced it, or ""."""
    numbers: frozenset[str]
    """NCCL reads them with `strtoll`."""
    torch_flags: frozenset[str]
    torch_numbers: frozenset[str]
    torch_names: frozenset[str]
    """All that torch reads."""
    renamed: Mapping[str, tuple[str, str]]
    """Name to its newer name and what brought that; the old one is still read."""
    values: Mapping[str, Values]
    elsewhere: frozenset[str]
    prefixes: tuple[str, ...]
    """Names that begin so belong to plugins and programs beside NCCL."""
    newest: str
    oldest: str
    """The oldest release of NCCL that a torch of today may have brought."""

    def read(self, name: str) -> bool:
        """Whether the newest NCCL or torch reads it."""
        return name in self.since or name in self.torch_names

    def foreign(self, name: str) -> bool:
        """Whether something other than NCCL and torch is known to read it, or may."""
        return name in self.elsewhere or name.startswith(self.prefixes) or name.endswith(_PLACES)

    def near(self, name: str) -> str:
        """The one variable that a name is a slip of, or its words in another order; else ""."""
        known = [*self.since, *(item for item in self.torch_names if item not in self.renamed)]
        words = sorted(name.split("_"))
        close = {item for item in known if sorted(item.split("_")) == words}
        close = close or {item for item in known if slip(name, item)}
        return close.pop() if len(close) == 1 else ""

    def misread(self, name: str, value: str) -> str:
        """How a value that makes no sense is read, as the end of a sentence; "" for one that makes sense."""
        if not value.strip() or any(mark in value for mark in "$`*%{"):
            return ""  # unset, filled in elsewhere, or masked
        if name in self.torch_flags:
            return "" if value.lower() in _FLAGS else say("torch takes 1, 0, true, false, yes and no")
        number = name in self.numbers
        if name in self.torch_numbers and _LEADING.match(value) is None:
            return say("torch takes a number")
        if number and not _NUMBER.match(value):
            return say("NCCL reads a number, and takes this for {read}", read=_read(value) or 0)
        allowed = self.values.get(name)
        refused = allowed.refuses(value) if allowed is not None else ""
        return say("it can be {refused}", refused=refused) if refused else ""


def _read(value: str) -> int | None:
    found = _LEADING.match(value)
    return int(found.group(1)) if found else None


def _parts(text: str) -> list[str]:
    lists = [item.rpartition(":")[2].strip().removeprefix("^") for item in text.split(";")]
    return [word.strip() for item in lists for word in item.split(",") if word.strip()]


def _values(row: Mapping[str, object]) -> Values:
    bounds = row.get("range")
    lowest, highest = bounds if isinstance(bounds, list) else (None, None)
    return Values(
        words=tuple(str(row.get("words", "")).split()),
        case=bool(row.get("case")),
        digits=bool(row.get("digits")),
        listed=bool(row.get("list")),
        lowest=lowest,
        highest=highest,
    )


@cache
def table() -> VariableTable:
    """The data file, read once."""
    raw = json.loads(files(__package__).joinpath("nccl_variables.json").read_text("utf-8"))
    since = {f"NCCL_{name}": version for version, names in raw["since"].items() for name in names.split()}
    text = {f"NCCL_{name}" for name in raw["text"].split()}
    torch = {kind: frozenset(names.split()) for kind, names in raw["torch"].items()}
    return VariableTable(
        since=since,
        gone={name: (last, instead) for name, (last, instead) in raw["gone"].items()},
        numbers=frozenset(since) - text | {f"NCCL_{name}" for name in raw["also_numbers"].split()},
        torch_flags=torch["flags"],
        torch_numbers=torch["numbers"],
        torch_names=frozenset().union(*torch.values()),
        renamed={name: (now, by) for name, (now, by) in raw["renamed"].items()},
        values={name: _values(row) for name, row in raw["values"].items()},
        elsewhere=frozenset(f"NCCL_{name}" for name in raw["elsewhere"]["names"].split()),
        prefixes=tuple(f"NCCL_{name}" for name in raw["elsewhere"]["prefixes"].split()),
        newest=raw["newest"],
        oldest=raw["oldest"],
    )


def release(version: str) -> tuple[int, int]:
    """`2.21.5` and `2.21` as (2, 21)."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)
