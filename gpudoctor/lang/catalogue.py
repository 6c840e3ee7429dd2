"""Where catalogues and pages of a language are: gpudoctor's own, and those that plugins bring."""

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from gpudoctor.lang.choice import ENGLISH
from gpudoctor.lang.po import translations

_GROUPS = ("gpudoctor.checks", "gpudoctor.rules")


@lru_cache(maxsize=4)
def catalogue(language: str) -> Mapping[str, str]:
    """Template to translation; empty for English. The files are read once."""
    if language == ENGLISH:
        return {}
    return translations(path for folder in folders(language) for path in sorted(folder.glob("*.po")))


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
    packages = dict.fromkeys(
        entry.module.partition(".")[0] for group in _GROUPS for entry in entry_points(group=group)
    )
    found = [Path(__file__).parent / language]
    for package in packages:
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            continue  # the registry says that a plugin cannot be loaded
        found += [Path(place) / "lang" / language for place in (spec and spec.submodule_search_locations) or ()]
    return tuple(folder for folder in found if folder.is_dir())
