"""The command line: one module a command, and the one place that turns errors into text and exit codes."""

import errno
import gc
import os
import sys
from collections.abc import Sequence

from gpudoctor.lang import rendered, say

COLLECT_AFTER = 2_000_000
"""New objects between two passes of the garbage collector (Python's default: 700, 2,000 from 3.12 on).

Classes and trees of syntax are many and hold hardly a cycle: at the default, looking for some takes a fifth of
the time of a command.
"""
_OF_THE_MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
INTERRUPTED = 130
"""128 + SIGINT, the shell's convention."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors become one sentence on standard error."""
    from gpudoctor.cli.parser import named_language
    from gpudoctor.lang import language_for, speaking

    # Give a closed standard stream (`>&-`) a place to write to, so that nothing fails for want of one.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    words = sys.argv[1:] if argv is None else argv
    try:
        with speaking(language_for(named_language(words))):
            return _guarded(words, alone=argv is None)
    finally:
        gc.set_threshold(*before)


def _guarded(words: Sequence[str], *, alone: bool) -> int:
    """Run a command; `alone` if the process ends with it."""
    from gpudoctor.cli.parser import parse
    from gpudoctor.errors import DoctorError

    try:
        arguments = parse(words)
        arguments.alone = alone
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except DoctorError as error:
        _say(say("gpudoctor: {error}", error=error))
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong, and nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        _say(say("gpudoctor: interrupted"))
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the one guard: no traceback, and no fault of ours as the user's
        _say(say("gpudoctor: {fault}", fault=_fault(error)))
        return DoctorError.exit_code


def _our_file(path: str) -> str:
    """A file of gpudoctor's, its checks' or its rules', from its package on; "" for every other file.

    A clone and the folders above it may have any name, so that a word in a path decides nothing.
    """
    package = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
    if path.startswith(package):
        return f"gpudoctor/{path.removeprefix(package)}"
    for name in ("gpudoctor_checks", "gpudoctor_rules"):
        _, found, rest = path.rpartition(f"{os.sep}{name}{os.sep}")
        if found:
            return f"{name}/{rest}"
    return ""


def _fault(error: Exception) -> str:
    """What is said of an error that no door has turned into a sentence: ours, or a machine that is full."""
    if isinstance(error, MemoryError):
        return say("out of memory; examine fewer files at once, or use a machine with more memory")
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        return say(
            "the operating system refused: {reason}{filename}",
            reason=error.strerror,
            filename=say(": {filename}", filename=error.filename) if error.filename else "",
        )
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd alone
        return say("the working folder is gone; change to another one")
    from traceback import extract_tb

    frames = [(file, frame) for frame in extract_tb(error.__traceback__) if (file := _our_file(frame.filename))]
    place = " < ".join(
        say("{file}:{line} in {name}", file=file, line=frame.lineno, name=frame.name)
        for file, frame in reversed(frames[-3:])
    )
    return say(
        "internal error: {kind}: {words} ({place}). This is a bug in gpudoctor; please report it "
        "with this line and its input",
        kind=type(error).__name__,
        words=" ".join(str(error).split())[:300],
        place=place,
    )


def _say(text: str) -> None:
    """A line on standard error, whatever its encoding and state."""
    from gpudoctor.report.printable import printable

    try:
        encoding = sys.stderr.encoding or "utf-8"
        text = printable(rendered(text))
        sys.stderr.write(text.encode(encoding, "replace").decode(encoding, "replace") + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # standard error is closed: the exit code has to do
