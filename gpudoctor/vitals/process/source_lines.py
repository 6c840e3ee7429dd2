"""What a line of the user's source does that leaves no frame: reads of tensors, moves, prints, waits."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from gpudoctor.model.external_files import read_text
from gpudoctor.model.read_limits import SCRIPT
from gpudoctor.model.redaction import mask_cut

_MOST_FILES = 64


@dataclass(frozen=True, slots=True)
class LineClass:
    """One row: a pattern in a source line and what time at that line is."""

    kind: str
    phase: str
    pattern: "re.Pattern[str]"
    device_only: bool = False
    """Whether it tells something only where the process uses a GPU: `float(x)` may convert anything."""


_READ = r"\.(item|tolist|numpy)\s*\(\s*\)|\.cpu\s*\(\s*\)"
_MOVE = r"\.(to|cuda)\s*\(\s*(device|['\"]cuda|self\.device|args\.device|local_rank|rank|non_blocking|\))"
_TEST = (
    r"\b(float|int|bool)\s*\(|^\s*(el)?if\b|^\s*while\b|\bassert\b|\.any\(|\.all\(|"
    r"\bisnan\b|\bisfinite\b|\bnonzero\b|\bunique\b"
)
_SYNCHRONIZE = r"\b(cuda|accelerator|stream\w*|event\w*)\.synchronize\s*\("
LINES = (
    LineClass("sleep", "other", re.compile(r"\bsleep\s*\(")),
    LineClass("gc", "sync", re.compile(r"\bgc\.collect\s*\(")),
    LineClass("empty-cache", "sync", re.compile(r"\bempty_cache\s*\(")),
    LineClass("synchronize", "sync", re.compile(_SYNCHRONIZE)),
    LineClass("read", "sync", re.compile(_READ)),
    LineClass("move", "transfer", re.compile(_MOVE), True),
    LineClass("print", "logging", re.compile(r"\bprint\s*\(|\.(write|flush)\s*\(|\bfsync\s*\(")),
    LineClass("read", "sync", re.compile(_TEST), True),
)
"""What a line says, first match."""


def line_class(text: str, device: bool) -> LineClass | None:
    """What time spent in C code below this line is; None when the line does not say."""
    return next((row for row in LINES if (device or not row.device_only) and row.pattern.search(text)), None)


class SourceLines:
    """Lines of the watched process's files, each file read once."""

    def __init__(self, started: float, root: str = "", cwd: str = "") -> None:
        self._started = started
        self._root, self._cwd = root, cwd
        self._files: dict[str, list[str]] = {}
        self.changed: set[str] = set()
        """Files that changed after the process had started: their lines are not what it runs."""

    def text(self, path: str, line: int) -> str:
        """The line, stripped; "" where it cannot be read."""
        if path not in self._files and len(self._files) < _MOST_FILES:
            self._files[path] = self._read(path)
        lines = self._files.get(path, [])
        return mask_cut(lines[line - 1].strip(), 200) if 0 < line <= len(lines) else ""

    def _read(self, path: str) -> list[str]:
        if not path or path.startswith("<"):
            return []
        try:
            real = self._root + (path if os.path.isabs(path) else os.path.join(self._cwd, path))
            state = os.stat(real)
            if state.st_mtime > self._started + 1.0:
                self.changed.add(path)
                return []
            return read_text(real, SCRIPT, "replace").splitlines()
        except (OSError, ValueError):
            return []


Lines = Callable[[str, int], str]
"""How a line's text is looked up: a path and a 1-based line."""
