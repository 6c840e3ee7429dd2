"""The probe's file of frames: bounded, and never an error of the training. Needs no torch."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any

from .identity import Identity
from .wire.frames import Column, FrameWriter, Values, columns_frame, json_frame, json_text
from .wire.masking import mask_cut, mask_tokens

LIMITS = {
    "start": 1, "torch": 4, "loop": 8, "model": 16, "optimizer": 16, "loader": 32, "site": 4096,
    "lines": 4096, "numeric": 512, "memory": 512, "compile": 256, "window": 256, "heartbeat": 4096,
    "lost": 128, "exception": 4, "signal": 8, "end": 1, "items": 4096, "warning": 256,
}  # fmt: skip
"""Records of one type in one file."""


class FrameFile:
    """A file of frames, only ever appended to, one `write` a frame.

    A disk that is full or gone ends the writing, never the training: `broken` says why, and what a full
    disk cut short is taken back. After a fork the child has no file (`forget`).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.broken = ""
        self.dropped: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._file: FrameWriter | None = None
        self._lock = threading.RLock()
        self._named_by_secret = any(mask_tokens(place) != place for place in sys.path[:20])
        """Whether a folder of the program is named by a credential, which then is in every path of it."""
        self._copied = [json.dumps(path)[1:-1] for path in json.loads(os.environ.get("GPUDOCTOR_COPIED") or "[]")]
        """In a trial: the copy of a project that it works in, and the user's folder, which is what is written."""

    def close(self) -> None:
        """Close it; nothing is buffered. A forked child closes its parent's so, without taking the lock."""
        file, self._file = self._file, None
        self.broken = "closed"
        if file is not None:
            file.close()

    def record(self, type: str, t: float, fields: dict[str, Any]) -> None:
        """Append a JSON record, as long as its type has room."""
        count = self._counts.get(type, 0)
        if count >= LIMITS.get(type, 256):
            self.dropped[type] = self.dropped.get(type, 0) + 1
            return
        self._counts[type] = count + 1
        text = json_text(type, t, fields)
        if self._copied:
            text = text.replace(self._copied[0], self._copied[1])
        if self._named_by_secret:
            text = mask_tokens(text)
        self._append(json_frame(text))

    def columns(self, table: str, columns: Sequence[Column], values: Sequence[Values]) -> None:
        """Append a block of columns."""
        self._append(columns_frame(table, columns, values))

    def _append(self, data: bytes) -> None:
        with self._lock:
            if self.broken:
                return
            try:
                if self._file is None:
                    self._file = FrameWriter(self.path)
                self._file.append(data)
            except OSError as error:
                self.broken = str(error)


# What ended a process that had not imported torch: its traceback goes into the recording. The interpreter has shown
# it already, maybe on a terminal, which keeps nothing that could be read afterwards.

_LONGEST = 100_000


def write_early(error: BaseException) -> None:
    """The traceback, secrets masked, as `early-RANK-PARENT-PROCESS.txt`. Raises `OSError`."""
    me = Identity()
    text = mask_cut("".join(traceback.format_exception(type(error), error, error.__traceback__)), _LONGEST)
    path = os.path.join(me.folder, f"early-{me.label}-{me.parent}-{me.pid}.txt")
    before = "" if me.rank is None else f"[rank{me.rank}]: "
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.writelines(f"{before}{line}\n" for line in text.splitlines())
