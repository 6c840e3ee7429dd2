"""Where output goes: width and colours, files that are whole or not there."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpudoctor.errors import UsageError
from gpudoctor.lang import say

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry

# How wide a report is, and whether it has colours.

PIPE_WIDTH = 80
"""Columns of a text report that does not go to a terminal."""
MAX_WIDTH = 110
"""Columns beyond which text is harder to read, not easier."""


COLOURS = ("auto", "always", "never")
_OFF = ("0", "false", "no")


def add_color_flag(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """`--color`, the same in every command that prints text."""
    parser.add_argument(
        "--color", choices=COLOURS, default="auto", help="colours (default: auto; also NO_COLOR, FORCE_COLOR)"
    )


def add_format_flags(
    parser: "argparse.ArgumentParser | argparse._ArgumentGroup",
    formats: Sequence[str] = ("text", "json"),
    output: str = "",
    *,
    json: bool = True,
) -> None:
    """`--format` with its short form and `--json`; `--output` where `output` says what it does."""
    parser.add_argument("-f", "--format", choices=formats, default="text", help="output format (default: text)")
    if json:
        parser.add_argument(
            "--json", dest="format", action="store_const", const="json", help="the same as --format json"
        )
    if output:
        parser.add_argument("-o", "--output", metavar="FILE", help=output)


def wants_colour(choice: str, terminal: bool) -> bool:
    """`--color`, then NO_COLOR (no-color.org) and FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if force := os.environ.get("FORCE_COLOR", ""):
        return force.lower() not in _OFF
    return terminal and os.environ.get("TERM") != "dumb"


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
            mask = os.umask(0o022)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, path.resolve() if path.is_symlink() else path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise UsageError(
            "{flag} {path}: cannot be written: {reason}", flag=flag, path=path, reason=error.strerror or error
        ) from error


# Shows pages of text in the encoding of the stream.


def show(text: str) -> None:
    """Write to standard output in its own encoding. `BrokenPipeError` passes through."""
    from gpudoctor.ui.encoding import write_text

    write_text(text, sys.stdout)


def tell(text: str, /, **parts: object) -> None:
    """Write a text, or a template with its parts, to standard error in its own encoding."""
    from gpudoctor.ui.encoding import write_text

    write_text(say(text, **parts) if parts else text, sys.stderr)


def look(arguments: argparse.Namespace, stream: TextIO | None = None) -> tuple[int, bool]:
    """Columns of a text and whether it is coloured: as on the terminal of a stream, or as in a file."""
    from shutil import get_terminal_size

    columns = get_terminal_size((PIPE_WIDTH, 24)).columns
    if stream is not None and stream is not sys.stdout and not os.environ.get("COLUMNS"):
        with suppress(OSError, ValueError):
            columns = os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    terminal = getattr(arguments, "output", None) is None and (stream or sys.stdout).isatty()
    return min(columns, MAX_WIDTH) if terminal else PIPE_WIDTH, wants_colour(arguments.color, terminal)


def deliver_text(text: str, arguments: argparse.Namespace, stream: TextIO | None = None) -> None:
    """A rendered text where it was asked for: `--output`, else a stream, standard output unless given."""
    from gpudoctor.ui.encoding import write_text

    if arguments.output not in (None, "-"):
        write_file(Path(arguments.output), text)
    else:
        write_text(text if text.endswith("\n") else text + "\n", stream or sys.stdout, rendered=True)


def answers_yes(question: str) -> bool:
    """Ask on a terminal; False where nobody can answer."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def note_problems(registry: "Registry") -> None:
    """Name the plugins that could not be loaded, on standard error."""
    for problem in registry.problems:
        tell("gpudoctor: {problem}\n", problem=problem)


_DRIVER = Path("/proc/driver/nvidia/gpus")


def driver_cards() -> list[str]:
    """Names of this machine's GPUs by the files of the kernel's driver: no library is asked."""
    from gpudoctor.model.external_files import read_text
    from gpudoctor.model.read_limits import SYSTEM_FILE

    names: list[str] = []
    with suppress(OSError):
        for card in sorted(_DRIVER.iterdir()):
            lines = read_text(card / "information", SYSTEM_FILE, "replace").splitlines()
            names += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return names
