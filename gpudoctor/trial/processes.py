"""How the processes of a bounded run hang on us: orphans become ours, and none outlives us."""

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import gpudoctor

_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""


def adopt_orphans() -> None:
    """Become the parent of what the command's processes leave behind, so that it can be found and ended."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


# A process that outlives us by a moment: when we are killed (`kill -9`, out of memory), it ends the runs and
# deletes the scratch place.
#
# It hears of every run over a pipe, a line each: `begin PID FOLDER`, `end PID`, at the end of all `bye`. The
# end of the pipe without a `bye` is our death.

_START = f"import sys; sys.path.insert(0, {str(Path(gpudoctor.__file__).parents[1])!r}); "
_START += "from gpudoctor.trial.processes import watch_over; watch_over(sys.argv[1])"
_PATIENCE = 2.0


class CleanupWatchdog:
    """Our end of the pipe. Where no process can be had, nothing is watched."""

    def __init__(self, scratch: Path) -> None:
        self._process: subprocess.Popen[str] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(scratch)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # a signal to our group is none to it
            )

    @contextmanager
    def watching(self, pid: int, folder: Path) -> Iterator[None]:
        """Around a run."""
        self._say(f"begin {pid} {folder}")
        try:
            yield
        finally:
            self._say(f"end {pid}")

    def dismiss(self) -> None:
        """All is ended and deleted."""
        if self._process is not None:
            self._say("bye")
            with suppress(OSError):
                self._process.stdin.close()  # type: ignore[union-attr]
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)

    def _say(self, words: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.write(words + "\n")
                self._process.stdin.flush()


def watch_over(scratch: str) -> None:
    """The process: listen until the pipe ends."""
    runs: dict[int, str] = {}
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        number, _, folder = rest.partition(" ")
        if word == "bye":
            return
        if word == "begin":
            runs[int(number)] = folder
        elif word == "end":
            runs.pop(int(number), None)
    from gpudoctor.recorder.ending import end_all
    from gpudoctor.trial.scratch import remove_scratch

    for pid, folder in runs.items():
        end_all(pid, folder)
    remove_scratch(Path(scratch))
