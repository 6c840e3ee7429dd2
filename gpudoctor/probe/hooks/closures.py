"""Closures that an optimizer's step calls (LBFGS, Lightning): what runs in them is the loop's.

The forward and the backward pass inside a closure have hooks of their own; the rest of it (the user's
`training_step`, moving a batch, logging) would else count as the optimizer's time. And the gradients that the
step uses are there only when the closure has returned: before it stand those of the step before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..clock import OPTIMIZER
from ..standin import Standin
from ..table import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..probe import Probe

Arguments = tuple[Any, Any]


def closure_of(args: Any, kwargs: Any) -> Any:
    """The closure of a call of `Optimizer.step` (`args` begins with the optimizer); None without one."""
    closure = kwargs.get("closure") if kwargs else None
    if closure is None and len(args) > 1:
        closure = args[1]
    return closure if callable(closure) else None


def marked(probe: Probe, closure: Any, args: Any, kwargs: Any, returned: Callable[[], Any]) -> Arguments:
    """The arguments of `step` with its closure under the clock; `returned` is called once it is over.

    What the closure returns and raises is as without us.
    """
    clock = probe.clock
    ident = threading.get_ident
    first = True

    def begin(_args: Any, _kwargs: Any) -> Any:
        if ident() != clock.ident or clock.phase != OPTIMIZER:
            return None
        return clock.switch(OTHER)

    def end(_token: Any, _result: Any) -> None:
        nonlocal first
        clock.switch(OPTIMIZER)
        if first:
            first = False
            returned()

    known = Standin(closure, begin, end)
    if kwargs and kwargs.get("closure") is closure:
        return args, {**kwargs, "closure": known}
    return (args[0], known, *args[2:]), kwargs
