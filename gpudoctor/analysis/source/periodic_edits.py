"""Edits that make what a training loop does on every pass happen every so many passes.

A statement goes under `if step % 500 == 0:`, or the guard that it has gets another number. It stands in the loop's own
text, must be watching, no part of the training, and the loop must count its passes.
"""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.call_frequency import step_period
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing, loop_node, statement
from gpudoctor.analysis.source.syntax import LoopNode, called_name, is_method_call, nodes, walk
from gpudoctor.analysis.source.syntax_edits import own_lines, put_under, replace_node
from gpudoctor.model.remedy import Edit
from gpudoctor.model.signs.source import Event, Guard, GuardKind, Loop, Script, Source

_TRAINS = re.compile(r"(\w*_)?(backward|step|zero_grad)|load_state_dict|clip_grad\w*|update\w*|[a-z]\w*[a-z]_")
"""Methods that a training is made of: what calls one is more than watching. In-place methods of tensors too."""


def events_at(source: Source, path: str, line: int, column: int = 0) -> Iterator[tuple[Script, Loop, Event]]:
    """What the passes of the user's training loops do at a place, with the script that holds the loop.

    The event at the column comes first, then those of the same line in the order of their evaluation.
    """
    for script, loop in source.training_loops:
        if loop.engine:
            continue
        here = [event for event in loop.events if event.span.line == line and event.span.path == path]
        for event in sorted(here, key=lambda item: item.span.column != column):
            yield script, loop, event


def thinned(source: Source, path: str, line: int, column: int, period: int) -> tuple[Edit, ...]:
    """Edits that make what stands at a place run every `period` passes of the loop that reaches it."""
    for script, loop, event in events_at(source, path, line, column):
        head = loop_node(script, loop)
        if head is None or (step_period(event) or 0) >= period:
            continue  # it is that seldom already, and a smaller number would make it more
        guard = next((item for item in event.guards if item.kind is GuardKind.PERIOD), None)
        edit = _other_number(script, guard, period) if guard else _guarded(script, loop, head, event, period)
        if edit is not None:
            return (edit,)
    return ()


def _other_number(script: Script, guard: Guard, period: int) -> Edit | None:
    """The written number of `if step % 20 == 0:`, where nothing else shares the guard."""
    for node in nodes(script, ast.If):
        if node.test.lineno != guard.line or not _holds_calls_alone(node):
            continue
        for part in walk(node.test):
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and isinstance(part.right, ast.Constant):
                return replace_node(script, part.right, str(period))
    return None


def _holds_calls_alone(node: ast.If) -> bool:
    return not node.orelse and all(isinstance(item, ast.Expr) for item in node.body)


def _guarded(script: Script, loop: Loop, head: LoopNode, event: Event, period: int) -> Edit | None:
    """An event's statement under a guard of its own."""
    place = statement(script, event.node) if event.span.path == script.path else None
    if not isinstance(place, ast.Expr) or own_lines(script, place) is None or not _inside(script, place, head):
        return None
    counter = _target(head) or _added_up(script, loop, head)
    trains = bool(_training_lines(script, loop) & set(range(place.lineno, (place.end_lineno or place.lineno) + 1)))
    return put_under(script, [place], f"if {counter} % {period} == 0:") if counter and not trains else None


@once
def _training_lines(script: Script, loop: Loop) -> frozenset[int]:
    """Lines of a script at which a loop does a part of the training, itself or in what it calls there."""
    training = [event for event in loop.events if _is_training(event.node)]
    spans = {span for event in training for span in (*event.via, event.span)}
    return frozenset(span.line for span in spans if span.path == script.path)


def _is_training(node: ast.AST) -> bool:
    if is_method_call(node):
        return _TRAINS.fullmatch(node.func.attr) is not None
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and any(
        isinstance(target, ast.Attribute | ast.Subscript) for target in targets
    )


def _inside(script: Script, place: ast.AST, head: LoopNode) -> bool:
    """Whether a statement stands in the loop's own text, not in an inner loop."""
    around = (item for item in enclosing(script, place) if isinstance(item, (*FUNCTIONS, LoopNode)))
    return next(around, None) is head


def _target(head: LoopNode) -> str:
    """The first name of `for step, batch in enumerate(loader)`, the name of `for step in range(n)`."""
    if not isinstance(head, ast.For):
        return ""
    called = {called_name(part) for part in walk(head.iter) if isinstance(part, ast.Call)}
    numbered = "enumerate" in called and isinstance(head.target, ast.Tuple)
    name = head.target.elts[0] if numbered and isinstance(head.target, ast.Tuple) else head.target
    counts = numbered or bool(called & {"range", "trange"})
    return name.id if counts and isinstance(name, ast.Name) else ""


def _added_up(script: Script, loop: Loop, head: LoopNode) -> str:
    """`step` of the `step += 1` of every pass."""
    for event in loop.events:
        node = event.node
        if not isinstance(node, ast.AugAssign) or not event.every_pass or event.via or event.span.path != script.path:
            continue
        one = isinstance(node.op, ast.Add) and isinstance(node.value, ast.Constant) and node.value.value == 1
        if one and isinstance(node.target, ast.Name | ast.Attribute) and _inside(script, node, head):
            return ast.unparse(node.target)
    return ""
