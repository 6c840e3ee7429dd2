"""What the interpreter's fault handler wrote when a fatal signal came: the signal, the stack of the thread."""

import re
from collections.abc import Mapping
from typing import Any

_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_SIGNALS = {
    "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Bus error": "SIGBUS", "Floating point "
        "exception": "SIGFPE",
    "Floating-point exception": "SIGFPE", "Illegal instruction": "SIGILL",
}  # fmt: skip
_FRAME = re.compile(r'^  File "(.*)", line ([0-9]{1,9}) in (.+)$', re.MULTILINE)
_DUMP = re.compile(r"^(?:Stack|Current thread|Thread)\b.*\(most recent call first\):", re.MULTILINE)
"""`Stack` where only one thread is dumped; Python 3.14 adds the C stack, which has no lines of files."""


def read_fault(text: str) -> Mapping[str, Any] | None:
    """Fields of a `signal` record: `signal` ("" where the handler does not say), `stack` outermost first.

    Of several dumps (a signal that is handed on, one that comes again) the last counts. None without a stack.
    """
    stacks = [found for dump in _DUMP.split(text)[1:] if (found := _FRAME.findall(dump))]
    frames = stacks[-1] if stacks else []
    fatal = _FATAL.findall(text)
    if not frames and not fatal:
        return None
    stack = [[path, int(line), function] for path, line, function in reversed(frames)]
    return {"signal": _SIGNALS.get(fatal[-1].strip(), "") if fatal else "", "stack": stack}
