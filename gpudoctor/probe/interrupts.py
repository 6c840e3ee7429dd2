"""Exceptions that a signal handler of the program raises while we are at work: they are the program's."""

from __future__ import annotations

import signal
from types import CodeType
from typing import Any


def interrupts(error: BaseException) -> bool:
    """Whether an exception that came up in our code is not of our making; then our frames leave its traceback.

    Python runs the handlers of signals between any two instructions of the main thread. One that raises
    (Ctrl-C, a limit of time by SIGALRM) must reach the program, wherever it came up.
    """
    handlers = _handlers()
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code not in handlers:
        trace = trace.tb_next
    if trace is None and isinstance(error, Exception):
        return False
    error.__traceback__ = trace
    return True


def _handlers() -> set[CodeType]:
    """The code of the signal handlers that are installed."""
    found: set[CodeType] = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        call = type(handler).__call__ if callable(handler) else None
        for function in (handler, getattr(handler, "__func__", None), call):
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                found.add(code)
    return found
