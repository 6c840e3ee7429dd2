"""Which loops of a training step launch work on the device.

A read waits until all queued work is done. Until something launches work again, every further read is a small copy.
"""

import ast

from gpudoctor.analysis.source.device_tensors import DeviceTensors
from gpudoctor.analysis.source.train_eval_mode import is_forward
from gpudoctor.model.signs.source import Event, Loop

_VIEWS = frozenset(
    {"item", "cpu", "tolist", "numpy", "detach", "size", "dim", "numel", "view", "reshape", "squeeze",
     "unsqueeze", "requires_grad_", "is_cuda", "type", "get_device", "data_ptr"}
)  # fmt: skip
"""Methods of a tensor that launch no kernel."""
_LAUNCHES = frozenset({"backward", "step", "manual_backward", "training_step"})


def launching_loops(loop: Loop, tensors: DeviceTensors) -> set[int]:
    """Ids of the loops around what queues work on the device in a pass: a read in one waits in each pass of it."""
    return {id(inner) for event in loop.events if _launches(event, tensors) for inner in event.inner}


def _launches(event: Event, tensors: DeviceTensors) -> bool:
    """Whether an event is known to queue work on the device."""
    call = event.call
    if call is not None:
        if call.method in _VIEWS:
            return False
        return call.method in _LAUNCHES or is_forward(call) or tensors.holds(call.node, event)
    value = event.node.value if isinstance(event.node, ast.Assign | ast.AugAssign) else None
    return isinstance(value, ast.BinOp | ast.Compare | ast.UnaryOp) and tensors.holds(value, event)
