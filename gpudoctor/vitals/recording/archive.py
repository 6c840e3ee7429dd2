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
SCRIPTS = "scripts.json"


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
        if len(found) > RECORDING_FILES.most:
            raise Unavailable("{name}: it has {words}", name=self.name, words=RECORDING_FILES.words)
        return sorted(found)

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


def find_place(name: str) -> RecordingFolder:
    """The recording at a path. Raises `UsageError` for what is no recording, `Unavailable` for what may not be read."""
    path = Path(name)
    try:
        if path.is_file():
            raise UsageError("{name}: not a recording, which is a folder", name=name)
        if not path.is_dir():
            raise UsageError("{name}: no such recording; name the folder that `gpudoctor run` wrote", name=name)
        place = RecordingFolder(name, path)
        names = place.names()
    except (OSError, ValueError) as error:
        raise Unavailable(
            "{name}: cannot be read: {reason}", name=name, reason=getattr(error, "strerror", None) or error
        ) from error
    if MANIFEST not in names and not any(item.endswith(SUFFIX) for item in names):  # its manifest may be lost
        raise UsageError("{name}: no recording in it", name=name)
    return place
