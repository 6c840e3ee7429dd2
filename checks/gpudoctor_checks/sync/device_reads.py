"""Which calls and conditions of a training loop read a tensor on the device: the host waits for those."""

import ast

from gpudoctor.analysis.source.device_tensors import DeviceTensors
from gpudoctor.analysis.source.syntax import is_method_call
from gpudoctor.lang import say
from gpudoctor.model.signs.source import Event, Loop

READS = frozenset({"item", "cpu", "tolist", "numpy"})
_CONVERSIONS = frozenset({"float", "int", "bool", "builtins.float", "builtins.int", "builtins.bool"})
_PRINTS = frozenset({"print", "builtins.print", "tqdm.write", "tqdm.tqdm.write"})
_WRITERS = ("SummaryWriter.add_scalar", "SummaryWriter.add_histogram")
_SETTERS = frozenset({"set_postfix", "set_description"})
SHOWN = say("of a tensor")


def read_word(event: Event, loop: Loop, tensors: DeviceTensors) -> str | None:
    """How the event reads the device, `.item()`; None when it does not."""
    call = event.call
    if call is None:
        first = _first(event.node) if isinstance(event.node, ast.expr) else None
        # A bare name asks whether there is something, a dict or None as a rule: a tensor would be compared.
        test = first is not None and not isinstance(first, ast.Name) and tensors.holds(first, event)
        return say("if on a tensor") if test else None
    if call.method in READS and isinstance(call.node.func, ast.Attribute):
        if call.name.startswith(("numpy.", "torch.cuda")):
            return None
        if call.receiver_type == "torch.Tensor" and call.receiver_device is not None and not loop.engine:
            return f".{call.method}()" if call.receiver_device != "cpu" else None
        return f".{call.method}()" if tensors.holds(call.node.func.value, event) else None
    if call.name in _CONVERSIONS and len(call.node.args) == 1:
        return f"{call.method}()" if tensors.holds(call.node.args[0], event) else None
    if call.name in _PRINTS or call.method in _SETTERS:
        shown = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
        if any(_shown(item, event, tensors) for item in shown):
            return say("{method}() {shown}", method=call.method, shown=SHOWN)
    elif call.name.endswith(_WRITERS):
        written = [*call.node.args[1:2], *(item.value for item in call.node.keywords)]
        if any(tensors.holds(item, event) for item in written):
            return say("{method}() {shown}", method=call.method, shown=SHOWN)
    return None


def _first(test: ast.expr) -> ast.expr:
    """What a condition looks at in any case; the other operands of `and` and `or` are events of their own."""
    while isinstance(test, ast.BoolOp | ast.UnaryOp):
        test = test.values[0] if isinstance(test, ast.BoolOp) else test.operand
    return test


def _shown(value: ast.expr, event: Event, tensors: DeviceTensors) -> int:
    """How many tensors on the device formatting a value formats."""
    parts: list[ast.expr] = []
    if isinstance(value, ast.JoinedStr):
        parts = [part.value for part in value.values if isinstance(part, ast.FormattedValue)]
    elif is_method_call(value, "format"):
        parts = value.args
    else:
        return int(tensors.holds(value, event))
    return sum(_shown(part, event, tensors) for part in parts)
