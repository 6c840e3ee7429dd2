"""The source of a run: its scripts as they ran, from the recording where they have another text here by now."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import SCRIPT
from gpudoctor.model.records import replace
from gpudoctor.model.signs.recording import Recording
from gpudoctor.model.signs.source import Source
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.vitals.source import read_source


def read_ran(
    paths: Sequence[Path], arguments: Mapping[str, Sequence[str]], recording: Recording, texts: Mapping[str, str]
) -> Source:
    """The program; `texts` ran in place of files. Raises `Unavailable` if a changed script's text was not kept."""
    kept = {os.path.realpath(path): item for path, item in recording.scripts.items()}
    known: dict[str, str] = {}
    lost: set[str] = set()
    for path, (digest, text) in kept.items():
        if path in texts or _digest(path) == digest:
            continue
        if text is None:
            lost.add(path)
        else:
            known[path] = text
    source = read_source(paths, arguments, texts={**known, **texts})
    files = {script.path: os.path.realpath(script.path) for script in source.scripts}
    if lost & set(files.values()):
        raise Unavailable("the script has changed since the recording")
    edited = frozenset(path for path, file in files.items() if file in known)
    return replace(source, edited=edited)


def _digest(path: str) -> str:
    """The hash of a file as it is now; "" for one that is not here."""
    with suppress(OSError):
        return hashlib.sha256(read_file(path, SCRIPT)).hexdigest()
    return ""
