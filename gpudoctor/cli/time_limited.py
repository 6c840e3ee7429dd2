"""Work with a time limit that holds whatever the work does: in a child process, which is killed at its end.

A thread would not do: an expression that takes minutes, or a driver's call, keeps the interpreter to itself.
"""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast

from gpudoctor.errors import DoctorError
from gpudoctor.lang import say
from gpudoctor.text import duration

T = TypeVar("T")
_GONE = 2.0
"""Seconds in which a killed process is gone."""
ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals by which somebody asks for the end."""


class Expired(DoctorError):
    """The work was not done in time."""


class Fault(Exception):
    """The work failed in the child by a fault of our own; the text is its traceback."""


def limited(work: Callable[[], T], seconds: float) -> T:
    """What the work returns, which can be pickled. An interrupt ends it at once.

    Raises `Expired` after so many seconds, a `DoctorError` where the work did, and `Fault` where it failed.
    """
    from gpudoctor.recorder.ending import kill
    from gpudoctor.vitals.process.procfs import tree

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    child = context.Process(target=_in_the_child, args=(work, writing))
    child.start()
    writing.close()
    kind, value = "died", cast("Any", None)
    try:
        if not reading.poll(seconds):
            raise Expired("the report was not finished in {seconds}", seconds=duration(seconds))
        with suppress(EOFError):
            kind, value = reading.recv()
    finally:
        reading.close()
        pid = child.pid or 0
        if kind == "died":
            child.join(0.05)  # one that was about to end has a signal of its own, not ours
        if child.exitcode is None and kind == "died":
            kill(lambda: tree(pid))
        child.join(_GONE)
    if kind == "died" and child.exitcode in [-number for number in ASKED]:
        raise KeyboardInterrupt  # the signal is for both of us, and the child had it first
    if kind == "error":
        told = DoctorError(value[0])
        told.exit_code = value[1]
        raise told
    if kind != "done":
        raise Fault(value or say("the process that made the report died"))
    done: T = value
    return done


def _in_the_child(work: Callable[[], object], writing: Connection) -> None:
    from gpudoctor.recorder.start_command import die_with_parent

    die_with_parent()
    for number in ASKED:
        signal.signal(number, signal.SIG_DFL)  # who asks for the end means this first of all
    answer: tuple[str, Any]
    try:
        answer = ("done", work())
    except DoctorError as error:
        answer = ("error", (str(error), error.exit_code))
    except Exception:  # noqa: BLE001  # it is told where it can be told
        answer = ("fault", traceback.format_exc().rstrip())
    writing.send(answer)
    writing.close()
    os._exit(0)
