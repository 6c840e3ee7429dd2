"""Where output goes: how wide a report is and its colours, pages of text, files that are whole or not there."""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpudoctor.errors import UsageError

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry

# How wide a report is, and whether it has colours.

PIPE_WIDTH = 80
"""Columns of a text report that does not go to a terminal."""
MAX_WIDTH = 110
"""Columns beyond which text is harder to read, not easier."""


def terminal_width(stream: TextIO | None = None) -> int:
    """Columns of the terminal that a stream goes to (standard output unless given), within reason."""
    from shutil import get_terminal_size

    columns = get_terminal_size((PIPE_WIDTH, 24)).columns
    if stream is not None and stream is not sys.stdout and not os.environ.get("COLUMNS"):
        with suppress(OSError, ValueError):
            columns = os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    return min(columns, MAX_WIDTH)


def wants_colour(choice: str, terminal: bool) -> bool:
    """`--color`, then NO_COLOR (no-color.org) and FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")


# Writing what `--output` names: the file is whole, or it is not there.


def write_file(path: Path, text: str, flag: str = "--output") -> None:
    """Write a report whole or not at all: a new file beside it, then a rename.

    A pipe or a device is written directly. Raises `UsageError` with the system's reason.
    """
    if not text.endswith("\n"):
        text += "\n"
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
            return
        handle, name = tempfile.mkstemp(prefix=".gpudoctor-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
            # mkstemp makes 0600 files; a report has the mode that any new file of this user has.
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path.resolve() if path.is_symlink() else path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise UsageError(f"{flag} {path}: cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


# Shows pages of text: width of the terminal, encoding of the stream.

PAGE_WIDTH = 100
"""Columns beyond which prose is harder to read."""


def text_width() -> int:
    """Columns to fill: the terminal's, within reason; 80 for a pipe."""
    from shutil import get_terminal_size

    if not sys.stdout.isatty():
        return PIPE_WIDTH
    return min(get_terminal_size((PIPE_WIDTH, 24)).columns, PAGE_WIDTH)


def show(text: str) -> None:
    """Write to standard output in its own encoding. `BrokenPipeError` passes through."""
    from gpudoctor.ui.encoding import write_text

    write_text(text, sys.stdout)


def note_problems(registry: "Registry") -> None:
    """Name the plugins that could not be loaded, on standard error."""
    from gpudoctor.ui.encoding import write_text

    for problem in registry.problems:
        write_text(f"gpudoctor: {problem}\n", sys.stderr)
