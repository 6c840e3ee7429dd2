"""Recordings in the user's state folder: which are there, how large, what they showed; removing them.

A list must be quick although a recording has millions of bytes. So the verdict and the number of steps are
kept in a small file beside each recording (`verdict.json`), written with its report.
"""

import os
import shutil
import time
from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpudoctor.lang import say, term
from gpudoctor.lang.message_data import message_of, template_object
from gpudoctor.model.external_files import load_json, read_file
from gpudoctor.model.read_limits import MANIFEST as MANIFEST_LIMIT
from gpudoctor.model.records import frozen
from gpudoctor.model.redaction import mask_text
from gpudoctor.recorder.folder import END, MACHINE, MANIFEST, state_folder, write_json

VERDICT = "verdict.json"
SCHEMA = "gpudoctor.verdict/1"
_ALIVE = 30.0
"""Seconds since the last sample of the machine up to which a recording without an end is being written."""


@frozen
class KeptRecording:
    """One recording of the state folder."""

    path: Path
    started: float
    """Epoch seconds."""
    command: tuple[str, ...]
    """Secrets masked; empty where the manifest cannot be read."""
    folder: str
    """Where it was started, secrets masked."""
    bytes: int
    steps: int | None
    """None where no report was made of it."""
    verdict: str
    """"" where no report was made of it."""
    exit_code: int | None
    stopped_by: str | None
    running: bool
    """Whether it is being written now."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def died(self) -> bool:
        """Whether the command failed by itself."""
        return self.exit_code not in (None, 0) and self.stopped_by is None

    @property
    def outcome(self) -> str:
        """The verdict, or how the command ended."""
        if self.running:
            return term("running")
        if self.verdict:
            return self.verdict
        if self.exit_code is None:
            return say("its end was not recorded")
        how = say(" ({stopped_by})", stopped_by=self.stopped_by) if self.stopped_by else ""
        return say("ended with exit code {exit_code}{how}", exit_code=self.exit_code, how=how)


def kept_recordings() -> list[KeptRecording]:
    """Every recording of the state folder, the newest first."""
    found = [item for item in map(_read, recording_folders()) if item is not None]
    return sorted(found, key=lambda item: (-item.started, item.name))


def recording_folders() -> list[Path]:
    """The folders of recordings in the state folder, by name; links are not followed."""
    try:
        with os.scandir(state_folder()) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (OSError, RuntimeError):  # RuntimeError: no home at all
        return []
    return sorted(item for item in folders if (item / MANIFEST).is_file())


def newest_recording() -> KeptRecording | None:
    """The recording that started last in this folder, else the last one of all."""
    # By the time of the manifest, which is written once, at the start.
    dated = [(_written(folder / MANIFEST), folder) for folder in recording_folders()]
    here, last = mask_text(os.getcwd()), None
    for _, folder in sorted(dated, reverse=True):
        found = _read(folder)
        if found is not None and found.folder == here:
            return found
        last = last or found
    return last


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _read(folder: Path) -> KeptRecording | None:
    manifest, end, verdict = (_json(folder / name) for name in (MANIFEST, END, VERDICT))
    try:
        with os.scandir(folder) as entries:
            size = sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    except OSError:
        return None
    code, stopped = end.get("exit_code"), end.get("stopped_by")
    steps = verdict.get("steps")
    words = manifest.get("command")
    return KeptRecording(
        path=folder,
        started=_moment(manifest.get("started")) or _written(folder / MANIFEST),
        command=tuple(map(str, words)) if isinstance(words, list) else (),
        folder=str(manifest.get("cwd", "")),
        bytes=size,
        steps=steps if isinstance(steps, int) else None,
        verdict=message_of(str(verdict.get("verdict", "")), verdict.get("message")),
        exit_code=code if isinstance(code, int) else None,
        stopped_by=stopped if isinstance(stopped, str) else None,
        running=not end and time.time() - _written(folder / MACHINE) < _ALIVE,
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        value = load_json(read_file(path, MANIFEST_LIMIT))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _moment(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError):
        return None


def keep_verdict(folder: Path, verdict: str, steps: int | None) -> None:
    """Keep a recording's verdict for the list; one that cannot be written is left out."""
    kept = {"schema": SCHEMA, "verdict": verdict, "message": template_object(verdict), "steps": steps}
    write_json(folder / VERDICT, kept)


def recording_path(name: str) -> str:
    """What the user named, or the recording of the state folder that has this name."""
    if os.path.exists(name) or os.sep in name or not name:
        return name
    folder = state_folder() / name
    return str(folder) if (folder / MANIFEST).is_file() else name


def is_kept(folder: Path) -> bool:
    """Whether a folder is right in the state folder."""
    try:
        return folder.resolve().parent == state_folder().resolve()
    except (OSError, RuntimeError):
        return False


def chosen(
    recordings: Sequence[KeptRecording], names: Sequence[str] = (), keep: int | None = None
) -> list[KeptRecording]:
    """Those to remove, the newest first: of these names (patterns too), and all but the `keep` newest.

    A recording that is being written is never among them.
    """
    return [
        item
        for place, item in enumerate(recordings)
        if not item.running
        and (not names or any(fnmatchcase(item.name, name) for name in names))
        and (keep is None or place >= keep)
    ]


def remove(recording: KeptRecording) -> str:
    """Remove its folder; returns the system's reason where that fails, else ""."""
    try:
        shutil.rmtree(recording.path)
    except OSError as error:
        return error.strerror or str(error)
    return ""
