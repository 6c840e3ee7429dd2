"""Copies to a device: which calls move a batch, and to where."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.device_tensors import device_of
from gpudoctor.analysis.source.scopes import Key, Scope, Scopes
from gpudoctor.analysis.source.syntax import children, keyword_value, root_name
from gpudoctor.model.signs.source import Call, Event, Known, Loop, Script, Source

_WRAPS = frozenset({"Variable", "tuple", "list", "dict", "enumerate", "zip"})
"""Functions that give back what they are given, or its parts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    batches = _Batches(source, loop)
    scripts = {script.path: script for script in source.scripts}
    found = []
    for event in loop.events:
        call, script = event.call, scripts.get(event.span.path)
        if call is None or script is None or event.evaluation or not event.every_pass:
            continue
        device = _destination(script, call)
        if device is None or (call.receiver_device or "cpu") != "cpu":
            continue  # no move, or one within the device
        if batches.hold(call.node.func, event):
            found.append(Transfer(script=script, call=call, device=device))
    return tuple(found)


class _Batches:
    """Names that hold a loop's batch or a part of it, in the loop and in the functions that it hands it to."""

    def __init__(self, source: Source, loop: Loop) -> None:
        self._scopes = Scopes(source, loop)
        self._keys: set[Key] = {((), name) for name in _drawn(loop)}
        bindings = list(self._scopes.bindings())
        events = [event for event in loop.events if isinstance(event.node, ast.Assign)]
        comprehensions = list(_comprehensions(loop))
        for _ in range(4):  # a batch is seldom handed on further
            size = len(self._keys)
            for key, value, via in bindings:
                if self._root_held(value, via):
                    self._keys.add(key)
            for event in events:
                if isinstance(event.node, ast.Assign) and self._root_held(event.node.value, event.via):
                    names = {name for target in event.node.targets for name in _stored_names(target)}
                    self._keys |= {self._scopes.key(name, event.via) for name in names}
            for part, via in comprehensions:
                if self._root_held(part.iter, via):
                    self._keys |= {self._scopes.key(name, via) for name in _stored_names(part.target)}
            if len(self._keys) == size:
                break

    def hold(self, value: ast.expr, event: Event) -> bool:
        """Whether an expression in an event is a batch, or a part of one."""
        return root_name(value) == "next" or self._root_held(value, event.via)

    def _root_held(self, value: ast.expr, via: Scope) -> bool:
        if isinstance(value, ast.Tuple | ast.List):
            return any(self._root_held(item, via) for item in value.elts)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name | ast.Attribute):
            wraps = ast.unparse(value.func).rpartition(".")[2] in _WRAPS
            if wraps and value.args:
                return self._root_held(value.args[0], via)
            if isinstance(value.func, ast.Name):
                return False  # what a function makes of a batch is another tensor
        root = root_name(value)
        return bool(root) and self._scopes.key(root, via) in self._keys


def _drawn(loop: Loop) -> set[str]:
    """Names that each pass binds to what it draws."""
    names = {name.split(".")[0] for name in loop.targets}
    for event in loop.events:
        if event.call is not None and event.call.method == "next" and not event.via and event.every_pass:
            names |= _stored(loop, event.call.node)
    return names


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
    return None if value is None else device_of(script, call.function, value)


def _comprehensions(loop: Loop) -> Iterator[tuple[ast.comprehension, Scope]]:
    """Every `for x in y` of a comprehension that a pass executes, with its scope."""
    seen: set[ast.AST] = set()  # a call is an event, and so is the one that it is an argument of
    for event in loop.events:
        waiting: list[ast.AST] = [event.node]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, ast.comprehension):
                yield node, event.via
            waiting += children(node)


def _stored_names(target: ast.expr) -> set[str]:
    """Names that a target binds: `x` and `y` of `x, (y, z.w)`."""
    if isinstance(target, ast.Tuple | ast.List):
        return {name for item in target.elts for name in _stored_names(item)}
    return {target.id} if isinstance(target, ast.Name) else set()


def _stored(loop: Loop, call: ast.Call) -> set[str]:
    for event in loop.events:
        if isinstance(event.node, ast.Assign) and any(node is call for node in ast.walk(event.node.value)):
            return {item.id for target in event.node.targets for item in ast.walk(target) if isinstance(item, ast.Name)}
    return set()
