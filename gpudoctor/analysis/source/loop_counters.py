"""What counts the passes of a loop: a name that edits can go by, or an enumerate that they add."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing, function_of
from gpudoctor.analysis.source.syntax import LoopNode, is_name, nodes
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.model.remedy import Edit
from gpudoctor.model.signs.source import Event, Loop, Script


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCounter:
    """A name that counts the passes of a loop."""

    name: str
    edits: tuple[Edit, ...] = ()
    """What makes it, where nothing counts yet."""
    zero: bool = False
    """Whether it is 0 on the first pass."""


def counter_at(script: Script, loop: Loop, head: LoopNode, place: ast.stmt) -> LoopCounter | None:
    """A name that counts the loop's passes and can be read at a place; else an enumerate that is added."""
    function = function_of(script, head)
    if function_of(script, place) is not function:
        return _attribute(script, loop, place)
    if not _inside(script, place, head):
        return None
    found = _target(head) or _added_up(script, loop, head, place)
    return found or (counted(script, head) if isinstance(head, ast.For) else None)


def _inside(script: Script, place: ast.stmt, head: LoopNode) -> bool:
    """Whether a statement stands in the loop's own text, not in an inner loop."""
    for above in enclosing(script, place):
        if above is head:
            return True
        if isinstance(above, (*FUNCTIONS, ast.For, ast.AsyncFor, ast.While)):
            return False
    return False


def _target(head: LoopNode) -> LoopCounter | None:
    """The first name of `for step, batch in enumerate(loader)`, the name of `for step in range(n)`."""
    if not isinstance(head, ast.For):
        return None
    calls = {ast.unparse(part.func): part for part in ast.walk(head.iter) if isinstance(part, ast.Call)}
    if "enumerate" in calls and isinstance(head.target, ast.Tuple):
        first, call = head.target.elts[0], calls["enumerate"]
        if isinstance(first, ast.Name):
            return LoopCounter(name=first.id, zero=len(call.args) == 1 and not call.keywords)
        return None
    name = next((word for word in ("range", "trange") if word in calls), "")
    if name and isinstance(head.target, ast.Name):
        return LoopCounter(name=head.target.id, zero=len(calls[name].args) == 1)
    return None


def _sums(loop: Loop) -> Iterator[tuple[Event, ast.AugAssign]]:
    """`step += 1` of every pass."""
    for event in loop.events:
        node = event.node
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add)
            and isinstance(node.value, ast.Constant)
            and node.value.value == 1
            and event.every_pass
            and not (event.inner or event.evaluation)
        ):
            yield event, node


def _added_up(script: Script, loop: Loop, head: LoopNode, place: ast.stmt) -> LoopCounter | None:
    for event, node in _sums(loop):
        if event.via or event.span.path != script.path or not isinstance(node.target, ast.Name | ast.Attribute):
            continue
        if not _inside(script, node, head):
            continue
        name = ast.unparse(node.target)
        zero = node.lineno > place.lineno and _begins_at_zero(script, head, name)
        return LoopCounter(name=name, zero=zero)
    return None


def _begins_at_zero(script: Script, head: LoopNode, name: str) -> bool:
    """Whether the only value that a name is given by hand, before the loop, is 0."""
    given = [
        value
        for node in nodes(script, ast.Assign)
        for value in _values(node, name)
        if function_of(script, node) is function_of(script, head)
    ]
    return len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value == 0


def _values(node: ast.Assign, name: str) -> Iterator[ast.expr]:
    for target in node.targets:
        if ast.unparse(target) == name:
            yield node.value
        elif isinstance(target, ast.Tuple) and any(ast.unparse(item) == name for item in target.elts):
            whole = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts)
            at = next(at for at, item in enumerate(target.elts) if ast.unparse(item) == name)
            yield node.value.elts[at] if whole and isinstance(node.value, ast.Tuple) else node.value


def _attribute(script: Script, loop: Loop, place: ast.stmt) -> LoopCounter | None:
    """`self.step`, added up in a method of the class that the place's function is a method of."""
    owner = _class(script, place)
    for event, node in _sums(loop):
        target = node.target
        if (
            owner is not None
            and event.span.path == script.path
            and isinstance(target, ast.Attribute)
            and is_name(target.value, "self")
            and _class(script, node) is owner
        ):
            return LoopCounter(name=ast.unparse(target))
    return None


def _class(script: Script, node: ast.AST) -> ast.ClassDef | None:
    """The class whose method a node stands in."""
    function = function_of(script, node)
    above = next(iter(enclosing(script, function)), None) if isinstance(function, ast.FunctionDef) else None
    return above if isinstance(above, ast.ClassDef) else None


def counted(script: Script, head: ast.For) -> LoopCounter | None:
    """A counter added to a loop over a loader: `for step, batch in enumerate(loader)`."""
    names = nodes(script, ast.Name)
    used = {node.id for node in names} | {node.arg for node in nodes(script, ast.arg)}
    name = next((word for word in ("step", "step_index", "pass_index") if word not in used), "")
    target = ast.get_source_segment(script.text, head.target) or ""
    source = ast.get_source_segment(script.text, head.iter) or ""
    shadowed = any(node.id == "enumerate" and not isinstance(node.ctx, ast.Load) for node in names)
    if not name or not target or not source or shadowed or "enumerate" in script.imports:
        return None
    if isinstance(head.target, ast.Tuple) and not target.startswith("("):
        target = f"({target})"
    edits = (
        replace_node(script, head.target, f"{name}, {target}"),
        replace_node(script, head.iter, f"enumerate({source})"),
    )
    return LoopCounter(name=name, edits=edits, zero=True)
