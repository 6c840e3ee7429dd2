"""Edits that make what a training loop does on every pass happen every so many passes.

A statement goes under `if step % 500 == 0:`, or its guard gets another number. The statement is the event's
own or the call that leads to it, the innermost in the loop's own text; it must be watching, no part of the
training. A measuring block (`with FlopCounterMode() as counter`) is entered on some passes only.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.call_frequency import option_of, step_period
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing, function_of, loop_node, statement
from gpudoctor.analysis.source.syntax import (
    LoopNode,
    called_name,
    is_method_call,
    keyword_value,
    names_in,
    nodes,
    segment,
    walk,
)
from gpudoctor.analysis.source.syntax_edits import block, indentation, insert_after, own_lines, put_under, replace_node
from gpudoctor.model.remedy import Edit, ImportEdit, KeywordEdit
from gpudoctor.model.signs.source import Event, GuardKind, Loop, Script, Source

_TRAINS = re.compile(r"(\w*_)?(backward|step|zero_grad)|load_state_dict|clip_grad\w*|update\w*|[a-z]\w*[a-z]_")
"""Methods that a training is made of: what calls one is more than watching. In-place methods of tensors too."""
_NUMBERS = frozenset({"enumerate", "range", "trange"})
_SAVES = re.compile(r"save|checkpoint|ckpt|dump")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCounter:
    """A name that counts the passes of a loop."""

    name: str
    edits: tuple[Edit, ...] = ()
    """What makes it, where nothing counts yet."""
    zero: bool = False
    """Whether it is 0 on the first pass."""


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


def thinned(
    source: Source, path: str, line: int, column: int, period: int, *, block: bool = False, last: bool = False
) -> tuple[Edit, ...]:
    """Edits that make what stands at a place run every `period` passes of the loop that reaches it.

    Where several calls lead there (a helper that prints), the one that runs most often is meant. With `block` all
    that shares its guard may wait; with `last` it also runs once after the loop, or nothing is edited.
    """
    found = list(events_at(source, path, line, column))
    told = [item for item in found if step_period(item[2]) is not None]
    for script, loop, event in sorted(told, key=lambda item: step_period(item[2]) or 0) or found:
        if edits := _less_often(script, loop, event, period, block, last):
            return edits
    return ()


def thinned_everywhere(source: Source, path: str, line: int, column: int, period: int) -> tuple[Edit, ...]:
    """All edits that make a place (column 1: its line) run every `period` passes, whatever leads there; or none."""
    found: dict[Edit, None] = {}
    for script, loop, event in events_at(source, path, line, column):
        often = step_period(event)
        if column in (1, event.span.column) and often is not None and often < period:
            edits = _less_often(script, loop, event, period, False, False)
            if not edits:
                return ()
            found |= dict.fromkeys(edits)
    return tuple(found)


def _less_often(script: Script, loop: Loop, event: Event, period: int, block: bool, last: bool) -> tuple[Edit, ...]:
    """Edits that make an event run every `period` passes: its guard's number, or a guard around it."""
    head = loop_node(script, loop)
    if head is None or (step_period(event) or 0) >= period:
        return ()  # it is that seldom already, and a smaller number would make it more
    guard = next((item for item in event.guards if item.kind is GuardKind.PERIOD), None)
    if guard is not None:
        here = (node for node in nodes(script, ast.If) if node.test.lineno == guard.line)
        node = next((node for node in here if number_of(node.test) is not None or option_of(event)), None)
        more = _once_more(script, head, node.body) if last and node is not None else ()
        if more is None or (last and node is None):
            return ()
        if option := option_of(event):
            return (*_default(script, option, period), *more)
        written = number_of(node.test) if node is not None else None
        if node is None or written is None:
            return ()
        if not block and (node.orelse or not all(isinstance(item, ast.Expr) for item in node.body)):
            return ()  # it shares its guard with other work
        return (replace_node(script, written, str(period)), *more)
    for place in _places(script, head, event):
        if own_lines(script, place) is None or trains(loop, script, place):
            continue
        found = counter_at(script, loop, head, place)
        adds = any(isinstance(part, ast.AugAssign) for part in walk(place))
        shown = isinstance(place, ast.Assign) and found is not None and found.zero and _only_shown(script, loop, place)
        if found is not None and (shown or (isinstance(place, ast.Expr | ast.For) and not adds)):
            more = _once_more(script, head, [place]) if last else ()
            under = put_under(script, [place], f"if {found.name} % {period} == 0:")
            return () if more is None else (*found.edits, under, *more)
    return ()


def number_of(test: ast.expr) -> ast.Constant | None:
    """The written number of `step % 20 == 0`."""
    for part in walk(test):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and isinstance(part.right, ast.Constant):
            return part.right
    return None


def _default(script: Script, option: str, period: int) -> tuple[Edit, ...]:
    for call in script.calls_to(".add_argument"):
        names = [item.value for item in call.node.args if isinstance(item, ast.Constant)]
        if option in names and isinstance(keyword_value(call.node, "default"), ast.Constant):
            place, value = call.span, (("default", str(period)),)
            return (KeywordEdit(path=script.path, line=place.line, column=place.column, set=value),)
    return ()


def _places(script: Script, head: LoopNode, event: Event) -> Iterator[ast.stmt]:
    """Statements that could wait: the event's own and loops around it, then the calls that lead to it."""
    whole = statement(script, event.node) if event.span.path == script.path else None
    if whole is not None:
        yield whole
        for above in enclosing(script, whole):
            if above is head or isinstance(above, FUNCTIONS):
                break
            if isinstance(above, ast.For):
                yield above
    for span in reversed(event.via):
        for call in script.calls if span.path == script.path else ():
            if call.span == span and (whole := statement(script, call.node)) is not None:
                yield whole


def _only_shown(script: Script, loop: Loop, place: ast.Assign) -> bool:
    """Whether what a statement binds is read by statements alone that show it, and do no part of the training."""
    function, names = function_of(script, place), {name for target in place.targets for name in names_in(target)}
    readers = (
        statement(script, node)
        for node in nodes(script, ast.Name)
        if node.id in names and isinstance(node.ctx, ast.Load) and function_of(script, node) is function
    )
    return all(
        isinstance(one, ast.Expr)
        and not trains(loop, script, one)
        and not (isinstance(one.value, ast.Call) and names & names_in(one.value.func))  # `prof.start()` works
        for one in readers
    )


def trains(loop: Loop, script: Script, place: ast.stmt) -> bool:
    """Whether a statement does a part of the training, itself or in what it calls."""
    lines = range(place.lineno, (place.end_lineno or place.lineno) + 1)
    return any(line in lines for line in _training_lines(script, loop))


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


def _once_more(script: Script, head: LoopNode, body: list[ast.stmt]) -> tuple[Edit, ...] | None:
    """Statements of a pass once more behind the outermost loop, so that the last state is kept.

    A condition that holds nothing else comes along: `if rank == 0:`. Nothing where the function saves behind the
    loop already; None where it cannot be written, or where another function saves that may run after the training.
    """
    loops = [item for item in enclosing(script, head) if isinstance(item, LoopNode)]
    outer, function = (loops[-1] if loops else head), function_of(script, head)
    inside = {id(part) for item in body for part in walk(item)}
    called = {called_name(part) for item in body for part in walk(item) if isinstance(part, ast.Call)}
    for call in script.calls:
        if not _SAVES.search(call.method) or id(call.node) in inside:
            continue
        own = function_of(script, call.node)
        if own is function and call.span.line > (head.end_lineno or 0):
            return ()
        sites = [site.span.line for site in script.calls if site.method == getattr(own, "name", "")]
        within = sites and all(outer.lineno <= line <= (outer.end_lineno or 0) for line in sites)
        if own is not function and getattr(own, "name", "") not in called and not within:
            return None
    whole, above = body, next(enclosing(script, body[0]))
    if above is not head:
        if not isinstance(above, ast.If) or above.orelse or above not in head.body:
            return None
        if number_of(above.test) is None:
            whole = [above] if above.body == body else []
        elif not isinstance(above.test, ast.Compare):
            return None  # the last time is an exception from the period, and from nothing else
    texts = [own_lines(script, item) for item in whole]
    if not whole or None in texts:
        return None
    old, new = indentation(script, whole[0]), indentation(script, outer)
    lines = [line.removeprefix(old) for text in texts for line in (text or "").split("\n")]
    return (insert_after(script, outer, ("\n" + new).join(lines)),)


def entered_seldom(source: Source, path: str, line: int, column: int, period: int) -> tuple[Edit, ...]:
    """Edits that enter what a `with` of every pass makes only every `period` passes; its block runs as before.

    The statements right behind the block that read it go along. Nothing where others read it.
    """
    for script, loop, event in events_at(source, path, line, column):
        head, place = loop_node(script, loop), statement(script, event.node)
        if head is None or not isinstance(place, ast.With) or len(place.items) != 1:
            continue
        found, item = counter_at(script, loop, head, place), place.items[0]
        reads = _reads_after(script, place, item.optional_vars)
        if found is None or reads is None or item.context_expr is not event.node:
            continue
        text = segment(script, item.context_expr)
        new = f"{text} if {found.name} % {period} == 0 else contextlib.nullcontext()"
        under = [put_under(script, reads, f"if {found.name} % {period} == 0:")] if reads else []
        edit = replace_node(script, item.context_expr, new)
        return (*found.edits, edit, ImportEdit(path=script.path, statement="import contextlib"), *under)
    return ()


def _reads_after(script: Script, place: ast.With, target: ast.expr | None) -> list[ast.stmt] | None:
    """The statements right behind a block that read what it has made; None where others do too."""
    if target is None:
        return []
    if not isinstance(target, ast.Name):
        return None
    statements = block(script, place)
    behind = statements[statements.index(place) + 1 :]
    function = function_of(script, place)
    readers = {
        statement(script, node)
        for node in nodes(script, ast.Name)
        if node.id == target.id and isinstance(node.ctx, ast.Load) and function_of(script, node) is function
    }
    wanted = behind[: len(readers)]
    simple = all(isinstance(part, ast.Expr | ast.Assign) and own_lines(script, part) for part in wanted)
    return wanted if simple and set(wanted) == readers else None


def counter_at(script: Script, loop: Loop, head: LoopNode, place: ast.stmt) -> LoopCounter | None:
    """A name that counts the loop's passes and can be read at a place; else an enumerate that is added."""
    if not _inside(script, place, head):
        return None
    return _target(head) or _added_up(script, loop, head, place) or _counted(script, head)


def _inside(script: Script, place: ast.AST, head: LoopNode) -> bool:
    """Whether a statement stands in the loop's own text, not in an inner loop."""
    around = (item for item in enclosing(script, place) if isinstance(item, (*FUNCTIONS, LoopNode)))
    return next(around, None) is head


def _target(head: LoopNode) -> LoopCounter | None:
    """The first name of `for step, batch in enumerate(loader)`, the name of `for step in range(n)`."""
    if not isinstance(head, ast.For):
        return None
    called = {called_name(part) for part in walk(head.iter) if isinstance(part, ast.Call)}
    numbered = "enumerate" in called and isinstance(head.target, ast.Tuple)
    name = head.target.elts[0] if numbered and isinstance(head.target, ast.Tuple) else head.target
    counts = numbered or bool(called & {"range", "trange"})
    first = [part for part in walk(head.iter) if isinstance(part, ast.Call) and called_name(part) in _NUMBERS]
    zero = all(len(part.args) == 1 and not part.keywords for part in first)
    return LoopCounter(name=name.id, zero=zero) if counts and isinstance(name, ast.Name) else None


def _added_up(script: Script, loop: Loop, head: LoopNode, place: ast.stmt) -> LoopCounter | None:
    """`step += 1` of every pass."""
    for event in loop.events:
        node = event.node
        if not isinstance(node, ast.AugAssign) or not event.every_pass or event.via or event.span.path != script.path:
            continue
        one = isinstance(node.op, ast.Add) and isinstance(node.value, ast.Constant) and node.value.value == 1
        if one and isinstance(node.target, ast.Name | ast.Attribute) and _inside(script, node, head):
            name, function = ast.unparse(node.target), function_of(script, head)
            given = [
                item.value
                for item in nodes(script, ast.Assign)
                if name in map(ast.unparse, item.targets) and function_of(script, item) is function
            ]
            begins = len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value == 0
            return LoopCounter(name=name, zero=begins and node.lineno > place.lineno)
    return None


def _counted(script: Script, head: LoopNode) -> LoopCounter | None:
    """A counter added to a loop over a loader: `for step, batch in enumerate(loader)`."""
    if not isinstance(head, ast.For) or "enumerate" in script.imports:
        return None
    used = {node.id for node in nodes(script, ast.Name)} | {node.arg for node in nodes(script, ast.arg)}
    name = next((word for word in ("step", "step_index", "pass_index") if word not in used), "")
    target = segment(script, head.target)
    source = segment(script, head.iter)
    if not name or not target or not source:
        return None
    if isinstance(head.target, ast.Tuple) and not target.startswith("("):
        target = f"({target})"
    edits = (
        replace_node(script, head.target, f"{name}, {target}"),
        replace_node(script, head.iter, f"enumerate({source})"),
    )
    return LoopCounter(name=name, edits=edits, zero=True)
