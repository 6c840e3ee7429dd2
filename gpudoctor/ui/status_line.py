"""Live lines on a terminal: the progress of an examination, and the last row of a run."""

import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from threading import Event, Thread
from types import MappingProxyType
from typing import TextIO

from gpudoctor.lang import tr, word
from gpudoctor.model import Patient, Sign
from gpudoctor.report.printable import one_line, printable
from gpudoctor.text import duration, percent
from gpudoctor.ui.encoding import fit_encoding

# The progress line of an examination: on standard error, only on a terminal, only when it takes long.

QUIET_SECONDS = 0.7
"""A shorter examination shows no line at all."""
BEAT_SECONDS = 0.2
_ERASE_LINE = "\r\x1b[2K"


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
            # Names of the signs that are being taken now.
            signs = [getattr(patient.signs, field.name) for field in fields(patient.signs)]
            pending = [sign.name for sign in signs if isinstance(sign, Sign) and sign.being_taken]
            text = (
                tr("examining; waiting for {pending}", pending=", ".join(map(word, pending)))
                if pending
                else word("examining")
            )
            sys.stderr.write(_ERASE_LINE + text[:78])
            sys.stderr.flush()
        sys.stderr.write(_ERASE_LINE)
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # the terminal went away


# The command writes to the same terminal and must not be disturbed, so nothing is written where its cursor is:
# with a margin set (DECSTBM) its lines scroll above, as they do above the progress bar of a package manager.

_SAVE, _RESTORE, _ERASE = "\x1b7", "\x1b8", "\x1b[2K"
_FEWEST_ROWS, _FEWEST_COLUMNS = 6, 30
_PHASES = 3
"""Phases that are named; one below `_SMALL` is not worth a word."""
_SMALL = 0.02
FILE_VARIABLE = "GPUDOCTOR_STATUS"
"""Environment variable that names a file for the text, for a program that has started us without a terminal."""


class StatusLine:
    """One line at the bottom of the terminal that a stream goes to, and in the file of `FILE_VARIABLE`."""

    def __init__(self, stream: TextIO, *, shown: bool = True) -> None:
        self._stream = stream
        self._rows = 0
        """Rows of the terminal when the margin was set; 0 while there is none."""
        self._shown = False
        with suppress(ValueError):
            self._shown = shown and os.environ.get("TERM", "dumb") not in ("dumb", "") and stream.isatty()
        # Taken out: what the command inherits is as it would be without us.
        self._file, self._written = os.environ.pop(FILE_VARIABLE, ""), ""

    def show(self, text: str) -> None:
        """Show a text; only while we are in the foreground, or the terminal would stop us."""
        if self._file and text != self._written:
            self._written = text
            with suppress(OSError), open(self._file, "w", encoding="utf-8") as stream:
                stream.write(one_line(printable(text)))
        if not self._shown:
            return
        try:
            if os.tcgetpgrp(self._stream.fileno()) != os.getpgrp():
                return
            columns, rows = os.get_terminal_size(self._stream.fileno())
            if rows < _FEWEST_ROWS or columns < _FEWEST_COLUMNS:
                return
            parts = [] if rows == self._rows else [self._margin(rows)]
            line = fit_encoding(one_line(printable(text)), self._stream.encoding)[: columns - 1]
            parts += [_SAVE, f"\x1b[{rows};1H", _ERASE, line, _RESTORE]
            self._write("".join(parts))
        except (OSError, ValueError):
            self._shown = False  # the terminal went away

    def release(self) -> None:
        """Give the last row back until the next text."""
        if self._rows:
            with suppress(OSError, ValueError):
                self._write(f"{_SAVE}\x1b[{self._rows};1H{_ERASE}\x1b[r{_RESTORE}")
            self._rows = 0

    def close(self) -> None:
        """Give the last row back and be silent from now on."""
        self.release()
        self._shown = False

    def _margin(self, rows: int) -> str:
        """Scroll above the last row. The line feed first: the cursor may be on that row already."""
        self._rows = rows
        return f"\n{_SAVE}\x1b[1;{rows - 1}r{_RESTORE}\x1b[1A"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def status_text(
    seconds: float,
    *,
    step: int,
    ranks: int,
    step_seconds: float = math.nan,
    phases: Mapping[str, float] = MappingProxyType({}),
    still: float = 0.0,
    ended: bool = False,
) -> str:
    """What the line says: step, seconds of a step, speed, the largest phases; `still` seconds without a step;
    or that the ranks have `ended`, while the command goes on.
    """
    parts = ["gpudoctor", duration(float(round(seconds)))]
    if not ranks:
        return " · ".join([*parts, tr("no training step seen yet")])
    parts.append(tr("step {step:,}", step=step))
    if ended:
        parts.append(tr("the training has ended"))
    elif still > 0:
        parts.append(tr("no step for {still}", still=duration(float(round(still)))))
    elif math.isfinite(step_seconds) and step_seconds > 0:
        parts += [
            tr("{step_seconds} a step", step_seconds=duration(step_seconds)),
            tr("{rate} steps/s", rate=f"{1 / step_seconds:.3g}"),
        ]
        largest = sorted(phases.items(), key=lambda item: -item[1])[:_PHASES]
        parts += [f"{word(name.replace('_', ' '))} {percent(share)}" for name, share in largest if share >= _SMALL]
    if ranks > 1:
        parts.append(tr("{ranks} ranks", ranks=ranks))
    return " · ".join(parts)
