"""The stack of a thread, read from another one, and whether it waits for a generator of batches."""

from __future__ import annotations

import dis
import gc
import re
import sys
from functools import lru_cache
from inspect import CO_GENERATOR
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import attrgetter, methodcaller
from types import CodeType
from typing import Any, Tuple

# Python 3.11 makes a frame's object when somebody asks for it, and that may start a garbage collection. A
# finalizer then lets the other thread go on: the frames that are being read are gone, and the process crashes
# (measured: within 13 s of constant reading, on 3.11.7). So a stack is read in one call of `list`, whose parts
# are all built in: no thread comes between, and the collector is off meanwhile. No frame is kept, for with it
# the program's variables would live longer and die in our thread.

Spot = Tuple[CodeType, int]
"""A function on a stack, and the offset of its instruction (`f_lasti`)."""

_DEPTH = 500
"""Frames of a stack that are read (imports are deep)."""
_MOST = 10_000
"""Lines that are remembered."""
_READABLE = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Without the interpreter's lock no thread can read what another one executes."""
_lines: dict[tuple[str, str, int, int], int] = {}
"""By file and function: equal functions of two files are equal as `code`."""
_call = methodcaller("__call__")
_spot = attrgetter("f_code", "f_lasti")


def stack_of_thread(ident: int | None) -> list[Spot]:
    """What a thread executes, the innermost function first; empty where there is no such thread."""
    if not _READABLE:
        return []
    was_on: list[Any] = []
    top = map(methodcaller("get", ident), map(_call, (sys._current_frames,)))
    frames = takewhile(bool, accumulate(chain(top, repeat("f_back")), getattr))
    read = chain(
        map(was_on.append, map(_call, (gc.isenabled,))),
        map(_call, (gc.disable,)),
        map(_spot, islice(frames, _DEPTH)),
        map(_call, map((int, gc.enable).__getitem__, map(_call, (was_on.pop,)))),
    )
    try:
        return list(read)[2:-1]
    finally:
        if was_on and was_on.pop():  # memory ran out on the way
            gc.enable()


def line_of(spot: Spot) -> int:
    """The line that a function on a stack has come to."""
    code, offset = spot
    key = (code.co_filename, code.co_name, code.co_firstlineno, offset)
    line = _lines.get(key)
    if line is None:
        line = code.co_firstlineno
        for begin, at in dis.findlinestarts(code):
            if begin > offset:
                break
            line = at or line
        if len(_lines) >= _MOST:  # a program may make functions anew
            _lines.clear()
        _lines[key] = line
    return line


# Whether the training loop is waiting for a batch that no `DataLoader` makes.
#
# A generator or iterator of the user's own leaves no hook, but it shows on the stack: the function whose loop
# holds the optimizer's step stands at the `for` (or at `next`) of that very loop, with the generator's frame
# above it.

_BATCH = re.compile(
    r"(^|_)(get|next|load|fetch|sample|make|draw|read)_?(\w+_)?(batch|batches|data|minibatch|example)s?$"
)
"""Names of plain functions that make a batch (`get_batch`)."""


def draws(steps: dict[CodeType, int], stack: list[Spot]) -> bool:
    """Whether this stack of the training thread waits for the next batch; `steps` is the one at the end of a step."""
    for depth in range(1, len(stack)):
        code, at = stack[depth]
        step = steps.get(code)
        if step is not None:
            return _waits(code, at, stack[depth - 1][0], step)
    return False


def _waits(loop: CodeType, at: int, above: CodeType, step: int) -> bool:
    name = above.co_name
    for begin, end in loops(loop):
        if begin == at:
            return begin < step < end
    if above.co_flags & CO_GENERATOR:
        return name != "<genexpr>"
    return name == "__next__" or bool(_BATCH.search(name))


@lru_cache(maxsize=64)
def loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    """(offset of its `FOR_ITER`, offset of its end) of every `for` of a function."""
    return tuple(
        (instruction.offset, int(instruction.argval))
        for instruction in dis.get_instructions(code)
        if instruction.opname == "FOR_ITER"
    )
