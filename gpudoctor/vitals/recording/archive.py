"""Where a recording lies: a folder, or a zip file of one; its files by name."""

import errno
import lzma
import os
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from itertools import islice
from pathlib import Path, PurePosixPath

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model.external_files import RefusedFile, open_file, read_file, unpacked_most
from gpudoctor.model.read_limits import ARCHIVE_CONTENTS, RECORDING, RECORDING_FILES, UNPACKED_RATIO, ReadLimit
from gpudoctor.model.unavailable import Unavailable

MANIFEST, END, MACHINE, SUFFIX = "recording.json", "end.json", "machine.gdr", ".gdr"
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, NotImplementedError, EOFError, ValueError,
    struct.error, OverflowError, MemoryError, IndexError,
)  # fmt: skip
"""What `zipfile` and its unpackers raise: an encrypted, cut or damaged member, a method that they lack."""


_TAIL = (1 << 16) + 200
"""Bytes at the end of a zip file that hold its end records: a comment has 64 KiB at most."""


class Archive(ABC):
    """Files of one recording."""

    name: str
    """As the user named it."""
    identity: tuple[str, str]
    """The same for the same place, however it was named."""

    @abstractmethod
    def names(self) -> list[str]:
        """Names of the files in it, sorted."""

    @abstractmethod
    def shown(self, name: str) -> str:
        """The path of a file in it, for people."""

    def __init__(self) -> None:
        self._left = RECORDING.most

    def read(self, name: str, limit: ReadLimit) -> bytes:
        """A file's bytes. Raises `OSError`, for a file beyond its budget or the recording's too."""
        if self._left <= 0:
            raise RefusedFile(say("the recording is {words}", words=RECORDING.words))
        data = self._read(name, limit)
        self._left -= len(data)
        return data

    @abstractmethod
    def _read(self, name: str, limit: ReadLimit) -> bytes:
        """A file's bytes. Raises `OSError`."""


class _Folder(Archive):
    def __init__(self, name: str, path: Path) -> None:
        super().__init__()
        self.name, self._path = name, path
        self.identity = (str(path.resolve()), "")

    def names(self) -> list[str]:
        with os.scandir(self._path) as entries:
            found = [entry.name for entry in islice(entries, RECORDING_FILES.most + 1) if _is_file(entry)]
        return sorted(_few(self.name, found))

    def shown(self, name: str) -> str:
        return str(self._path / name)

    def _read(self, name: str, limit: ReadLimit) -> bytes:
        return read_file(self._path / name, limit)


def _is_file(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


class _Zip(Archive):
    def __init__(self, name: str, path: Path, archive: zipfile.ZipFile, inside: str) -> None:
        super().__init__()
        self.name, self._archive = name, archive
        names = (item for item in archive.namelist() if _parent(item) == inside and not item.endswith("/"))
        self._members = {PurePosixPath(item).name: item for item in names}
        self._left = min(self._left, unpacked_most(path.stat().st_size, RECORDING))
        self.identity = (str(path.resolve()), inside)

    def names(self) -> list[str]:
        return _few(self.name, sorted(self._members))

    def shown(self, name: str) -> str:
        return f"{self.name}/{self._members[name]}"

    def _read(self, name: str, limit: ReadLimit) -> bytes:
        try:
            if name not in self._members:
                raise FileNotFoundError(errno.ENOENT, "it does not exist")
            member = self._archive.getinfo(self._members[name])
            if member.file_size > limit.most:
                raise RefusedFile(say("it is {words}", words=limit.words))
            if member.file_size > self._left:
                raise RefusedFile(
                    say(
                        "the zip file unpacks to more than {unpacked_ratio} times its size, which no recording does",
                        unpacked_ratio=UNPACKED_RATIO,
                    )
                )
            return self._archive.read(member)
        except _DAMAGE as error:
            raise RefusedFile(
                say("damaged, or compressed with an unsupported method ({reason})", reason=_reason(error))
            ) from error


def _reason(error: BaseException) -> str:
    return str(error)[:200] or type(error).__name__


def _few(name: str, names: list[str]) -> list[str]:
    if len(names) > RECORDING_FILES.most:
        raise Unavailable(say("{name}: it has {words}", name=name, words=RECORDING_FILES.words))
    return names


def find_place(name: str) -> Archive:
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
        raise Unavailable(say("{name}: no permission to read it", name=name)) from error
    except (OSError, ValueError) as error:
        raise Unavailable(
            say("{name}: cannot be read: {reason}", name=name, reason=getattr(error, "strerror", None) or error)
        ) from error
    raise UsageError(
        say("{name}: no such recording; name the folder that `gpudoctor run` wrote, or its zip file", name=name)
    )


def _in_folder(name: str, path: Path) -> Archive:
    if _holds(_few(name, _entries(path))):
        return _Folder(name, path)
    with os.scandir(path) as entries:
        inner = sorted(entry.name for entry in entries if entry.is_dir() and _holds(_entries(entry.path)))
    _refuse_all_but_one(name, inner)
    return _Folder(name, path / inner[0])


def _entries(path: str | Path) -> list[str]:
    """Names in a folder, a bounded number of them; none of one that may not be looked into."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in islice(entries, RECORDING_FILES.most + 1)]
    except OSError:
        if isinstance(path, Path):
            raise
        return []


def _in_file(name: str, path: Path) -> Archive:
    try:
        if _contents(path) > ARCHIVE_CONTENTS.most:
            raise Unavailable(
                say(
                    "{name}: its table of contents is {beyond}; no recording is so large",
                    name=name,
                    beyond=ARCHIVE_CONTENTS.beyond,
                )
            )
        archive = zipfile.ZipFile(path)
        items = archive.namelist()
    except _DAMAGE as error:
        hint = say(" (name its folder)") if path.name in {MANIFEST, END} or path.suffix == SUFFIX else ""
        raise UsageError(
            say("{name}: not a recording: neither a folder nor a zip file{hint}", name=name, hint=hint)
        ) from error
    folders: dict[str, list[str]] = {}
    for item in items:
        folders.setdefault(_parent(item), []).append(PurePosixPath(item).name)
    inner = sorted(folder for folder, names in folders.items() if _holds(names))
    _refuse_all_but_one(name, inner)
    return _Zip(name, path, archive, inner[0])


def _contents(path: Path) -> int:
    """Bytes of a zip file's table of contents, by its end record: `zipfile` reads them all at once."""
    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(max(0, size - _TAIL))
        tail = stream.read(_TAIL) or b""
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 22 > len(tail):
        return 0
    large = tail.rfind(b"PK\x06\x06", 0, at)
    if large >= 0 and large + 48 <= len(tail):
        return int(struct.unpack_from("<Q", tail, large + 40)[0])
    return int(struct.unpack_from("<L", tail, at + 12)[0])


def _parent(item: str) -> str:
    parent = str(PurePosixPath(item).parent)
    return "" if parent == "." else parent


def _holds(names: list[str]) -> bool:
    """Whether these are the files of a recording; one without its manifest is one too."""
    return MANIFEST in names or any(item.endswith(SUFFIX) for item in names)


def _refuse_all_but_one(name: str, inner: list[str]) -> None:
    if not inner:
        raise UsageError(
            say(
                "{name}: no recording in it ({manifest} and {suffix} files are missing)",
                name=name,
                manifest=MANIFEST,
                suffix=SUFFIX,
            )
        )
    if len(inner) > 1:
        listed = ", ".join(inner[:3]) + (", ..." if len(inner) > 3 else "")
        raise UsageError(
            say(
                "{name}: contains {inner} recordings; name one of them: {listed}",
                name=name,
                inner=len(inner),
                listed=listed,
            )
        )
