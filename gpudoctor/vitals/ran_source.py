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
    kept = {os.path.realpath(path): item for path, item in recording.scripts.items() if path not in texts}
    other = {path: text for path, (digest, text) in kept.items() if _digest(path) != digest}
    known = {path: text for path, text in other.items() if text is not None}
    source = read_source(paths, arguments, texts={**known, **texts})
    files = {script.path: os.path.realpath(script.path) for script in source.scripts}
    if other.keys() - known.keys() & set(files.values()):
        raise Unavailable("the script has changed since the recording")
    return replace(source, edited=frozenset(path for path, file in files.items() if file in known))


def _digest(path: str) -> str:
    with suppress(OSError):
        return hashlib.sha256(read_file(path, SCRIPT)).hexdigest()
    return ""
