"""Which reads of one pass wait for the device, and which find its queue empty.

A read waits until all queued work is done. Until something launches work again, every further read is a small
copy: reads that follow each other are one wait.
"""

import ast
from collections.abc import Sequence

from gpudoctor.analysis.source.device_tensors import DeviceTensors
from gpudoctor.analysis.source.train_eval_mode import is_forward
from gpudoctor.model.signs.source import Event, Loop

_VIEWS = frozenset(
    {"item", "cpu", "tolist", "numpy", "detach", "size", "dim", "numel", "view", "reshape", "squeeze",
     "unsqueeze", "requires_grad_", "is_cuda", "type", "get_device", "data_ptr"}
)  # fmt: skip
"""Methods of a tensor that launch no kernel."""
_LAUNCHES = frozenset({"backward", "step", "manual_backward", "training_step"})


class Queue:
    """The device's queue along the events of one pass."""

    def __init__(self, loop: Loop, tensors: DeviceTensors, reads: Sequence[Event]) -> None:
        own = {id(node) for read in reads for node in ast.walk(read.node)}
        self._filled: dict[int, int] = {}
        self._loops: set[int] = set()
        filled = 0
        for event in loop.events:
            launches = _launches(event, tensors)
            if launches:
                self._loops |= {id(inner) for inner in event.inner}
            # What a read itself works out (`(a == b).sum().item()`) is short: it makes no wait of its own.
            if launches and id(event.node) not in own:
                filled += 1
            self._filled[id(event)] = filled

    def filling(self, event: Event) -> int:
        """How often work was launched before an event: reads with one number make one wait."""
        return self._filled[id(event)]

    def refills(self, event: Event, loop: Loop) -> bool:
        """Whether each pass of the innermost loop around an event launches work before it is read again."""
        inner = [item for item in event.inner if item is not loop]
        return not inner or id(inner[-1]) in self._loops


def _launches(event: Event, tensors: DeviceTensors) -> bool:
    """Whether an event is known to queue work on the device."""
    call = event.call
    if call is not None:
        if call.method in _VIEWS:
            return False
        return call.method in _LAUNCHES or is_forward(call) or tensors.holds(call.node, event)
    value = event.node.value if isinstance(event.node, ast.Assign | ast.AugAssign) else None
    return isinstance(value, ast.BinOp | ast.Compare | ast.UnaryOp) and tensors.holds(value, event)
