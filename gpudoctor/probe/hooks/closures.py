"""Closures that an optimizer's step calls (LBFGS, Lightning): what runs in them is the loop's.

The forward and the backward pass inside a closure have hooks of their own; the rest of it (the user's
`training_step`, moving a batch, logging) would else count as the optimizer's time. And the gradients that the
step uses are there only when the closure has returned: before it stand those of the step before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..clock import OPTIMIZER
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
    """The arguments of `step` with its closure under the clock; `returned` is called once it has returned.

    What the closure returns and raises is as without us.
    """
    clock = probe.clock
    ident = threading.get_ident
    state = [True]

    def marked_closure(*inner_args: Any, **inner_kwargs: Any) -> Any:
        if ident() != clock.ident or clock.phase != OPTIMIZER:
            return closure(*inner_args, **inner_kwargs)
        clock.switch(OTHER)
        try:
            result = closure(*inner_args, **inner_kwargs)
        finally:
            clock.switch(OPTIMIZER)
        if state[0]:
            state[0] = False
            returned()
        return result

    if kwargs and kwargs.get("closure") is closure:
        return args, {**kwargs, "closure": marked_closure}
    return (args[0], marked_closure, *args[2:]), kwargs
