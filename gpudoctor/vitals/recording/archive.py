"""Where a recording lies: its folder, with its files by name."""

import os
from itertools import islice
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model.external_files import RefusedFile, read_file
from gpudoctor.model.read_limits import RECORDING, RECORDING_FILES, ReadLimit
from gpudoctor.model.unavailable import Unavailable

MANIFEST, END, MACHINE, SUFFIX = "recording.json", "end.json", "machine.gdr", ".gdr"


class RecordingFolder:
    """Files of one recording."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path
        """As the user named it, and the folder."""
        self.identity = str(path.resolve())
        """The same for the same place, however it was named."""
        self._left = RECORDING.most

    def names(self) -> list[str]:
        """Names of the files in it, sorted."""
        with os.scandir(self._path) as entries:
            found = [entry.name for entry in islice(entries, RECORDING_FILES.most + 1) if _is_file(entry)]
        return sorted(_few(self.name, found))

    def shown(self, name: str) -> str:
        """The path of a file in it, for people."""
        return str(self._path / name)

    def read(self, name: str, limit: ReadLimit) -> bytes:
        """A file's bytes. Raises `OSError`, for a file beyond its budget or the recording's too."""
        if self._left <= 0:
            raise RefusedFile(say("the recording is {words}", words=RECORDING.words))
        data = read_file(self._path / name, limit)
        self._left -= len(data)
        return data


def _is_file(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _few(name: str, names: list[str]) -> list[str]:
    if len(names) > RECORDING_FILES.most:
        raise Unavailable("{name}: it has {words}", name=name, words=RECORDING_FILES.words)
    return names


def find_place(name: str) -> RecordingFolder:
    """The recording at a path: the folder, or the only recording right inside of it.

    Raises `UsageError` for what is no recording, `Unavailable` for what may not be read.
    """
    path = Path(name)
    try:
        if path.is_dir():
            return _in_folder(name, path)
        if path.is_file():
            hint = say(" (name its folder)") if path.name in {MANIFEST, END} or path.suffix == SUFFIX else ""
            raise UsageError("{name}: not a recording, which is a folder{hint}", name=name, hint=hint)
    except PermissionError as error:
        raise Unavailable("{name}: no permission to read it", name=name) from error
    except (OSError, ValueError) as error:
        raise Unavailable(
            "{name}: cannot be read: {reason}", name=name, reason=getattr(error, "strerror", None) or error
        ) from error
    raise UsageError("{name}: no such recording; name the folder that `gpudoctor run` wrote", name=name)


def _in_folder(name: str, path: Path) -> RecordingFolder:
    if _holds(_few(name, _entries(path))):
        return RecordingFolder(name, path)
    with os.scandir(path) as entries:
        inner = sorted(entry.name for entry in entries if entry.is_dir() and _holds(_entries(entry.path)))
    if not inner:
        raise UsageError(
            "{name}: no recording in it ({manifest} and {suffix} files are missing)",
            name=name,
            manifest=MANIFEST,
            suffix=SUFFIX,
        )
    if len(inner) > 1:
        listed = ", ".join(inner[:3]) + (", ..." if len(inner) > 3 else "")
        raise UsageError(
            "{name}: contains {inner} recordings; name one of them: {listed}",
            name=name,
            inner=len(inner),
            listed=listed,
        )
    return RecordingFolder(name, path / inner[0])


def _entries(path: str | Path) -> list[str]:
    """Names in a folder, a bounded number of them; none of one that may not be looked into."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in islice(entries, RECORDING_FILES.most + 1)]
    except OSError:
        if isinstance(path, Path):
            raise
        return []


def _holds(names: list[str]) -> bool:
    """Whether these are the files of a recording; one without its manifest is one too."""
    return MANIFEST in names or any(item.endswith(SUFFIX) for item in names)
