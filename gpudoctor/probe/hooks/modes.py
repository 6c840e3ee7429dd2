"""`Module.train`: going back to training ends an evaluation that nobody declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "modes"


def install(probe: Probe) -> None:
    """Replace `Module.train` (which `Module.eval` calls)."""
    evaluation = probe.evaluation

    def begin(args: Any, kwargs: Any) -> Any:
        mode = args[1] if len(args) > 1 else kwargs.get("mode", True)
        if mode and evaluation.undeclared() and evaluation.trains(args[0]):
            evaluation.finish()

    def end(_token: Any, _result: Any, _failed: bool) -> None:
        """Never called: `begin` gives no token."""

    guard = probe.guard
    guard.replace(
        HOOK, probe.torch.nn.Module, "train", lambda original: guard.around(HOOK, original, begin, end)
    )
