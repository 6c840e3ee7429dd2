"""The progress line of an examination: on standard error, only on a terminal, only when it takes long."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from threading import Event, Thread

from gpudoctor.model import Patient, Sign

QUIET_SECONDS = 0.7
"""A shorter examination shows no line at all."""
BEAT_SECONDS = 0.2
_ERASE = "\r\x1b[2K"


@contextmanager
def waiting(patient: Patient, *, quiet: bool) -> Iterator[None]:
    """Say what is still being read while the body runs."""
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    done = Event()
    thread = Thread(target=_beat, args=(patient, done), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1.0)


def _beat(patient: Patient, done: Event) -> None:
    if done.wait(QUIET_SECONDS):
        return
    try:
        while not done.wait(BEAT_SECONDS):
            pending = _pending(patient)
            text = f"examining; waiting for {', '.join(pending)}" if pending else "examining"
            sys.stderr.write(_ERASE + text[:78])
            sys.stderr.flush()
        sys.stderr.write(_ERASE)
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # the terminal went away


def _pending(patient: Patient) -> list[str]:
    """Names of the signs that are being taken now."""
    signs = [getattr(patient.signs, field.name) for field in fields(patient.signs)]
    return [sign.name for sign in signs if isinstance(sign, Sign) and sign.being_taken]
