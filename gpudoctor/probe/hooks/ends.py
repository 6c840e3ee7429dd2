"""Deaths: exceptions of spawned children too, fatal signals."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "ends"


def install(probe: Probe) -> None:
    """Watch for exceptions that `torch.multiprocessing.spawn` hands to the parent, and for `sys.exit`."""
    guard = probe.guard

    def leaves(args: Any, kwargs: Any) -> None:
        probe.deaths.leaves(args[0] if args else kwargs.get("status"), sys._getframe(2))

    guard.replace(HOOK, sys, "exit", lambda original: guard.around(HOOK, original, leaves, _nothing))
    module = sys.modules.get("torch.multiprocessing.spawn")
    if module is not None:
        probe.guard.replace(HOOK, module, "_wrap", lambda original: _noting(probe, original))


def _nothing(token: Any, result: Any, failed: bool) -> None:
    """After `sys.exit` nothing is left to do."""


def _noting(probe: Probe, original: Any) -> Any:
    """What runs in a spawned child: it catches what the program raises, so that we would never see it."""
    write = probe.guard.safely(HOOK, probe.deaths.write)

    def _wrap(fn: Any, i: Any, args: Any, error_file: Any) -> Any:
        def noted(*inner: Any) -> Any:
            try:
                return fn(*inner)
            except Exception as error:
                probe.show()
                write(error)
                raise

        return original(noted, i, args, error_file)

    # It is pickled by its name, for children that are spawned.
    _wrap.__module__, _wrap.__qualname__ = original.__module__, original.__qualname__
    return _wrap
