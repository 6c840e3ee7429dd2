"""Questions of place that checks ask of a program: what encloses a call, what a block runs, what reaches it."""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.syntax import LoopNode, called_name, nodes, walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, Event, Guard, GuardKind, Known, Loop, Script, Source

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def enclosing(script: Script, node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node, innermost first, up to the module."""
    above = script.parents
    while node in above:
        node = above[node]
        yield node


def function_of(script: Script, node: ast.AST) -> Function | None:
    """The function whose body a node stands in; None at module level."""
    return next((item for item in enclosing(script, node) if isinstance(item, FUNCTIONS)), None)


def statement(script: Script, node: ast.AST) -> ast.stmt | None:
    """The statement that a node is or is part of."""
    if isinstance(node, ast.stmt):
        return node
    return next((item for item in enclosing(script, node) if isinstance(item, ast.stmt)), None)


def may_run(source: Source, span: SourceSpan) -> bool:
    """Whether something names the functions and classes around a line, as far as was read."""
    script = next((item for item in source.scripts if item.path == span.path), None)
    return script is None or not any(first <= span.line <= last for first, last in script.unused)


def bound_to(script: Script, node: ast.AST) -> str:
    """The name or attribute that a value is assigned to, `self.prof`, through `a if b else c`; else ""."""
    for above in enclosing(script, node):
        if isinstance(above, ast.Assign) and len(above.targets) == 1:
            return ast.unparse(_element(above.targets[0], above.value, node))
        if not isinstance(above, ast.IfExp | ast.Tuple):
            break
    return ""


def _element(target: ast.expr, value: ast.expr, node: ast.AST) -> ast.expr:
    """The part of `a, b = x, y` that a value goes to."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return next((name for name, item in zip(target.elts, value.elts, strict=True) if item is node), target)
    return target


def withs_of(script: Script, call: Call) -> Iterator[ast.With | ast.AsyncWith]:
    """The with statements that enter what a call makes: directly, or by the name it is bound to."""
    name = bound_to(script, call.node)
    for node in nodes(script, ast.With, ast.AsyncWith):
        for item in node.items:
            if item.context_expr is call.node or (name and ast.unparse(item.context_expr) == name):
                yield node


def trains_within(source: Source, script: Script, block: ast.AST) -> tuple[Script, Loop] | None:
    """A training loop that a block runs: one that stands in it, or in a function that it calls."""
    lines = range(getattr(block, "lineno", 1), (getattr(block, "end_lineno", 1) or 1) + 1)
    called = {(call.home, call.runs) for call in script.calls if call.span.line in lines and call.node is not block}
    for home, loop in source.training_loops:
        if (home is script and loop.span.line in lines) or (home.path, loop.function) in called:
            return home, loop
    return None


@once
def _calls_by_function(source: Source) -> Mapping[tuple[str, str], list[tuple[Script, Call]]]:
    """The calls of each function of the program."""
    found: dict[tuple[str, str], list[tuple[Script, Call]]] = {}
    for script in source.scripts:
        for call in script.calls:
            if call.runs:
                found.setdefault((call.home, call.runs), []).append((script, call))
    return found


def callers(source: Source, path: str, function: str) -> list[tuple[Script, Call]]:
    """The calls of a function of a file of the program from its other functions."""
    found = _calls_by_function(source).get((path, function), ()) if function else ()
    return [(script, call) for script, call in found if (script.path, call.function) != (path, function)]


def switched_off(source: Source, call: Call, depth: int = 4) -> bool:
    """Whether a call runs only when somebody turns a switch: behind one, or in a function reached only so.

    A switch whose default cannot be told counts as off: nobody could say that the call runs.
    """
    if any(rarely(guard) for guard in call.guards):
        return True
    return bool(call.function) and _all_sites(source, call.span.path, call.function, depth, switched_off)


@once
def _all_sites(source: Source, path: str, function: str, depth: int, off: Callable[[Source, Call, int], bool]) -> bool:
    """Whether a function is called, and all its calls are off."""
    sites = callers(source, path, function) if depth else ()
    return bool(sites) and all(off(source, other, depth - 1) for _, other in sites)


def never_runs(source: Source, call: Call, depth: int = 4) -> bool:
    """Whether defaults keep a call from running: a switch that is off, here or at all calls of its function."""
    if any(guard.never for guard in call.guards):
        return True
    return bool(call.function) and _all_sites(source, call.span.path, call.function, depth, never_runs)


def never_reached(source: Source, script: Script, node: ast.AST) -> bool:
    """Whether defaults keep the function around a node from running, at all its calls."""
    around = [item for item in enclosing(script, node) if isinstance(item, (*FUNCTIONS, ast.ClassDef))]
    if not around or not isinstance(around[0], ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    function = ".".join(getattr(item, "name", "") for item in reversed(around))
    return _all_sites(source, script.path, function, 5, never_runs)


def rarely(guard: Guard) -> bool:
    """Whether a condition may keep what it guards from running in the ordinary course."""
    if guard.mostly or guard.kind in {GuardKind.PERIOD, GuardKind.RANK}:
        return False
    return not (guard.kind is GuardKind.SWITCH and isinstance(guard.value, Known) and bool(guard.value.value))


def holds(guard: Guard) -> bool:
    """Whether a condition holds at some time of the run, as far as the source tells."""
    if guard.kind is GuardKind.SWITCH:
        return isinstance(guard.value, Known) and bool(guard.value.value)
    return guard.mostly or guard.kind in (GuardKind.RANK, GuardKind.PERIOD, GuardKind.ONCE)


def steady(event: Event) -> bool:
    """Whether an event belongs to the ordinary course of training: no evaluation, no failure, no off switch."""
    return not event.evaluation and not any(
        guard.kind in {GuardKind.FAILURE, GuardKind.ONCE} or guard.never for guard in event.guards
    )


@once
def bound(script: Script, loop: Loop) -> int | None:
    """How many passes a loop makes at most, where the text says so: `range(20)`, `if step >= 20: break`."""
    node = loop_node(script, loop)
    if node is None:
        return None
    inside = walk(node)
    ends = [1] if isinstance(node.body[-1], ast.Break) and not any(isinstance(p, ast.Continue) for p in inside) else []
    counted = {ast.unparse(part.target) for part in inside if isinstance(part, ast.AugAssign)}
    if isinstance(node, ast.For | ast.AsyncFor):
        called = {called_name(part): part for part in walk(node.iter) if isinstance(part, ast.Call)}
        if called.keys() & {"range", "trange", "enumerate", "count"}:
            counted.add(ast.unparse(node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target))
        for name, call in called.items():
            numbers = [_integer(script, item) for item in call.args]
            whole = [number for number in numbers if number is not None]
            if name in {"range", "trange"} and whole and len(whole) == len(numbers) <= 3 and 0 not in whole[2:]:
                ends.append(len(range(*whole)))
    for part in inside:
        test = part.test if isinstance(part, ast.If) and any(isinstance(i, ast.Break) for i in part.body) else None
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.GtE | ast.Gt | ast.Eq):
            names = {ast.unparse(item) for item in walk(test.left) if isinstance(item, ast.Name | ast.Attribute)}
            end = _integer(script, test.comparators[0])
            if names & counted and end is not None:
                ends.append(end)
    return min(ends, default=None)


def loop_node(script: Script, loop: Loop) -> LoopNode | None:
    """The syntax of a loop; None for an engine's."""
    return _loops_by_line(script).get(loop.span.line)


@once
def _loops_by_line(script: Script) -> Mapping[int, LoopNode]:
    """Loops by the line of their head; of two on one line, the outer."""
    loops = nodes(script, ast.For, ast.AsyncFor, ast.While)
    return {node.lineno: node for node in reversed(loops)}


def _integer(script: Script, node: ast.expr) -> int | None:
    """The whole number that an expression is by the text alone: no option of the command line."""
    value = script.thing(node).value
    written = isinstance(value, Known) and value.origin in ("literal", "constant")
    return value.value if written and isinstance(value, Known) and type(value.value) is int else None
