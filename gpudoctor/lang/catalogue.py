"""Where catalogues and pages of a language are: gpudoctor's own, and those that plugins bring.

Help has to be there in a moment: what it does without (pathlib, importlib.metadata, most of the files) is
imported and read when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from gpudoctor.lang.choice import ENGLISH
from gpudoctor.lang.po import translations

if TYPE_CHECKING:
    from pathlib import Path

_GROUPS = ("gpudoctor.checks", "gpudoctor.rules")
_FIRST = ("cli", "lang")
"""Topics that help and the first page need; reading all of them takes longer than all the rest of help."""


class Catalogue:
    """The translations of a language. A file is read when no file before it has a template."""

    def __init__(self, paths: Iterator[str]) -> None:
        """`paths` are the PO files, those with the most common templates first."""
        self._paths = paths
        self._known: dict[str, str] = {}
        self._reading = Lock()

    def get(self, template: str) -> str | None:
        """The translation of a template; None if it has none."""
        found = self._known.get(template)
        if found is None:
            with self._reading:  # the live view asks from several threads
                found = self._known.get(template)
                while found is None and (path := next(self._paths, None)) is not None:
                    with open(path, encoding="utf-8") as file:
                        self._known.update(translations(file.read()))
                    found = self._known.get(template)
        return found


@lru_cache(maxsize=4)
def catalogue(language: str) -> Catalogue:
    """The catalogue of a language; that of English is empty."""
    return Catalogue(iter(()) if language == ENGLISH else _paths(language))


def _paths(language: str) -> Iterator[str]:
    """The PO files of a language, those of plugins last."""
    own = os.path.join(os.path.dirname(__file__), language)
    first = [os.path.join(own, f"{topic}.po") for topic in _FIRST]
    yield from filter(os.path.isfile, first)
    for folder in folders(language):
        names = sorted(name for name in os.listdir(folder) if name.endswith(".po"))
        yield from (path for name in names if (path := os.path.join(folder, name)) not in first)


def page_text(code: str, language: str) -> str | None:
    """The manual page of a check in a language, as its docstring would be; None where nobody translated it."""
    for folder in folders(language):
        path = folder / "pages" / f"{code}.txt"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


@lru_cache(maxsize=4)
def folders(language: str) -> tuple[Path, ...]:
    """`lang/LANGUAGE` in gpudoctor and in the package of every plugin, where there is one."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec
    from pathlib import Path

    packages = dict.fromkeys(entry.module.partition(".")[0] for group in _GROUPS for entry in entry_points(group=group))
    found = [Path(__file__).parent / language]
    for package in packages:
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            continue  # the registry says that a plugin cannot be loaded
        found += [Path(place) / "lang" / language for place in (spec and spec.submodule_search_locations) or ()]
    return tuple(folder for folder in found if folder.is_dir())
