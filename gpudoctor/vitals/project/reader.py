"""The versions that a project needs: in the folders from a script up to the top of its repository."""

import os
import re
from collections.abc import Iterable

from gpudoctor.model import Unavailable
from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import REQUIREMENTS
from gpudoctor.model.signs.project import Asked, ProjectVersions
from gpudoctor.vitals.project.formats import RequiredPackage, formats, is_manual

_TOPS = (".git", ".hg")
"""What the top folder of a repository has."""
_MOST_ABOVE = 12
"""Folders above a script that are looked at inside a repository."""
_WITHOUT_TOP = 3
"""Folders above a script that are looked at when no repository is found: an archive that was unpacked. One with
a project's own file is its top, however far up."""
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_ASIDE = re.compile(r"(^|[-_./])(dev|tests?|docs?|lint|build|ci)([-_./]|$)", re.IGNORECASE)
"""Requirement files of other work than training."""
_ENOUGH_FILES = 40
"""Files of one folder that are read; a folder with more of them is a collection, not a project."""


def read_project_versions(paths: Iterable[str]) -> ProjectVersions:
    """What the projects of some files ask for; raises `Unavailable` when none asks for anything."""
    paths = list(dict.fromkeys(paths))
    read: dict[str, tuple[Asked, ...]] = {}
    found: dict[str, tuple[Asked, ...]] = {}
    for folder in dict.fromkeys(os.path.dirname(path) for path in paths):
        lines: list[Asked] = []
        for place in _upwards(folder):
            if place not in read:
                read[place] = tuple(_asked_in(place))
            lines += read[place]
        found[folder] = tuple(lines)
    if not any(found.values()):
        raise Unavailable("no requirements file, environment file or README names a version")
    return ProjectVersions(folders=found)


def _upwards(folder: str) -> list[str]:
    """A folder and those above it, up to the top of the repository, in the words of the folder's own path."""
    places = [folder]
    for _ in range(_MOST_ABOVE):
        here = places[-1]
        if any(os.path.lexists(os.path.join(here, top)) for top in _TOPS):
            return places
        absolute = os.path.abspath(here)
        if os.path.dirname(absolute) == absolute or absolute == os.path.expanduser("~"):
            break
        # A relative path keeps its form: reports name files in the user's words.
        above = os.path.dirname(here) if here and os.path.basename(here) not in {"", ".", ".."} else ""
        if not above and (not here or os.path.basename(here) in {"", ".", ".."}):
            above = os.path.join(here, os.pardir)
        places.append(above)
    own = (n for n, place in enumerate(places) if any(os.path.isfile(os.path.join(place, name)) for name in _PROJECT))
    return places[: 1 + max(_WITHOUT_TOP, next(own, 0))]


def _asked_in(folder: str) -> list[Asked]:
    paths = [*_listed(folder), *_listed(os.path.join(folder, "requirements"))]
    wanted = [path for path in paths if formats(path) and not _ASIDE.search(path[len(folder) :])]
    found: list[Asked] = []
    # A README speaks of what no file for a tool names.
    for path in sorted(wanted[:_ENOUGH_FILES], key=is_manual):
        named = {item.name for item in found if item.wanted} if is_manual(path) else set()
        found += [
            Asked(name=item.name, wanted=item.wanted, path=path, line=item.line, folder=folder, prose=item.prose)
            for item in _read(path)
            if item.prose or item.name not in named
        ]
    return found


def _listed(folder: str) -> list[str]:
    """The paths of what a folder holds, by name; none where there is no such folder."""
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder or os.curdir))]
    except OSError:
        return []


def _read(path: str) -> list[RequiredPackage]:
    reader = formats(path)
    if reader is None:
        return []
    try:
        return list(reader(_text(path)))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, AttributeError):
        return []  # a file that its own tool could not read either


def _text(path: str) -> str:
    """A file's text; "" when it cannot be read."""
    try:
        data = read_file(path, REQUIREMENTS)
    except OSError:
        return ""
    # `pip freeze > requirements.txt` in PowerShell writes UTF-16.
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if utf16 else "utf-8-sig", "replace")
