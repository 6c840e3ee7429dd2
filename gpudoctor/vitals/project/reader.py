"""The versions that a project needs: in the folders from a script up to the top of its repository."""

import os
import re
from collections.abc import Iterable, Iterator

from gpudoctor.model import Unavailable
from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import REQUIREMENTS, SCRIPT, SETTINGS
from gpudoctor.model.signs.project import Asked, ProjectVersions
from gpudoctor.vitals.project.formats import RequiredPackage, formats, is_lock, is_manual

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
_CARRIED = ("torch", "transformers", "accelerate", "datasets", "deepspeed", "peft", "trl", "timm")
"""Packages whose releases checks compare with, and that projects carry as a copy of their own."""
_OTHERS = ("third_party", "thirdparty", "3rdparty", "external", "externals", "vendor", "submodules", "libs")
"""Where projects keep copies of others' code."""
_ENOUGH_FOLDERS = 100
"""Folders below one that are looked at for such copies."""
_RELEASE = re.compile(
    r"""^__version__\s*=\s*["'](\d[\w.+-]*)["']|^\s+version\s*=\s*["'](\d[\w.+-]*)["']""", re.MULTILINE
)
"""A release as a package or its setup script writes it."""
_NOTEBOOK = ".ipynb"
_ENOUGH_FILES = 40
"""Files of one folder that are read; a folder with more of them is a collection, not a project."""


def read_project_versions(paths: Iterable[str]) -> ProjectVersions:
    """What the projects of some files ask for; raises `Unavailable` when none asks for anything."""
    paths = list(dict.fromkeys(paths))
    read: dict[str, tuple[Asked, ...]] = {}
    found: dict[str, tuple[Asked, ...]] = {}
    # What a notebook's cells install comes before what its project asks for.
    own = {
        path: tuple(
            Asked(name=item.name, wanted=item.wanted, path=path, line=item.line, folder=path) for item in _read(path)
        )
        for path in paths
        if path.endswith(_NOTEBOOK)
    }
    for folder in dict.fromkeys(os.path.dirname(path) for path in paths):
        lines: list[Asked] = []
        for place in _upwards(folder):
            if place not in read:
                read[place] = tuple(_asked_in(place))
            lines += read[place]
        found[folder] = tuple(lines)
    if not any(found.values()) and not any(own.values()):
        raise Unavailable("no requirements file, environment file, Dockerfile or README names a version")
    return ProjectVersions(folders=found, files=own)


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
    own = (n for n, place in enumerate(places) if any(map(os.path.isfile, _paths(place))))
    return places[: 1 + max(_WITHOUT_TOP, next(own, 0))]


def _paths(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in _PROJECT]


def _asked_in(folder: str) -> list[Asked]:
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except OSError:
        return []
    paths = [os.path.join(folder, name) for name in names]
    if "requirements" in names:
        paths += [os.path.join(folder, "requirements", name) for name in _listed(folder, "requirements")]
    found = list(_carried(folder))
    paths = [path for path in paths if not path.endswith(_NOTEBOOK)]  # each speaks for itself
    wanted = [path for path in paths if formats(path) and not _ASIDE.search(path[len(folder) :])]
    # What was installed goes first. A README speaks of what no file for a tool names.
    for path in sorted(wanted[:_ENOUGH_FILES], key=lambda path: (is_manual(path), not is_lock(path))):
        named = {item.name for item in found if item.wanted} if is_manual(path) else set()
        found += [
            Asked(name=item.name, wanted=item.wanted, path=path, line=item.line, folder=folder, prose=item.prose)
            for item in _read(path)
            if item.prose or item.name not in named
        ]
    return found


def _carried(folder: str) -> Iterator[Asked]:
    """Packages that a folder carries itself: scripts beside them import the copy, whatever is installed.

    The source tree of a package below it (`third_party/peft/setup.py`) is there to be installed.
    """
    trees = list(_source_trees(folder))
    for name in _CARRIED:
        for root in (folder, *trees):
            release = _release(root, name)
            if release is not None:
                path, line, version = release
                yield Asked(name=name, wanted=f"=={version}", path=path, line=line, folder=folder, own=True)
                break


def _release(root: str, name: str) -> tuple[str, int, str] | None:
    """File, line and release of a package's own code below a folder; None where none tells it."""
    for package in (os.path.join(root, name), os.path.join(root, "src", name)):
        if not os.path.isfile(os.path.join(package, "__init__.py")):
            continue
        places = [os.path.join(package, file) for file in ("__init__.py", "version.py", "_version.py")]
        for path in (*places, os.path.join(root, "setup.py")):
            text = _text(path)
            found = _RELEASE.search(text)
            if found is not None:
                return path, text.count("\n", 0, found.start()) + 1, found[1] or found[2]
        return None
    return None


def _source_trees(folder: str) -> Iterator[str]:
    """Folders below one that hold what pip installs: its own, and those where projects keep others' code."""
    above = [folder, *(os.path.join(folder, name) for name in _OTHERS if name in _listed(folder, ""))]
    for place in above:
        for name in _listed(place, "")[:_ENOUGH_FOLDERS]:
            tree = os.path.join(place, name)
            if any(map(os.path.isfile, _paths(tree))):
                yield tree


def _listed(folder: str, name: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(folder, name) or os.curdir))
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
        limit = SETTINGS if is_lock(path) else SCRIPT if path.endswith(_NOTEBOOK) else REQUIREMENTS
        data = read_file(path, limit)
    except OSError:
        return ""
    # `pip freeze > requirements.txt` in PowerShell writes UTF-16.
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if utf16 else "utf-8-sig", "replace")
