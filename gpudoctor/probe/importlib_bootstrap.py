"""The functions of ours around functions of others.

The name of this file is no accident: frames of files with `importlib` and `_bootstrap` in their name are no callers to
`warnings.warn(..., stacklevel=2)`, so a warning names the line that it names without us. Tracebacks lose these frames,
too, from Python 3.11 on: a bare `raise` adds no entry for its own frame, and raises with what the error has as its
traceback.
"""

from __future__ import annotations

import functools
import threading
from time import perf_counter
from typing import Any, Callable, NamedTuple

from .table import OTHER

QUICK: Any = object()
"""The token of a call in a quick step."""
MISSING: Any = object()
"""The result of a call that raised; what an owner has by a name that it has not."""

Enter = Callable[[Any, Any], Any]
"""`enter(args, kwargs)` gives a token; None wants no `leave`."""
Leave = Callable[[Any, Any], None]
"""`leave(token, result)`; the result is `MISSING` where the call raised."""


def wrapped(function: Any, enter: Enter, leave: Leave, compiling: Callable[[], bool]) -> Any:
    """A function around one of others."""

    @functools.wraps(function)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        if compiling():  # Dynamo follows this branch alone; our objects mean nothing to it
            return function(*args, **kwargs)
        token = enter(args, kwargs)
        result = MISSING
        try:
            result = function(*args, **kwargs)
            return result
        except BaseException as error:
            _without_us(error)
            raise
        finally:
            if token is not None:
                leave(token, result)

    return hooked


def _without_us(error: BaseException) -> None:
    """Take the outermost frame, the caller's, out of an error's traceback."""
    trace = error.__traceback__
    error.__traceback__ = trace.tb_next if trace is not None else None


class Usual(NamedTuple):
    """What a hook does in a quick step (`Clock.quick`) instead of `enter` and `leave`."""

    phase: int
    """What the call is, where nothing else is going on."""
    ready: Callable[[Any], bool]
    """`ready(args)`: whether this call is as ever; then it has been counted."""
    after: Callable[[Any], None] | None = None
    """Is given the result."""


def timed(
    function: Any,
    clock: Any,
    compiling: Callable[[], bool],
    ends: tuple[Enter, Leave],
    lost: Any,
    usual: Usual | None,
    outer: bool,
) -> Any:
    """The same for the training's thread, with ends that may fail: `lost(error)` tells whether that is ours, and the
    hook is over. `outer`: calls inside the outermost one of a module go straight through.
    """
    ident = threading.get_ident
    begin, end = ends
    phase, ready, after = usual or (OTHER, nothing, None)

    @functools.wraps(function)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        nonlocal begin, ready
        if compiling():
            return function(*args, **kwargs)
        if outer and clock.deep:
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                _without_us(error)
                raise
        token = None
        if ident() == clock.ident:
            try:
                if clock.quick and clock.phase == OTHER and ready(args):
                    token = QUICK
                    clock.deep = outer
                    clock.phase = phase
                    clock.mark = perf_counter()
                else:
                    token = begin(args, kwargs)
            except BaseException as error:
                clock.deep = False  # where a signal handler of the program's has raised
                if not lost(error):
                    raise
                begin = ready = nothing
        result = MISSING
        try:
            result = function(*args, **kwargs)
            return result
        except BaseException as error:
            if token is not None:
                clock.passed(error)
            _without_us(error)
            raise
        finally:
            if token is not None:
                try:
                    if token is not QUICK:
                        end(token, result)
                    else:
                        now = perf_counter()
                        clock.row[clock.phase] += now - clock.mark
                        clock.mark = now
                        clock.phase = OTHER
                        clock.deep = False
                        if after is not None:
                            after(result)
                except BaseException as error:
                    if not lost(error):
                        raise
                    begin = ready = nothing

    return hooked


def nothing(*_: Any) -> None:
    """A hook that has failed, or is not there."""
