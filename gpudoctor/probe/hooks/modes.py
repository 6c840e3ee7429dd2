"""`Module.train`: going back to training ends an evaluation that nobody declared; where `eval()` was called
last.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..guard import CALLER

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "modes"


def install(probe: Probe) -> None:
    """Hook `Module.train` (which `Module.eval` calls, and which calls itself for every part)."""
    guard, evaluation, models, pace = probe.guard, probe.evaluation, probe.models, probe.pace
    inside = [False]

    def begin(args: Any, kwargs: Any) -> Any:
        if inside[0]:
            return None
        inside[0] = True
        return args[0], args[1] if len(args) > 1 else kwargs.get("mode", True)

    def end(token: Any, _result: Any, _failed: bool) -> None:
        inside[0] = False
        module, mode = token
        if not mode:
            pace.leave()
            models.put_to_eval(module, sys._getframe(CALLER))
        elif evaluation.undeclared() and evaluation.trains(module):
            evaluation.finish()

    guard.surround(HOOK, probe.torch.nn.Module, "train", begin, end)
