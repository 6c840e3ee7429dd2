"""Edits that put the passes of an accumulated step under `no_sync()`, all but the last."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import bound_to, enclosing, loop_node
from gpudoctor.analysis.source.parallelism import DDP
from gpudoctor.analysis.source.periodic_edits import own_lines
from gpudoctor.analysis.source.syntax_edits import put_under
from gpudoctor.lang import say
from gpudoctor.model import Edit, ImportEdit
from gpudoctor.model.signs.source import Event, GuardKind, Loop, Script


def held(script: Script, loop: Loop) -> tuple[Edit, ...]:
    """The forward and the backward of a pass under `no_sync()`; empty where they cannot be told apart."""
    head = loop_node(script, loop)
    backward = next((event for event in loop.calls(".backward") if not event.evaluation), None)
    if not isinstance(head, ast.For) or backward is None or backward.via:
        return ()
    inner = next((node for node in enclosing(script, backward.node) if isinstance(node, ast.For)), head)
    last = _last_of(inner) if inner is not head else _last_by_guard(script, loop, head)
    model = next(_wrapped_names(script), "")
    block = _between(inner, model, backward) if model and last else []
    if not block or any(own_lines(script, part, waits=False) is None for part in block):
        return ()
    line = say("with contextlib.nullcontext() if {last} else {model}.no_sync():", last=last, model=model)
    return put_under(script, block, line), ImportEdit(path=script.path, statement="import contextlib")


def _wrapped_names(script: Script) -> Iterator[str]:
    """The names of models that DDP wraps: `model`, `self.model`; nothing where there are several."""
    names = {bound_to(script, call.node) for call in script.calls if call.name in DDP} - {""}
    if len(names) == 1:
        yield from names


def _last_of(inner: ast.For) -> str:
    """The condition of the last micro-batch: `micro == count - 1` of `for micro in range(count)`."""
    made = inner.iter
    plain = isinstance(made, ast.Call) and ast.unparse(made.func) == "range" and len(made.args) == 1
    if not plain or not isinstance(made, ast.Call) or not isinstance(inner.target, ast.Name):
        return ""
    return f"{inner.target.id} == {ast.unparse(made.args[0])} - 1"


def _last_by_guard(script: Script, loop: Loop, head: ast.For) -> str:
    """The condition around the optimizer's step, where it holds the same when the pass begins."""
    for event in loop.calls(".step"):
        guards = [guard for guard in event.guards if guard.kind is GuardKind.PERIOD]
        above = [node for node in enclosing(script, event.node) if isinstance(node, ast.If)]
        test = next((node.test for node in above if guards and node.test.lineno == guards[0].line), None)
        if test is None or event.via:
            continue
        read = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        changed = {
            node.id
            for part in head.body
            for node in ast.walk(part)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        attributes = any(isinstance(node, ast.Attribute) for node in ast.walk(test))
        return "" if read & changed or attributes else ast.unparse(test)
    return ""


def _between(inner: ast.For, model: str, backward: Event) -> list[ast.stmt]:
    """The statements of the pass from the model's forward to the backward."""
    first = last = None
    for at, part in enumerate(inner.body):
        calls = [node for node in ast.walk(part) if isinstance(node, ast.Call)]
        if first is None and any(ast.unparse(call.func) == model for call in calls):
            first = at
        if any(call is backward.node for call in calls):
            last = at
    if first is None or last is None or first > last:
        return []
    return inner.body[first : last + 1]
