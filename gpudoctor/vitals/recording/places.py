"""Where a recording lies: a folder, or a zip file of one; its files by name."""

import os
import zipfile
from abc import ABC, abstractmethod
from pathlib import Path, PurePosixPath

from gpudoctor.errors import UsageError
from gpudoctor.model.unavailable import Unavailable

MANIFEST, END, MACHINE, SUFFIX = "recording.json", "end.json", "machine.gdr", ".gdr"
_GREATEST = 4 << 30
"""Bytes of one member of a zip file: a hundred times what a rank may write (docs/recording.md)."""


class Place(ABC):
    """Files of one recording."""

    name: str
    """As the user named it."""
    identity: tuple[str, str]
    """The same for the same place, however it was named."""

    @abstractmethod
    def names(self) -> list[str]:
        """Names of the files in it, sorted."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A file's bytes. Raises `OSError`."""


class _Folder(Place):
    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path
        self.identity = (str(path.resolve()), "")

    def names(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self._path) if entry.is_file())

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()


class _Zip(Place):
    def __init__(self, name: str, path: Path, archive: zipfile.ZipFile, inside: str) -> None:
        self.name, self._archive, self._inside = name, archive, inside
        self.identity = (str(path.resolve()), inside)

    def names(self) -> list[str]:
        return sorted(
            PurePosixPath(item).name for item in self._archive.namelist() if _parent(item) == self._inside
        )

    def read(self, name: str) -> bytes:
        member = self._archive.getinfo(f"{self._inside}/{name}" if self._inside else name)
        if member.file_size > _GREATEST:
            raise OSError(f"{name} would unpack to {member.file_size} bytes")
        try:
            return self._archive.read(member)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
            raise OSError(str(error) or type(error).__name__) from error  # encrypted, cut, unknown method


def find_place(name: str) -> Place:
    """The recording at a path: the folder, the zip file, or the only recording right inside one of them.

    Raises `UsageError` for what is no recording, `Unavailable` for what may not be read.
    """
    path = Path(name)
    try:
        if path.is_dir():
            return _in_folder(name, path)
        if path.is_file():
            return _in_file(name, path)
    except PermissionError as error:
        raise Unavailable(f"{name}: no permission to read it") from error
    except (OSError, ValueError) as error:
        raise Unavailable(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    raise UsageError(f"{name}: no such recording; name the folder that `gpudoctor run` wrote, or its zip file")


def _in_folder(name: str, path: Path) -> Place:
    if _holds(os.listdir(path)):
        return _Folder(name, path)
    inner = sorted(
        entry.name for entry in os.scandir(path) if entry.is_dir() and _holds(os.listdir(entry.path))
    )
    _refuse_all_but_one(name, inner)
    return _Folder(name, path / inner[0])


def _in_file(name: str, path: Path) -> Place:
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        hint = " (name its folder)" if path.name in {MANIFEST, END} or path.suffix == SUFFIX else ""
        raise UsageError(f"{name}: not a recording: neither a folder nor a zip file{hint}") from error
    folders: dict[str, list[str]] = {}
    for item in archive.namelist():
        folders.setdefault(_parent(item), []).append(PurePosixPath(item).name)
    inner = sorted(folder for folder, names in folders.items() if _holds(names))
    _refuse_all_but_one(name, inner)
    return _Zip(name, path, archive, inner[0])


def _parent(item: str) -> str:
    parent = str(PurePosixPath(item).parent)
    return "" if parent == "." else parent


def _holds(names: list[str]) -> bool:
    """Whether these are the files of a recording; one without its manifest is one too."""
    return MANIFEST in names or any(item.endswith(SUFFIX) for item in names)


def _refuse_all_but_one(name: str, inner: list[str]) -> None:
    if not inner:
        raise UsageError(f"{name}: no recording in it ({MANIFEST} and {SUFFIX} files are missing)")
    if len(inner) > 1:
        listed = ", ".join(inner[:3]) + (", ..." if len(inner) > 3 else "")
        raise UsageError(f"{name}: holds {len(inner)} recordings; name one of them: {listed}")
