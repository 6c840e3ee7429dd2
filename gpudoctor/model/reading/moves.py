"""Copies to a device: which calls move a batch, a model, or something else, and to where."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from gpudoctor.model.reading.device_use import device_of
from gpudoctor.model.reading.once import once
from gpudoctor.model.reading.syntax import children
from gpudoctor.model.signs.source import Call, Known, Loop, LoopRole, Script, Source


class Moved(Enum):
    """What a call moves."""

    BATCH = "batch"
    MODEL = "model"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Move:
    """One `.to(device)` or `.cuda()`."""

    script: Script
    call: Call
    what: Moved
    device: str
    """`cuda`, `maybe-cuda`, `cpu`, or `?`."""

    @property
    def non_blocking(self) -> bool | None:
        """Whether it asks for an asynchronous copy; None when only a run can tell."""
        value = self.call.argument("non_blocking")
        if value is None:
            return False
        return bool(value.value) if isinstance(value, Known) else None


def batch_names(loop: Loop) -> frozenset[str]:
    """Names that hold the loop's batch or a part of it."""
    names = {name.split(".")[0] for name in loop.targets}
    for event in loop.events:
        if event.call is not None and event.call.method == "next" and not event.via:
            names |= _stored(loop, event.call.node)
    for _ in range(2):
        for event in loop.events:
            node = event.node
            if isinstance(node, ast.Assign) and not event.via and _root(node.value) in names:
                for target in node.targets:
                    items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                    names |= {item.id for item in items if isinstance(item, ast.Name)}
    return frozenset(names)


def batch_moves(script: Script, loop: Loop) -> tuple[Move, ...]:
    """Copies of the loop's own batches to a device, on every pass."""
    names = batch_names(loop)
    found = []
    for event in loop.events:
        call = event.call
        if call is None or event.evaluation or not event.every_pass:
            continue
        device = _destination(script, call)
        if device is None or (call.receiver_device or "cpu") != "cpu":
            continue  # no move, or one within the device
        root = _root(call.node.func)
        drawn = _comprehended(loop, names)
        handed = any(name in _words(site.text) for site in event.via[:1] for name in names)
        if root in names or root in drawn or root == "next" or handed:
            found.append(Move(script=script, call=call, what=Moved.BATCH, device=device))
    return tuple(found)


@once
def moves(source: Source) -> tuple[Move, ...]:
    """Every copy to a device in the program."""
    return tuple(_moves(source))


def _moves(source: Source) -> Iterator[Move]:
    for script in source.scripts:
        batches: set[str] | None = None
        for call in script.calls:
            device = _destination(script, call)
            if device is None:
                continue
            what = Moved.MODEL if _is_model(source, script, call) else Moved.OTHER
            if what is Moved.OTHER:
                batches = _all_batches(script) if batches is None else batches
                what = Moved.BATCH if _root(call.node.func) in batches else Moved.OTHER
            yield Move(script=script, call=call, what=what, device=device)


def _all_batches(script: Script) -> set[str]:
    found: set[str] = set()
    for loop in script.loops:
        if loop.role in (LoopRole.TRAINING, LoopRole.EVALUATION):
            names = batch_names(loop)
            found |= names | _comprehended(loop, names)
    return found


def _destination(script: Script, call: Call) -> str | None:
    if not isinstance(call.node.func, ast.Attribute):
        return None
    if call.method == "cuda" and not call.name.startswith("torch.cuda"):
        return "cuda"
    if call.method != "to":
        return None
    value = next((item.value for item in call.node.keywords if item.arg == "device"), None)
    if value is None and call.node.args and not isinstance(call.node.args[0], ast.Starred):
        value = call.node.args[0]
    return None if value is None else device_of(script, call.function, value)


def _is_model(source: Source, script: Script, call: Call) -> bool:
    function = call.node.func
    if not isinstance(function, ast.Attribute):
        return False
    if call.receiver_type is not None:
        return call.receiver_type.startswith("torch.nn.")
    if call.name.startswith("torch.nn.Module."):
        return True
    receiver = function.value
    if isinstance(receiver, ast.Call):
        name = ast.unparse(receiver.func).rpartition(".")[2]
        for other in source.scripts:
            if name in other.classes:
                return any(base.startswith("torch.nn.") for base in other.classes[name].bases)
        return name[:1].isupper() or "model" in name.lower()
    text = ast.unparse(receiver)
    scope = call.function
    while True:
        kind = script.types.get(f"{scope}.{text}" if scope else text)
        if kind or not scope:
            break
        scope = scope.rpartition(".")[0]
    return bool(kind and kind.startswith("torch.nn."))


def _comprehended(loop: Loop, names: frozenset[str]) -> frozenset[str]:
    """Targets of comprehensions over the batch: `v` in `{k: v.to(d) for k, v in batch.items()}`."""
    found: set[str] = set()
    seen: set[ast.AST] = set()  # a call is an event, and so is the one that it is an argument of
    for event in loop.events:
        waiting: list[ast.AST] = [event.node]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, ast.comprehension) and _root(node.iter) in names:
                found |= {item.id for item in ast.walk(node.target) if isinstance(item, ast.Name)}
            waiting += children(node)
    return frozenset(found)


def _stored(loop: Loop, call: ast.Call) -> set[str]:
    for event in loop.events:
        if isinstance(event.node, ast.Assign) and any(node is call for node in ast.walk(event.node.value)):
            return {
                item.id
                for target in event.node.targets
                for item in ast.walk(target)
                if isinstance(item, ast.Name)
            }
    return set()


def _root(value: ast.expr) -> str:
    while isinstance(value, ast.Attribute | ast.Subscript | ast.Call):
        value = value.func if isinstance(value, ast.Call) else value.value
    return value.id if isinstance(value, ast.Name) else ""


def _words(text: str) -> set[str]:
    return set("".join(sign if sign.isalnum() or sign == "_" else " " for sign in text).split())
