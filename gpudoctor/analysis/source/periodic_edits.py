"""Edits that make what a training loop does on every pass happen every so many passes.

A statement goes under `if step % 500 == 0:`, or its guard gets another number. The statement is the event's
own, the loop around it, or the call that leads to it, the innermost that a name for the number of the pass
can reach; what it takes along must be watching too, no part of the training. A measuring block
(`with FlopCounterMode() as counter`) is entered on some passes only.
"""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.call_frequency import option_of, step_period
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing, function_of, loop_node, statement
from gpudoctor.analysis.source.loop_counters import LoopCounter, counter_at
from gpudoctor.analysis.source.syntax import (
    LoopNode,
    is_attribute,
    is_method_call,
    keyword_value,
    names_in,
    nodes,
    walk,
)
from gpudoctor.analysis.source.syntax_edits import insert_after, put_under, replace_node
from gpudoctor.model.remedy import Edit, ImportEdit, KeywordEdit
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
        here = [event for event in loop.events if (event.span.path, event.span.line) == (path, line)]
        for event in sorted(here, key=lambda item: item.span.column != column):
            yield script, loop, event


def thinned(
    source: Source, path: str, line: int, column: int, period: int, *, block: bool = False, last: bool = False
) -> tuple[Edit, ...]:
    """Edits that make what stands at a place run every `period` passes of the loop that reaches it.

    Where several calls lead there (a helper that prints), the one that runs most often is meant.
    """
    found = list(events_at(source, path, line, column))
    told = [item for item in found if step_period(item[2]) is not None]
    for script, loop, event in sorted(told, key=lambda item: step_period(item[2]) or 0) or found:
        edits = less_often(script, loop, event, period, block=block, last=last)
        if edits:
            return edits
    return ()


def thinned_everywhere(source: Source, path: str, line: int, column: int, period: int) -> tuple[Edit, ...]:
    """Edits that make what stands at a place run every `period` passes, whichever call leads to it.

    Nothing if one of these calls cannot wait: an edit of the others would leave it.
    """
    found: dict[Edit, None] = {}
    ways: set[object] = set()
    for script, loop, event in events_at(source, path, line, column):
        often = step_period(event)
        if event.span.column != column or event.via in ways or often is None or often >= period:
            continue
        ways.add(event.via)
        edits = less_often(script, loop, event, period)
        if not edits:
            return ()
        found |= dict.fromkeys(edits)
    return tuple(found)


def less_often(
    script: Script, loop: Loop, event: Event, period: int, *, block: bool = False, last: bool = False
) -> tuple[Edit, ...]:
    """Edits that make an event run every `period` passes: its guard's number, or a guard around it.

    Nothing where the statement's value is used, where it shares its guard with other work (unless the whole
    `block` is meant), or where the passes cannot be counted. With `last` it also runs once after the loop, and
    nothing is edited where that cannot be written. `script` is the one that holds the loop.
    """
    guards = [guard for guard in event.guards if guard.kind is GuardKind.PERIOD]
    head = loop_node(script, loop)
    if (step_period(event) or 0) >= period:
        return ()  # it is that seldom already, and a smaller number would make it more
    if guards:
        return _number(script, event, guards[0], period, block=block, head=head if last else None)
    if head is None:
        return ()
    for place in _places(script, loop, head, event):
        found = counter_at(script, loop, head, place)
        edits = _guarded(script, place, found, period) if found is not None else ()
        if edits:
            more = once_more(script, head, [place]) if last else ()
            return () if more is None else (*edits, *more)
    return ()


def _number(
    script: Script, event: Event, guard: Guard, period: int, *, block: bool, head: LoopNode | None
) -> tuple[Edit, ...]:
    """The number of a guard, or the default of its option; with a `head` once more after that loop."""
    node = _guard_node(script, guard)
    more = once_more(script, head, node.body) if head is not None and node is not None else ()
    option = option_of(event)
    if more is None or (node is None and (head is not None or not option)):
        return ()
    if option:
        return (*_default(script, option, period), *more)
    if node is None or (not block and (node.orelse or not all(_waits(script, item) for item in node.body))):
        return ()
    number = modulus(node.test)
    return (replace_node(script, number, str(period)), *more) if number is not None else ()


def _guard_node(script: Script, guard: Guard) -> ast.If | None:
    said = {guard.text, _plain(guard.text)}
    here = (node for node in nodes(script, ast.If) if node.test.lineno == guard.line)
    return next((node for node in here if ast.unparse(node.test) in said), None)


def _waits(script: Script, item: ast.stmt) -> bool:
    """Whether a statement of a guarded block may come less often with the others."""
    return isinstance(item, ast.Expr) or (isinstance(item, ast.For) and _only_watches(script, item))


def _plain(text: str) -> str:
    """An expression as `ast.unparse` writes it."""
    try:
        return ast.unparse(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError):
        return text


def modulus(test: ast.expr) -> ast.Constant | None:
    """The written number of `step % 20 == 0`."""
    for part in walk(test):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and isinstance(part.right, ast.Constant):
            return part.right
    return None


def _default(script: Script, option: str, period: int) -> tuple[Edit, ...]:
    for call in script.calls_to(".add_argument"):
        names = [item.value for item in call.node.args if isinstance(item, ast.Constant)]
        default = keyword_value(call.node, "default")
        if option in names and isinstance(default, ast.Constant):
            place = call.span
            return (
                KeywordEdit(path=script.path, line=place.line, column=place.column, set=(("default", str(period)),)),
            )
    return ()


def _places(script: Script, loop: Loop, head: LoopNode, event: Event) -> Iterator[ast.stmt]:
    """Statements that could wait, innermost first: the event's, loops around it, calls that lead to it."""
    yield from _outwards(script, head, event.node if event.span.path == script.path else None)
    for depth in range(len(event.via), 0, -1):
        if not _watched(loop, event.via[:depth]):
            return
        span = event.via[depth - 1]
        if span.path == script.path:
            yield from _outwards(script, head, _call_at(script, span.line, span.column))


def _outwards(script: Script, head: LoopNode, node: ast.AST | None) -> Iterator[ast.stmt]:
    """The statement of a node, then the loops of its function around it that do nothing for the training."""
    place = statement(script, node) if node is not None else None
    if place is None:
        return
    yield place
    for above in enclosing(script, place):
        if above is head or isinstance(above, FUNCTIONS):
            return
        if isinstance(above, LoopNode):
            if not isinstance(above, ast.For) or not _only_watches(script, above):
                return
            yield above


def _call_at(script: Script, line: int, column: int) -> ast.Call | None:
    return next((call.node for call in script.calls if (call.span.line, call.span.column) == (line, column)), None)


def _watched(loop: Loop, via: tuple[object, ...]) -> bool:
    """Whether what a call leads to is no part of the training, and leaves no attribute behind."""
    inside = [event for event in loop.events if event.via[: len(via)] == via]
    return not any(_is_training(event.node) for event in inside)


def _is_training(node: ast.AST) -> bool:
    if is_method_call(node):
        return _TRAINS.fullmatch(node.func.attr) is not None
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and any(
        isinstance(target, ast.Attribute | ast.Subscript) for target in targets
    )


def _only_watches(script: Script, block: ast.For) -> bool:
    """Whether a loop in the pass does no part of the training, and no name that it binds is read elsewhere."""
    inside = list(walk(block))
    if any(_is_training(node) or isinstance(node, ast.Return | ast.Break | ast.Yield) for node in inside):
        return False
    stored = {node.id for node in inside if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    within, function = set(map(id, inside)), function_of(script, block)
    return not any(
        node.id in stored
        and isinstance(node.ctx, ast.Load)
        and id(node) not in within
        and function_of(script, node) is function
        for node in nodes(script, ast.Name)
    )


def _guarded(script: Script, place: ast.stmt, found: LoopCounter, period: int) -> tuple[Edit, ...]:
    """The statement under a condition; what it binds must be bound by the first pass."""
    if not isinstance(place, ast.Expr | ast.For) and not (isinstance(place, ast.Assign) and found.zero):
        return ()
    text = own_lines(script, place)
    if text is None or (isinstance(place, ast.Assign) and _steers(script, place)):
        return ()
    return (*found.edits, put_under(script, [place], f"if {found.name} % {period} == 0:"))


def _steers(script: Script, place: ast.Assign) -> bool:
    """Whether the training goes by what is bound, or what is bound works on each pass.

    `scheduler.step(val_loss)`, `loss.backward()` of a loss that was made from it, `with counter:`. What the
    last due pass has bound may be printed again on the others; it must not be trained on, entered or started.
    """
    bound = _made_from(script, place)
    trains = (call.node for call in script.calls if _is_training(call.node))
    works = (node.value.func for node in nodes(script, ast.Expr) if is_method_call(node.value))
    entered = (item.context_expr for node in nodes(script, ast.With, ast.AsyncWith) for item in node.items)
    return any(names_in(part) & bound for part in (*trains, *works, *entered))


def _made_from(script: Script, place: ast.Assign) -> set[str]:
    """The names that a statement of the function binds, and those that later ones make of them."""
    function, grown = function_of(script, place), True
    bound = {name for target in place.targets for name in names_in(target)}
    makers = [node for node in nodes(script, ast.Assign) if function_of(script, node) is function]
    while grown:
        new = {
            name
            for node in makers
            if names_in(node.value) & bound
            for target in node.targets
            if isinstance(target, ast.Name | ast.Tuple | ast.List)
            for name in names_in(target)
        }
        grown = not new <= bound
        bound |= new
    return bound


def indentation(script: Script, place: ast.stmt) -> str:
    """The white space before a statement that begins its line."""
    line = script.text.splitlines()[place.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def own_lines(script: Script, place: ast.stmt, *, waits: bool = True) -> str | None:
    """The text of a statement that has its lines for itself and can be indented; None otherwise.

    If it is to wait for a condition, None as well for one that makes a pass or a step, itself or in a function of the
    script.
    """
    if waits and _makes_steps(script, place):
        return None
    text = ast.get_source_segment(script.text, place) or ""
    lines = script.text.splitlines()
    first, last = lines[place.lineno - 1], lines[(place.end_lineno or place.lineno) - 1]
    head, _, _ = text.partition("\n")
    before, _, _ = first.partition(head)
    _, _, after = last.rpartition(text.split("\n")[-1])
    if not text or before.strip() or (after.strip() and not after.strip().startswith("#")):
        return None
    if "\n" in text and any(
        isinstance(part, ast.Constant | ast.JoinedStr) and part.lineno != part.end_lineno for part in walk(place)
    ):
        return None
    return text


def _makes_steps(script: Script, place: ast.stmt) -> bool:
    """Whether a statement calls a backward pass or an optimizer's step, or what does so in the script."""
    known: set[str] = set()
    todo: list[ast.AST] = [place]
    for part in todo:
        called = [node.func for node in walk(part) if isinstance(node, ast.Call)]
        if any(is_attribute(func, "backward", "manual_backward", "step") for func in called):
            return True
        new = {ast.unparse(func).rpartition(".")[2] for func in called} - known
        known |= new
        todo += [node for node in nodes(script, ast.FunctionDef) if node.name in new]
        for node in nodes(script, ast.Assign):  # fast = torch.compile(train_one)
            if isinstance(node.value, ast.Call) and new.intersection(map(ast.unparse, node.targets)):
                held = names_in(node.value)
                todo += [other for other in nodes(script, ast.FunctionDef) if other.name in held]
    return False


def once_more(script: Script, head: LoopNode, block: list[ast.stmt]) -> tuple[Edit, ...] | None:
    """Statements of a pass once more behind the outermost loop, so that the last state is kept.

    Conditions and contexts that hold nothing else come along: `if rank == 0:`. Nothing where the function does
    the same behind the loop or at the end of each epoch already; None where it cannot be written, or where
    another function saves too and may be called after the training.
    """
    outer: LoopNode = head
    for above in enclosing(script, head):
        if not isinstance(above, LoopNode):
            break
        outer = above
    inside = {id(part) for item in block for part in walk(item)}
    function = function_of(script, head)
    saves = [call.node for call in script.calls if _SAVES.search(call.method) and id(call.node) not in inside]
    if any(function_of(script, node) is function and node.lineno > (head.end_lineno or 0) for node in saves):
        return ()
    called = {ast.unparse(part.func).rpartition(".")[2] for part in _calls_in(block)}
    helpers = {node.name for node in nodes(script, ast.FunctionDef, ast.AsyncFunctionDef) if node.name in called}
    if any(_elsewhere(script, node, function, helpers, outer) for node in saves):
        return None
    whole = _with_conditions(script, head, block)
    texts = [own_lines(script, item) for item in whole]
    if not whole or None in texts:
        return None
    old, new = indentation(script, whole[0]), indentation(script, outer)
    lines = [line.removeprefix(old) for text in texts for line in (text or "").split("\n")]
    return (insert_after(script, outer, ("\n" + new).join(lines)),)


_SAVES = re.compile(r"save|checkpoint|ckpt|dump")


def _calls_in(block: list[ast.stmt]) -> Iterator[ast.Call]:
    return (part for item in block for part in walk(item) if isinstance(part, ast.Call))


def _elsewhere(script: Script, node: ast.AST, function: object, helpers: set[str], loop: LoopNode) -> bool:
    """Whether a save stands in a function other than the loop's that may run after the loop: not in one that
    the block itself calls, nor in one that only the loop calls.
    """
    own = function_of(script, node)
    name = getattr(own, "name", "")
    if own is function or name in helpers:
        return False
    last = loop.end_lineno or loop.lineno
    lines = [call.node.lineno for call in script.calls if call.method == name]
    if not lines:  # of a module whose functions others call; a script's own line is all that calls
        return function is not None
    return any(not loop.lineno <= line <= last for line in lines)


def _with_conditions(script: Script, head: LoopNode, block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements as they stand in the loop's body, or the condition that holds only them; else empty."""
    above = next(iter(enclosing(script, block[0])), None)
    if above is head:
        return block
    if not isinstance(above, ast.If | ast.With) or not any(item is above for item in head.body):
        return []
    if isinstance(above, ast.If) and (above.orelse or modulus(above.test) is not None):
        # The last time is an exception from the period, and from nothing else.
        return block if isinstance(above.test, ast.Compare) and not above.orelse else []
    return [above] if above.body == block else []


def entered_seldom(source: Source, path: str, line: int, column: int, period: int) -> tuple[Edit, ...]:
    """Edits that enter what a `with` of every pass makes only every `period` passes; its block runs as before.

    The statements after the block that read it go along. Nothing where the block itself reads it.
    """
    for script, loop, event in events_at(source, path, line, column):
        head, place = loop_node(script, loop), statement(script, event.node)
        if head is None or not isinstance(place, ast.With) or len(place.items) != 1:
            continue
        found, item = counter_at(script, loop, head, place), place.items[0]
        reads = _reads_after(script, place, item)
        if found is None or reads is None or item.context_expr is not event.node:
            continue
        if found.zero or all(isinstance(node, ast.Expr) for node in reads):
            under = [put_under(script, reads, f"if {found.name} % {period} == 0:")] if reads else []
            return (*found.edits, *_either(script, item.context_expr, found.name, period), *under)
    return ()


def _reads_after(script: Script, place: ast.With, item: ast.withitem) -> list[ast.stmt] | None:
    """The statements right behind a block that read what it has made; None where others do too."""
    if item.optional_vars is None:
        return []
    if not isinstance(item.optional_vars, ast.Name):
        return None
    name, function = item.optional_vars.id, function_of(script, place)
    readers = [
        node
        for node in nodes(script, ast.Name)
        if node.id == name and isinstance(node.ctx, ast.Load) and function_of(script, node) is function
    ]
    behind = _behind(script, place)
    near = [part for part in behind if any(node.id == name for node in walk(part) if isinstance(node, ast.Name))]
    wanted = behind[: len(near)]
    inside = {id(node) for part in wanted for node in walk(part)}
    simple = all(isinstance(part, ast.Expr | ast.Assign) and own_lines(script, part) for part in wanted)
    return wanted if near == wanted and simple and all(id(node) in inside for node in readers) else None


def _behind(script: Script, place: ast.stmt) -> list[ast.stmt]:
    """The statements of the same block that follow one."""
    above = next(iter(enclosing(script, place)), None)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list) and any(part is place for part in block):
            return block[next(at for at, part in enumerate(block) if part is place) + 1 :]
    return []


def _either(script: Script, maker: ast.expr, name: str, period: int) -> tuple[Edit, ...]:
    """`with maker if step % 500 == 0 else contextlib.nullcontext()`."""
    text = ast.get_source_segment(script.text, maker) or ""
    new = f"{text} if {name} % {period} == 0 else contextlib.nullcontext()"
    return (replace_node(script, maker, new), ImportEdit(path=script.path, statement="import contextlib"))
