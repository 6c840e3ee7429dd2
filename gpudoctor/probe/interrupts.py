"""Exceptions that a signal handler of the program raises while we are at work: they are the program's."""

from __future__ import annotations

import ctypes
import functools
import signal
import sys
import threading
import weakref
from contextlib import suppress
from types import CodeType
from typing import Any, Callable


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


def raised_later(error: BaseException, end: Callable[[], None]) -> tuple[Any, Any]:
    """Two objects that, as the last local variables of a finalizer in this order, raise an exception in this
    thread once the finalizer has returned. What a `__del__` raises itself is lost. `end` is the work of the
    finalizer, which may not have begun.

    The first dies with the finalizer's frame, and a callback made of nothing but C functions asks the
    interpreter to raise at its next instruction: that is the caller's.
    """
    error.__traceback__ = None
    with suppress(BaseException):
        end()
    # The interpreter takes a class and calls it: this one gives the exception that there is. Up to Python 3.10
    # `except` looks at the class, too.
    again = type(type(error).__name__, (type(error),), {"__new__": lambda *_: error})
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    asking = map(raise_in, [ctypes.c_ulong(threading.get_ident())], [ctypes.py_object(again)])
    last: set[Any] = set()
    return last, weakref.ref(last, functools.partial(next, asking))


def covered_from_start(code: CodeType) -> CodeType:
    """The code of a function whose first statement is a `try`, which then covers the function's entry, too.

    From Python 3.11 on the interpreter runs the handlers of signals that came during a C call at the entry of
    the next Python function: of a finalizer, what they raise would be lost. (Up to 3.10 it waits for a `try`.)
    The first entry of the exception table is start and length, in units of two bytes and groups of six bits.
    """
    if sys.version_info < (3, 11):
        return code
    table = code.co_exceptiontable
    start, at = _number(table, 0)
    length, rest = _number(table, at)
    head = _groups(0) + _groups(start + length)
    return code.replace(co_exceptiontable=bytes([head[0] | 0x80]) + head[1:] + table[rest:])


def _number(table: bytes, at: int) -> tuple[int, int]:
    """A number of an exception table, and where the next one is (Objects/exception_handling_notes.txt)."""
    value = table[at] & 0x3F
    while table[at] & 0x40:
        at += 1
        value = value << 6 | table[at] & 0x3F
    return value, at + 1


def _groups(value: int) -> bytes:
    groups = [value & 0x3F]
    while value := value >> 6:
        groups.append(value & 0x3F | 0x40)
    return bytes(reversed(groups))
