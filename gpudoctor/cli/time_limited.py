"""Work with a time limit that holds whatever the work does: in a child process, which is killed at its end.

A thread would not do: an expression that takes minutes, or a driver's call, keeps the interpreter to itself.
"""

import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from gpudoctor.errors import DoctorError
from gpudoctor.lang import say
from gpudoctor.text import duration

T = TypeVar("T")
_GONE = 2.0
"""Seconds in which a killed process is gone."""
_CHUNK = 1 << 16
ASKED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals by which somebody asks for the end."""


class Expired(DoctorError):
    """The work was not done in time."""


class Fault(Exception):
    """The work failed in the child by a fault of our own; the text is its traceback."""


class _Told(DoctorError):
    """An error of the child's, as it would have come from here."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def limited(work: Callable[[], T], seconds: float) -> T:
    """What the work returns, which can be pickled. An interrupt ends it at once.

    Raises `Expired` after so many seconds, a `DoctorError` where the work did, and `Fault` where it failed. On
    systems without fork it is done here, without a limit.
    """
    if not hasattr(os, "fork"):
        return work()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _in_the_child(work, writing)
        finally:
            os._exit(1)
    os.close(writing)
    try:
        answer = _answer(reading, seconds)
    finally:
        os.close(reading)
        ended_by = _end(pid)
    if not answer:
        if ended_by in ASKED:
            raise KeyboardInterrupt  # the signal is for both of us, and the child had it first
        raise Fault(say("the process that made the report died"))
    kind, value = pickle.loads(answer)  # of a child of our own
    if kind == "error":
        raise _Told(*value)
    if kind == "fault":
        raise Fault(value)
    done: T = value
    return done


def _in_the_child(work: Callable[[], object], writing: int) -> None:
    from gpudoctor.recorder.start_command import die_with_parent

    die_with_parent()
    for number in ASKED:
        signal.signal(number, signal.SIG_DFL)  # who asks for the end means this first of all
    try:
        answer = pickle.dumps(("done", work()))
    except DoctorError as error:
        answer = pickle.dumps(("error", (str(error), error.exit_code)))
    except Exception:  # noqa: BLE001  # it is told where it can be told
        answer = pickle.dumps(("fault", traceback.format_exc().rstrip()))
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(answer)
    os._exit(0)


def _answer(reading: int, seconds: float) -> bytes:
    """Everything that comes out of the pipe up to its end. Raises `Expired`."""
    parts: list[bytes] = []
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([reading], [], [], left)[0]:
            part = os.read(reading, _CHUNK)
            if not part:
                return b"".join(parts)
            parts.append(part)
    raise Expired("the report was not finished in {seconds}", seconds=duration(seconds))


def _end(pid: int) -> int:
    """End the child with all that it has started; one that cannot be ended is left to the system.

    Returns the signal that ended it, 0 without one: a child that was about to die has its own, not ours.
    """
    from gpudoctor.recorder.ending import kill
    from gpudoctor.vitals.process.procfs import whole_tree

    deadline = time.monotonic() + _GONE
    with suppress(ChildProcessError):
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            kill(lambda: whole_tree(pid))
        while not done and time.monotonic() < deadline:
            time.sleep(0.005)
            done, status = os.waitpid(pid, os.WNOHANG)
        if done and os.WIFSIGNALED(status):
            return os.WTERMSIG(status)
    return 0
