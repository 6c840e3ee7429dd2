"""Deaths by `sys.exit`, in spawned children too."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from ..standin import Standin

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "ends"


def install(probe: Probe) -> None:
    """Watch `sys.exit`, where the reason of an exit is known: also of a child of `torch.multiprocessing.spawn`,
    which catches what the program raises and exits.
    """
    guard = probe.guard
    leaves = guard.safely(HOOK, probe.deaths.leaves)
    guard.replace(HOOK, sys, "exit", lambda original: _noted(probe, leaves, original))


def _noted(probe: Probe, leaves: Any, original: Any) -> Any:
    """`sys.exit` that is noted with its argument. A class is called in its place: its `__new__` notes it,
    and its `__init__` is the original, which the interpreter calls with the same arguments and without a frame.
    """
    clock = probe.clock

    def note(kind: Any, *args: Any, **_: Any) -> Any:
        if threading.get_ident() == clock.ident:
            leaves(args[0] if args else None, sys._getframe(1))
        return object.__new__(kind)

    exits = type("exit", (), {"__new__": note, "__init__": original})
    return Standin(original, called=exits)
