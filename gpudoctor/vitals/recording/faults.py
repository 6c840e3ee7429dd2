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
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.+)$', re.MULTILINE)
_THREAD = re.compile(r"^(?:Current thread|Thread|Stack) .*\(most recent call first\):", re.MULTILINE)


def read_fault(text: str) -> Mapping[str, Any] | None:
    """Fields of a `signal` record: `signal` ("" where the handler does not say), `stack` outermost first.

    Of several dumps (a signal that is handed on, one that comes again) the last counts. None without a stack.
    """
    dumps = _THREAD.split(text)
    frames = _FRAME.findall(dumps[-1]) if len(dumps) > 1 else []
    fatal = _FATAL.findall(text)
    if not frames and not fatal:
        return None
    stack = [[path, int(line), function] for path, line, function in reversed(frames)]
    return {"signal": _SIGNALS.get(fatal[-1].strip(), "") if fatal else "", "stack": stack}
