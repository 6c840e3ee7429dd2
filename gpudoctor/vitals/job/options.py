"""Command-line options of launchers, read without their parsers."""

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from gpudoctor.vitals.configs.config_text import load_toml

_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?(?:\.exe)?")
_PROGRAMS = frozenset({"torchrun", "accelerate", "deepspeed", "srun", "mpirun", "mpiexec", "horovodrun", "bash", "sh"})


@cache
def launcher_tables() -> dict[str, Any]:
    """The tables of `launchers.toml`."""
    with open(os.path.join(os.path.dirname(__file__), "launchers.toml"), encoding="utf-8") as stream:
        found = load_toml(stream.read())
    wrappers: dict[str, Any] = {}
    for names, row in found["wrappers"].items():
        wrappers |= dict.fromkeys(names.split(), row)
    return {**found, "wrappers": wrappers}


def is_python(name: str) -> bool:
    """Whether a program's name is a Python interpreter's."""
    return _PYTHON.fullmatch(name) is not None


class Options:
    """Options before the first word that is none, as a launcher's own parser would take them."""

    def __init__(self, words: Sequence[str], valued: str = "", flags: str = "", stop: bool = True) -> None:
        tables = launcher_tables()
        self._launcher = valued
        self.values: dict[str, str] = {}
        self.rest: list[str] = []
        with_value = set(tables["valued"].get(valued, valued).split())
        without = {*flags.split(), *tables["flags"].split()}
        at = 0
        while at < len(words):
            word = words[at]
            if word == "--":
                at += 1
                break
            if not word.startswith("-") or word == "-":
                break
            key, equals, value = word.partition("=")
            bare = key.lstrip("-")
            name = bare.replace("_", "-")
            at += 1
            if equals:
                self.values[name] = value
            elif self._takes(word, bare, with_value, without, words[at : at + 1]):
                self.values[name] = words[at] if at < len(words) else ""
                at += 1
            elif self._joined(word, with_value, without):
                self.values[word[1]] = word[2:]
            else:
                self.values[name] = ""
            if stop and bare == "m":
                break
        self.rest = list(words[at:])

    @staticmethod
    def _joined(word: str, valued: set[str], flags: set[str]) -> bool:
        """Whether a short option and its value are one word: `-n8`."""
        if word.startswith("--") or len(word) <= 2:
            return False
        return word[1] in valued and word[1:] not in flags

    @staticmethod
    def _takes(word: str, bare: str, valued: set[str], flags: set[str], following: Sequence[str]) -> bool:
        """Whether the option takes the next word as its value."""
        if bare in valued or bare.replace("-", "_") in valued or bare.replace("_", "-") in valued:
            return True
        if bare in flags or not word.startswith("--") or not following:
            return False
        name = PurePosixPath(following[0]).name
        starts = name.endswith((".py", ".sh")) or is_python(name) or name in _PROGRAMS
        return not starts and not following[0].startswith("-")

    def get(self, *names: str) -> str | None:
        """The value of the first of these options that is given."""
        return next((self.values[name] for name in names if name in self.values), None)

    def number(self, *names: str) -> int | None:
        """The same as a whole number; `2:4` and `2-4` count as their lower end."""
        return whole(self.get(*names))

    def told(self) -> dict[str, str]:
        """What the table has of these options by column, as written."""
        columns = launcher_tables()["columns"][self._launcher].items()
        return {column: value for column, names in columns if (value := self.get(*names.split()))}

    def given(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in self.values for name in names)


def whole(text: str | None) -> int | None:
    """A leading whole number of a text, or None."""
    match = re.match(r"\s*(\d{1,9})\b", text or "")
    return int(match[1]) if match else None
