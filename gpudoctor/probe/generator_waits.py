"""Whether the training loop is waiting for a batch that no `DataLoader` makes.

A generator or iterator of the user's own leaves no hook, but it shows on the stack: the function whose loop
holds the optimizer's step stands at the `for` (or at `next`) of that very loop, with the generator's frame
above it.
"""

from __future__ import annotations

import dis
import re
from functools import lru_cache
from inspect import CO_GENERATOR
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .probe import Probe
    from .stacks import Spot

_BATCH = re.compile(
    r"(^|_)(get|next|load|fetch|sample|make|draw|read)_?(\w+_)?(batch|batches|data|minibatch|example)s?$"
)
"""Names of plain functions that make a batch (`get_batch`)."""


class Draws:
    """Looks at stacks for it."""

    def __init__(self, probe: Probe) -> None:
        self._steps = probe.steps

    def draws(self, stack: list[Spot]) -> bool:
        """Whether this stack of the training thread waits for the next batch."""
        steps = self._steps.stack
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
