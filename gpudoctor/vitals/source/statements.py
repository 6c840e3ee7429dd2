"""Interpreting statements: bindings, branches, loops, definitions."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpudoctor.analysis.source.syntax import called_name, is_main_guard, names_in, walk
from gpudoctor.model.signs.source import GuardKind, Known, Unknown
from gpudoctor.vitals.source import class_model, conditions, imports
from gpudoctor.vitals.source.assignment_targets import assign, delete
from gpudoctor.vitals.source.expressions import evaluate
from gpudoctor.vitals.source.library import FAILED
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.scope import ScopeState, stores
from gpudoctor.vitals.source.tensor_values import element
from gpudoctor.vitals.source.values import (
    MANUAL,
    MISSING,
    NOTHING,
    AbstractValue,
    Condition,
    Function,
    LoopRecord,
    Mark,
    Meanings,
    value_of,
)

Handler = Callable[[SourceInterpreter, ScopeState, Any], bool]


def execute(program: SourceInterpreter, frame: ScopeState, body: Sequence[ast.stmt]) -> bool:
    """Interpret statements in order; True when their end is never reached (return, raise, continue...)."""
    ended = False
    for statement in body:
        handler = _HANDLERS.get(type(statement))
        if handler is not None and handler(program, frame, statement):
            ended = True  # what follows is dead, yet its calls are still resolved
    return ended


def _expr(program: SourceInterpreter, frame: ScopeState, node: ast.Expr) -> bool:
    value = node.value
    if isinstance(value, ast.Constant):
        return False
    if isinstance(value, ast.BoolOp):
        return _short_circuit(program, frame, value)
    thing = evaluate(program, frame, value)
    if isinstance(value, ast.Call):
        # As long as the block around it: `with` gives back what was before it. A bare no_grad() does nothing.
        switches: dict[str, list[ast.expr]] = {"enter_context": value.args[:1], "set_grad_enabled": [value]}
        for entered in switches.get(called_name(value), []):
            frame.no_grad = program.grad_mode(frame, entered, thing)
        return conditions.dotted(value.func) in ("sys.exit", "exit", "quit", "os._exit", "os.abort")
    return False


def _short_circuit(program: SourceInterpreter, frame: ScopeState, node: ast.BoolOp) -> bool:
    """`rank == 0 and wandb.log(...)` as a statement: each operand guards those after it."""
    height = len(frame.marks)
    for operand in node.values:
        thing = evaluate(program, frame, operand)
        text = frame.module.segment(operand)
        meaning = conditions.meaning(operand, thing, text)
        frame.open_guards(meaning if isinstance(node.op, ast.And) else conditions.negate(meaning), text, operand.lineno)
    del frame.marks[height:]
    return False


def _assign(program: SourceInterpreter, frame: ScopeState, node: ast.Assign) -> bool:
    thing = evaluate(program, frame, node.value)
    frame.add(node, graph=thing.graph)
    for target in node.targets:
        assign(program, frame, target, thing)
    return False


def _ann_assign(program: SourceInterpreter, frame: ScopeState, node: ast.AnnAssign) -> bool:
    annotated = program.annotation(frame, node.annotation)
    if node.value is None:
        if isinstance(node.target, ast.Name) and node.target.id not in frame.names:
            frame.bind(node.target.id, annotated)
        return False
    thing = evaluate(program, frame, node.value)
    frame.add(node, graph=thing.graph)
    if thing.type is None and thing.klass is None and not thing.known and (annotated.type or annotated.klass):
        thing = thing.replace(type=annotated.type, klass=annotated.klass)
    assign(program, frame, node.target, thing)
    return False


def _aug_assign(program: SourceInterpreter, frame: ScopeState, node: ast.AugAssign) -> bool:
    old = evaluate(program, frame, node.target)
    value = evaluate(program, frame, node.value)
    thing = program.arithmetic(node.op, old, value)
    target_is_gradient = isinstance(node.target, ast.Attribute) and node.target.attr == "grad"
    from_gradient = any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in walk(node.value))
    # `fisher[name] += p.grad ** 2` collects gradients and updates nothing.
    collects = isinstance(node.op, ast.Add) and isinstance(node.target, ast.Subscript)
    effect = MANUAL if from_gradient and not target_is_gradient and not collects else 0
    frame.add(node, graph=value.graph, effect=effect)
    assign(program, frame, node.target, thing)
    return False


def _if(program: SourceInterpreter, frame: ScopeState, node: ast.If) -> bool:
    if is_main_guard(node.test):
        ended = execute(program, frame, node.body)
        frame.start_branch()
        execute(program, frame, node.orelse)
        frame.end_branch()
        return ended and False
    frame.test(node.test)
    _told_by_body(program, frame, node.test, node.body)
    thing = evaluate(program, frame, node.test)
    frame.add(node.test)
    text = frame.module.segment(node.test)
    meaning = frame.told.get(id(node.test)) or conditions.meaning(node.test, thing, text)
    first, first_ended = _branch(program, frame, node.body, meaning, text, node.lineno)
    opposite = conditions.negate(meaning)
    other, other_ended = _branch(program, frame, node.orelse, opposite, text, node.lineno)
    unswitched = _unswitched(frame, ((meaning, first, other), (opposite, other, first)))
    frame.merge([None if first_ended else first, None if other_ended else other])
    for name, thing in unswitched.items():
        frame.bind(name, thing)
    if first_ended and not other_ended and _skips(frame, node.body):
        frame.open_guards(opposite, f"not ({text})", node.lineno)
    elif other_ended and not first_ended and _skips(frame, node.orelse):
        frame.open_guards(meaning, text, node.lineno)
    return first_ended and other_ended


def _unswitched(
    frame: ScopeState, arms: Sequence[tuple[Meanings, dict[str, AbstractValue], dict[str, AbstractValue]]]
) -> dict[str, AbstractValue]:
    """Names that only a branch that is off by default fills, as they are after both."""
    found: dict[str, AbstractValue] = {}
    for meaning, inside, beside in arms:
        off = conditions.switched_off(meaning)
        for name, thing in inside.items() if off else ():
            after = conditions.under_switch(beside.get(name) or frame.names.get(name), thing, off)
            if after is not None:
                found[name] = after
    return found


_REACHES = (ast.GtE, ast.Gt, ast.Eq)


def _told_by_body(program: SourceInterpreter, frame: ScopeState, test: ast.expr, body: Sequence[ast.stmt]) -> None:
    """Note what parts of a condition mean, as far as the body that they guard tells."""
    if isinstance(test, ast.BoolOp):
        for operand in test.values:
            _told_by_body(program, frame, operand, body)
    elif (meaning := counter_reset(program, frame, test, body)) is not None:
        frame.told[id(test)] = meaning


def counter_reset(
    program: SourceInterpreter, frame: ScopeState, test: ast.expr, body: Sequence[ast.stmt]
) -> Meanings | None:
    """`if count >= N: ...; count = 0`, `if not done: ...; done = True` and `if x is None: ...; x = make()`."""
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    name = test.operand if negated and isinstance(test, ast.UnaryOp) else test
    unset = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and _is_none(test.comparators[0])
    for statement in _in_order(body):
        if not isinstance(statement, ast.Assign):
            continue
        text = conditions.dotted(statement.targets[0])
        if isinstance(test, ast.Compare) and unset and text == conditions.dotted(test.left):
            return None if _is_none(statement.value) else (Condition(kind=GuardKind.ONCE),)
        if not isinstance(statement.value, ast.Constant):
            continue
        value = statement.value.value
        if isinstance(value, bool) and isinstance(name, ast.Name | ast.Attribute) and text == conditions.dotted(name):
            return (Condition(kind=GuardKind.ONCE),) if value is negated else None
        starts_over = value == 0 and isinstance(test, ast.Compare) and text == conditions.dotted(test.left)
        if starts_over and isinstance(test, ast.Compare) and isinstance(test.ops[0], _REACHES):
            bound = test.comparators[0]
            period = value_of(program.peek(frame, bound), frame.module.segment(bound))
            return (Condition(kind=GuardKind.PERIOD, period=period, subject=frozenset({text})),)
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _in_order(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run whenever the body does."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.With):
            yield from _in_order(statement.body)


def _skips(frame: ScopeState, body: Sequence[ast.stmt]) -> bool:
    """Whether a branch that ends does so by going on to the next pass (or back to the caller)."""
    last = body[-1] if body else None
    if isinstance(last, ast.Continue):
        return True
    return isinstance(last, ast.Return) and not frame.loops


def _branch(
    program: SourceInterpreter, frame: ScopeState, body: Sequence[ast.stmt], meanings: Meanings, text: str, line: int
) -> tuple[dict[str, AbstractValue], bool]:
    height = len(frame.marks)
    frame.start_branch()
    if body:
        frame.open_guards(meanings, text, line)
    evaluating = frame.evaluating
    ended = execute(program, frame, body)
    if ended:
        frame.evaluating = evaluating
    del frame.marks[height:]
    return frame.end_branch(), ended


def _for(program: SourceInterpreter, frame: ScopeState, node: ast.For | ast.AsyncFor) -> bool:
    source = evaluate(program, frame, node.iter)
    record = _open_loop(frame, node, frame.module.segment(node.iter), source)
    if (
        isinstance(node.iter, ast.Call)
        and isinstance(node.iter.func, ast.Name)
        and node.iter.func.id in ("range", "trange")
    ):
        bounds = node.iter.args
        if bounds:
            bound = bounds[0] if len(bounds) == 1 else bounds[1]
            end = value_of(program.peek(frame, bound), frame.module.segment(bound))
            start = program.peek(frame, bounds[0]).value if len(bounds) == 2 else 0
            if isinstance(end, Known) and type(end.value) is int and type(start) is int:
                end = replace(end, value=end.value - start)
            record.count = end
    record.targets = tuple(sorted(names_in(node.target)))
    frame.start_branch()
    assign(program, frame, node.target, element(source))
    execute(program, frame, node.body)
    _close_loop(frame, record, frame.end_branch())
    execute(program, frame, node.orelse)
    return False


def _while(program: SourceInterpreter, frame: ScopeState, node: ast.While) -> bool:
    record = _open_loop(frame, node, "", None)
    frame.start_branch()
    frame.test(node.test)
    evaluate(program, frame, node.test)
    frame.add(node.test)
    execute(program, frame, node.body)
    _close_loop(frame, record, frame.end_branch())
    execute(program, frame, node.orelse)
    return False


def _open_loop(frame: ScopeState, node: ast.AST, iterates: str, source: AbstractValue | None) -> LoopRecord:
    bound = stores(node)
    for name in bound:
        old = frame.names.get(name)
        if old is not None and (old.value is not MISSING or old.test or old.keys or old.items):
            vague = old.widened()
            frame.bind(name, vague.replace(option=False) if old.known else vague)
    record = LoopRecord(
        node=node,
        scope=frame.record,
        parents=tuple(frame.loops),
        base=len(frame.marks),
        stores=bound,
        span=frame.module.span(node),
        iterates=iterates,
        source=source,
        start=len(frame.record.items),
        no_grad=frame.no_grad > 0,
    )
    frame.record.loops.append(record)
    frame.loops.append(record)
    return record


def _close_loop(frame: ScopeState, record: LoopRecord, bound: dict[str, AbstractValue]) -> None:
    frame.loops.pop()
    del frame.marks[record.base :]
    record.end = len(frame.record.items)
    frame.merge([bound, {}])


def _with(program: SourceInterpreter, frame: ScopeState, node: ast.With | ast.AsyncWith) -> bool:
    before = frame.no_grad
    for item in node.items:
        thing = evaluate(program, frame, item.context_expr)
        if item.optional_vars is not None:
            assign(program, frame, item.optional_vars, program.entered(thing))
        frame.no_grad = program.grad_mode(frame, item.context_expr, thing)
    frame.add(node)
    ended = execute(program, frame, node.body)
    frame.no_grad = before
    return ended


def _try(program: SourceInterpreter, frame: ScopeState, node: ast.Try) -> bool:
    ended = execute(program, frame, node.body)
    outcomes: list[dict[str, AbstractValue] | None] = []
    for handler in node.handlers:
        height = len(frame.marks)
        frame.start_branch()
        if handler.type is not None:
            evaluate(program, frame, handler.type)
        text = f"except {frame.module.segment(handler.type)}" if handler.type is not None else "except"
        frame.marks.append(Mark(guard=FAILED.guard(text, handler.lineno)))
        failed = execute(program, frame, handler.body)
        del frame.marks[height:]
        bound = frame.end_branch()
        imports = "ImportError" in text or "ModuleNotFoundError" in text
        if not failed and not imports:
            outcomes.append(bound)
        elif imports and not failed:
            for name, thing in bound.items():
                if frame.names.get(name) is None:
                    frame.bind(name, thing)
    if outcomes:
        frame.merge([{}, *outcomes])
    execute(program, frame, node.orelse)
    execute(program, frame, node.finalbody)
    return ended and not outcomes


def _match(program: SourceInterpreter, frame: ScopeState, node: ast.Match) -> bool:
    subject = evaluate(program, frame, node.subject)
    text = frame.module.segment(node.subject)
    kind = GuardKind.SWITCH if subject.option or subject.known else GuardKind.OTHER
    meaning = (Condition(kind=kind, value=Unknown(text=text) if kind is GuardKind.SWITCH else None),)
    outcomes: list[dict[str, AbstractValue] | None] = [{}]
    for case in node.cases:
        if case.guard is not None:
            evaluate(program, frame, case.guard)
        bound, ended = _branch(program, frame, case.body, meaning, f"match {text}", case.pattern.lineno)
        outcomes.append(None if ended else bound)
    frame.merge(outcomes)
    return False


def _return(program: SourceInterpreter, frame: ScopeState, node: ast.Return) -> bool:
    thing = NOTHING if node.value is None else evaluate(program, frame, node.value)
    frame.add(node, graph=thing.graph)
    frame.give(thing)
    return True


def _raise(program: SourceInterpreter, frame: ScopeState, node: ast.Raise) -> bool:
    for part in (node.exc, node.cause):
        if part is not None:
            evaluate(program, frame, part)
    frame.add(node)
    return True


def _assert(program: SourceInterpreter, frame: ScopeState, node: ast.Assert) -> bool:
    frame.test(node.test)
    evaluate(program, frame, node.test)
    frame.add(node.test)
    if node.msg is not None:
        frame.quiet += 1
        evaluate(program, frame, node.msg)
        frame.quiet -= 1
    return False


def _delete(program: SourceInterpreter, frame: ScopeState, node: ast.Delete) -> bool:
    frame.add(node)
    for target in node.targets:
        delete(program, frame, target)
    return False


def _global(program: SourceInterpreter, frame: ScopeState, node: ast.Global | ast.Nonlocal) -> bool:
    del program
    (frame.globals if isinstance(node, ast.Global) else frame.nonlocals).update(node.names)
    return False


def _import(program: SourceInterpreter, frame: ScopeState, node: ast.Import | ast.ImportFrom) -> bool:
    imports.bring(program, frame, node)
    return False


def _function(program: SourceInterpreter, frame: ScopeState, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    function = class_model.define(program, frame, node)
    frame.bind(node.name, AbstractValue(definition=function))
    return False


def _class(program: SourceInterpreter, frame: ScopeState, node: ast.ClassDef) -> bool:
    klass = class_model.define_class(program, frame, node)
    frame.bind(node.name, AbstractValue(definition=klass))
    inner = ScopeState(frame.module, None, frame, klass.name)
    inner.klass = klass
    inner.quiet = 1
    execute(program, inner, node.body)
    for name, thing in inner.names.items():
        if isinstance(thing.definition, Function) and thing.definition.klass is None:
            thing.definition.klass = klass
        klass.members[name] = thing
    class_model.finish_class(program, inner, klass)
    return False


def _done(program: SourceInterpreter, frame: ScopeState, node: ast.stmt) -> bool:
    del program, frame, node
    return True


_HANDLERS: dict[type[ast.stmt], Handler] = {
    ast.Expr: _expr,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Delete: _delete,
    ast.Global: _global,
    ast.Nonlocal: _global,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Break: _done,
    ast.Continue: _done,
}
if hasattr(ast, "TryStar"):
    _HANDLERS[ast.TryStar] = _try
