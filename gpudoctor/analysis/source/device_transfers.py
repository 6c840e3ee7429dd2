"""Copies to a device: which calls move a batch, and to where."""

import ast

from gpudoctor.analysis.source.device_tensors import device_of
from gpudoctor.analysis.source.syntax import is_method_call, keyword_value, root_name
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Event, Known, Loop, Script, Source


@frozen(eq=False)
class Transfer:
    """One `.to(device)` or `.cuda()`."""

    script: Script
    call: Call
    device: str
    """`cuda`, `maybe-cuda`, `cpu`, or `?`."""

    @property
    def non_blocking(self) -> bool | None:
        """Whether it asks for an asynchronous copy; None when only a run can tell."""
        value = self.call.argument("non_blocking")
        if value is None:
            return False
        return bool(value.value) if isinstance(value, Known) else None


def batch_moves(source: Source, loop: Loop) -> tuple[Transfer, ...]:
    """Copies of the loop's own batches to a device, on every pass, in the functions that it calls too.

    What the step makes itself (noise, time steps, masks) is not drawn from a loader, and no loader pins it.
    """
    scripts = {script.path: script for script in source.scripts}
    found = []
    for event in loop.events:
        call, script = event.call, scripts.get(event.span.path)
        if call is None or script is None or event.evaluation or not event.every_pass:
            continue
        device = _destination(script, call)
        if device is not None and (call.receiver_device or "cpu") == "cpu" and _drawn(loop, event):
            found.append(Transfer(script=script, call=call, device=device))
    return tuple(found)


def _drawn(loop: Loop, event: Event) -> bool:
    """Whether what a call moves is a batch, or a part of one."""
    if not is_method_call(event.node):
        return False
    moved = event.node.func.value
    thing = event.thing(moved)
    if thing.made and thing.type in (None, "torch.Tensor"):
        return True
    root = root_name(moved)
    return root == "next" or (not event.via and root in {name.split(".")[0] for name in loop.targets})


def moves_anything(source: Source) -> bool:
    """Whether anything in the program is copied to a device."""
    return any(_destination(script, call) is not None for script in source.scripts for call in script.calls)


def _destination(script: Script, call: Call) -> str | None:
    if not isinstance(call.node.func, ast.Attribute):
        return None
    if call.method == "cuda" and not call.name.startswith("torch.cuda"):
        return "cuda"
    if call.method != "to":
        return None
    value = keyword_value(call.node, "device")
    if value is None and call.node.args and not isinstance(call.node.args[0], ast.Starred):
        value = call.node.args[0]
    return None if value is None else device_of(script, value)
