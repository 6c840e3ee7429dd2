"""Installed distributions of one Python environment, from their metadata files; nothing is imported or run."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpudoctor.model import Unavailable
from gpudoctor.model.external_files import open_file, read_text
from gpudoctor.model.read_limits import PACKAGE_FILE
from gpudoctor.model.signs.packages import Distribution, Packages
from gpudoctor.vitals.interpreter import Interpreter, find_interpreter, own_interpreter
from gpudoctor.vitals.native_build import read_native_build

_LARGEST_METADATA = 8 << 20
"""Bytes; the headers of the largest known METADATA take 100 KB, its description a few megabytes."""


def read_packages(python: str | None = None, environment: Mapping[str, str] | None = None) -> Packages:
    """The distributions that the training's Python will see.

    `python` is an interpreter or an environment folder; without it the active environment, then the first
    Python of PATH. Raises `Unavailable` when the named one is not a Python environment.
    """
    variables = os.environ if environment is None else environment
    found = _of(find_interpreter(python, variables), variables)
    activated = variables.get("VIRTUAL_ENV") or variables.get("CONDA_PREFIX")
    if python is None and "torch" not in found.distributions and not activated:
        # gpudoctor was called by its path out of an environment that is not activated: that one is meant.
        own = _of(own_interpreter(), variables)
        found = own if "torch" in own.distributions else found
    return found


def _of(interpreter: Interpreter, environment: Mapping[str, str]) -> Packages:
    folders = site_folders(interpreter, environment)
    if not folders:
        raise Unavailable("no package folder was found in {prefix}", prefix=interpreter.prefix)
    found: dict[str, Distribution] = {}
    shadowed: list[Distribution] = []
    for folder in folders:
        for item in _distributions(folder):
            if item.name in found:
                shadowed.append(item)
            else:
                found[item.name] = item
    return Packages(
        prefix=str(interpreter.prefix),
        python=interpreter.version,
        executable=str(interpreter.executable),
        distributions=dict(sorted(found.items())),
        duplicates=tuple(shadowed),
    )


def site_folders(interpreter: Interpreter, environment: Mapping[str, str]) -> list[Path]:
    """Folders of the module path that can hold distributions, in order, path files followed.

    PYTHONPATH first, then the environment's own, then the user's and the base's where they are visible.
    """
    folders: list[Path] = [
        Path(item) for item in environment.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(item)
    ]
    series = interpreter.series
    sites: list[Path] = []
    if interpreter.prefix != interpreter.base:
        sites += _sites_of(interpreter.prefix, series)
    if interpreter.system_packages:
        home = environment.get("HOME")
        base = environment.get("PYTHONUSERBASE") or (str(Path(home) / ".local") if home else "")
        if base and not environment.get("PYTHONNOUSERSITE"):
            sites.append(Path(base) / "lib" / f"python{series}" / "site-packages")
        sites += _sites_of(interpreter.base, series)
    for site in sites:
        folders.append(site)
        folders += _path_files(site)
    unique: dict[str, Path] = {}
    for folder in folders:
        if os.path.isdir(folder):
            unique.setdefault(os.path.realpath(folder), folder)
    return list(unique.values())


def _sites_of(prefix: Path, series: str) -> list[Path]:
    """Package folders of an installation; Debian keeps its own beside the local ones."""
    names = [f"python{series}", f"python{series}t"]
    folders = [prefix / lib / name / "site-packages" for lib in ("lib", "lib64") for name in names]
    if prefix == Path("/usr"):
        local = Path("/usr/local/lib")
        debian = [local / name / "dist-packages" for name in names]
        debian += [Path("/usr/lib/python3/dist-packages")]
        debian += [Path("/usr/lib") / name / "dist-packages" for name in names]
        folders = debian + [local / name / "site-packages" for name in names] + folders
    return [folder for folder in folders if os.path.isdir(folder)]


def _path_files(site: Path) -> Iterator[Path]:
    """Folders named by plain lines of `*.pth` files; lines of code are never executed."""
    try:
        files = sorted(entry.path for entry in os.scandir(site) if entry.name.endswith(".pth"))
    except OSError:
        return
    for name in files:
        try:
            text = read_text(name, PACKAGE_FILE, "replace")
        except OSError:
            continue
        for line in (item.strip() for item in text.splitlines()):
            if line and not line.startswith(("#", "import ", "import\t")) and "\0" not in line:
                yield site / line


def _distributions(folder: Path) -> Iterator[Distribution]:
    """Distributions of one folder."""
    try:
        entries = [
            (entry.path, entry.name)
            for entry in os.scandir(folder)
            if entry.name.endswith((".dist-info", ".egg-info")) and entry.name[0] not in "~."
        ]
    except OSError:
        return
    for path, name in entries:
        item = _distribution(path, name, folder)
        if item is not None:
            yield item


def _distribution(path: str, name: str, folder: Path) -> Distribution | None:
    """One distribution, or None for metadata without a name or a version."""
    stem = name.rpartition(".")[0]
    if name.endswith(".dist-info"):
        headers = _headers(os.path.join(path, "METADATA"))
    else:
        headers = _headers(os.path.join(path, "PKG-INFO")) if os.path.isdir(path) else _headers(path)
    if headers is None:
        return None
    parts = stem.split("-")
    title = headers.get("name", [""])[0] or parts[0]
    version = headers.get("version", [""])[0] or (parts[1] if len(parts) > 1 else "")
    if not title or not version:
        return None
    normal = normalise(title)
    return Distribution(
        name=normal,
        version=version,
        requires=tuple(headers.get("requires-dist", ())),
        location=str(folder),
        metadata=path,
        native=read_native_build(normal, version, folder, Path(path)),
    )


def normalise(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


_WANTED = frozenset({"name", "version", "requires-dist"})


def _headers(path: str) -> dict[str, list[str]] | None:
    """The headers that matter, names in lower case; None when the file cannot be read."""
    try:
        with open_file(path) as file:
            block = file.read(16384)
            while b"\n\n" not in block and b"\r\n\r\n" not in block and len(block) < _LARGEST_METADATA:
                if not (more := file.read(65536)):
                    break
                block += more
    except (OSError, ValueError):
        return None
    text = block.replace(b"\r\n", b"\n").partition(b"\n\n")[0].decode("utf-8", errors="replace")
    found: dict[str, list[str]] = {}
    for line in text.split("\n"):
        key, colon, value = line.partition(":")
        if colon and key.lower() in _WANTED:
            found.setdefault(key.lower(), []).append(value.strip())
    return found or None
