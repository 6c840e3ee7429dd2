"""One command of gpudoctor in a child process: how far it is, its end in time, its whole tree ended with it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gpudoctor.errors import IncompleteError
from gpudoctor.model.child_process import child_code
from gpudoctor.model.records import frozen
from gpudoctor.model.redaction import mask_text
from gpudoctor.recorder.ending import end_all
from gpudoctor.recorder.start_command import die_with_us
from gpudoctor.trial.processes import CleanupWatchdog

POLL = 0.03
NOTE_EVERY = 1.0
"""Seconds between two progress notes."""
POLITE = 1.0
"""Seconds that a cancelled command has to end by itself, before all that it started is killed."""
_LARGEST_OUTPUT = 64 << 20
_LAST_WORDS = 4_000
"""Characters of the command's own output that an answer shows."""
_NAME = "gpudoctor: "
STATUS = "GPUDOCTOR_STATUS"
"""Variable that names the file into which a child writes its live line."""

Note = Callable[[float, float | None, str], Awaitable[None]]
"""Called with the seconds passed, those expected at most, and a text."""
Told = Callable[[], None]


@frozen
class ChildCall:
    """What to run."""

    words: Sequence[str]
    """The command line of gpudoctor."""
    folder: str
    variables: Mapping[str, str]
    expected: float
    """Seconds that it should take at most, for the progress notes."""
    limit: float
    """Seconds after which it is ended."""
    recording: str = ""
    """Folder that its training processes carry in their environment; both streams go to one file then, as of a job
    whose output a user keeps."""


@frozen
class ChildEnd:
    """How it ended."""

    code: int
    out: str
    """Standard output, cut to its end."""
    errors: str
    """Lines of gpudoctor itself on standard error."""

    def errors_or(self, other: str) -> str:
        """The last sentence of gpudoctor, without its name; `other` if it said none."""
        lines = self.errors.splitlines()
        return lines[-1].removeprefix(_NAME) if lines else other


class OutOfTime(IncompleteError):
    """A child did not end within its limit, and was ended."""


async def run_child(call: ChildCall, place: Path, watchdog: CleanupWatchdog, note: Note, ending: Told) -> ChildEnd:
    """Run it to its end; if we are cancelled or it takes too long, nothing of it is left, and `ending` is called.

    `place` is a new folder for its output. Raises `OutOfTime`.
    """
    import anyio

    place.mkdir(mode=0o700)
    out, errors, status = place / "output.txt", place / "errors.txt", place / "status.txt"
    started = time.monotonic()
    child = _start(call, out, errors, status)
    with watchdog.watching(child.pid, Path(call.recording or place)):
        try:
            await _wait(child, call, status, out, started, note)
        except BaseException:
            ending()
            with anyio.CancelScope(shield=True):
                await _end(child, call.recording or str(place))
            raise
    said = _end_of(out if call.recording else errors).splitlines()
    own = [line for line in said if line.startswith(_NAME)]
    if call.recording:
        shown = "\n".join(line for line in said if not line.startswith(_NAME))[-_LAST_WORDS:]
    else:
        shown = out.read_text(encoding="utf-8", errors="replace")
    return ChildEnd(code=child.returncode, out=shown, errors="\n".join(own))


def _start(call: ChildCall, out: Path, errors: Path, status: Path) -> "subprocess.Popen[bytes]":
    variables = {**call.variables, STATUS: str(status)}
    with open(out, "ab") as own, open(errors, "ab") as other:
        return subprocess.Popen(
            [sys.executable, "-c", child_code("gpudoctor.cli"), *call.words],
            cwd=call.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=own,
            stderr=own if call.recording else other,
            start_new_session=True,  # its group and its session are what is ended with it
            preexec_fn=die_with_us(),
        )


async def _wait(
    child: "subprocess.Popen[bytes]", call: ChildCall, status: Path, out: Path, started: float, note: Note
) -> None:
    import anyio

    noted = started
    while child.poll() is None:
        await anyio.sleep(POLL)
        now = time.monotonic()
        if now - started > call.limit:
            raise OutOfTime(f"it did not end within {call.limit:.0f} s and was ended; allow it more time or less work")
        if now - noted >= NOTE_EVERY:
            noted = now
            _bounded(out)
            await note(now - started, call.expected, _status(status))


def _status(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip().removeprefix("gpudoctor · ")
    except OSError:
        return "working"


def _bounded(out: Path) -> None:
    """Start a file of output anew that has grown beyond all use: the disk is the user's."""
    with suppress(OSError):
        if out.stat().st_size > _LARGEST_OUTPUT:
            os.truncate(out, 0)  # opened for appending: what comes goes on from there


async def _end(child: "subprocess.Popen[bytes]", mark: str) -> None:
    """Ask it to end, then kill all that it has started, wherever that has gone."""
    import anyio

    if child.poll() is None:
        with suppress(OSError):
            child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + POLITE
        while child.poll() is None and time.monotonic() < deadline:
            await anyio.sleep(0.02)
    await anyio.to_thread.run_sync(end_all, child.pid, mark)
    if child.poll() is None:
        child.kill()
    await anyio.to_thread.run_sync(child.wait)


def _end_of(path: Path) -> str:
    """The last characters of a file, secrets masked."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 256_000))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return mask_text(text)[-64_000:]
