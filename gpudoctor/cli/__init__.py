"""The command line: one module a command, and the one place that turns errors into text and exit codes."""

import gc
import os
import sys
from collections.abc import Sequence

COLLECT_AFTER = 500_000
"""New objects between two passes of the garbage collector (Python's default: 700, 2,000 from 3.12 on).

Classes and trees of syntax are many and hold hardly a cycle: at the default, looking for some takes a fifth of
the time of a command.
"""
INTERRUPTED = 130
"""128 + SIGINT, the shell's convention."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors become one sentence on standard error."""
    from gpudoctor.cli.parser import parse
    from gpudoctor.errors import DoctorError

    _mend_streams()
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except DoctorError as error:
        _say(f"gpudoctor: {error}")
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong, and nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        _say("gpudoctor: interrupted")
        return INTERRUPTED
    finally:
        gc.set_threshold(*before)


def _mend_streams() -> None:
    """Give a closed standard stream (`>&-`) a place to write to, so that nothing fails for want of one."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _say(text: str) -> None:
    """A line on standard error, whatever its encoding and state."""
    try:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "replace").decode(encoding, "replace") + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # standard error is closed: the exit code has to do
