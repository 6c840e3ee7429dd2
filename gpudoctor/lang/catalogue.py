"""Where catalogues and pages of a language are: gpudoctor's own, and those that plugins bring.

A package has one catalogue a language in gettext's form, `lang/zh/LC_MESSAGES/PACKAGE.mo`, compiled when the
package is built. Help has to be there in a moment: what it does without (pathlib, importlib.metadata, the
catalogues of plugins) is imported and read when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from gettext import GNUTranslations, NullTranslations

_GROUPS = ("gpudoctor.checks", "gpudoctor.rules")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class _Nowhere(NullTranslations):
    """Behind a catalogue: a text that it lacks is an error, and not its own translation."""

    def gettext(self, message: str) -> str:
        raise KeyError(message)


def translation(template: str, language: str) -> str | None:
    """The translation of a template, from the first package that has one; None if no package has."""
    for package in packages():
        try:
            return _catalogue(package, language).gettext(template)
        except KeyError:
            continue
    return None


@lru_cache
def _catalogue(package: str, language: str) -> NullTranslations:
    """What a package's MO file has, nothing where there is none.

    In a source checkout, a MO file that is missing or older than its PO file is made here, if Babel is installed;
    an installed package has no PO file.
    """
    po = po_path(package, language)
    mo = f"{po[:-3]}.mo"
    with suppress(ImportError, OSError):  # without Babel, the file as it is
        if os.path.isfile(po) and not (os.path.isfile(mo) and os.path.getmtime(mo) >= os.path.getmtime(po)):
            compile_catalogue(po)
    found = NullTranslations()
    with suppress(OSError), open(mo, "rb") as file:
        found = GNUTranslations(file)
    found.add_fallback(_Nowhere())
    return found


def po_path(package: str, language: str) -> str:
    """The PO file of a package's folder."""
    return os.path.join(package, "lang", language, "LC_MESSAGES", f"{os.path.basename(package)}.po")


def compile_catalogue(po: str) -> None:
    """Write the MO file beside a PO file, with Babel. The same PO file gives the same bytes."""
    from datetime import datetime, timezone

    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    with open(po, encoding="utf-8") as file:
        catalog = read_po(file, abort_invalid=True)
    catalog.creation_date = datetime.fromtimestamp(0, timezone.utc)
    part = f"{po[:-3]}.mo.{os.getpid()}"  # other processes may do the same now
    with open(part, "wb") as written:
        write_mo(written, catalog)
    os.replace(part, f"{po[:-3]}.mo")


def page_text(code: str, language: str) -> str | None:
    """The manual page of a check in a language, as its docstring would be; None where nobody translated it."""
    for package in packages():
        path = os.path.join(package, "lang", language, "pages", f"{code}.txt")
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    return None


def packages() -> Iterator[str]:
    """The folders of gpudoctor and of the packages of its plugins, of which nothing is asked before it is needed."""
    yield _OWN
    yield from _plugins()


@lru_cache(maxsize=1)
def _plugins() -> tuple[str, ...]:
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    names = dict.fromkeys(entry.module.partition(".")[0] for group in _GROUPS for entry in entry_points(group=group))
    found: list[str] = []
    for name in names:
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):
            continue  # the registry says that a plugin cannot be loaded
        found += (spec and spec.submodule_search_locations) or ()
    return tuple(found)
