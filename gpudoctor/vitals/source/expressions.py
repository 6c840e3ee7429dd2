# ruff: noqa: ARG001  (handlers share one signature)
"""Evaluating expressions to things, recording the calls and tests on the way."""

import ast
from collections.abc import Callable
from typing import Any

from gpudoctor.model.signs.source import GuardKind
from gpudoctor.vitals.source import class_model, conditions
from gpudoctor.vitals.source.assignment_targets import assign
from gpudoctor.vitals.source.attributes import attribute
from gpudoctor.vitals.source.calls import call
from gpudoctor.vitals.source.joins import join
from gpudoctor.vitals.source.operators import LARGEST, arithmetic
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.qualified_names import guess
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.tensor_values import device_text, element
from gpudoctor.vitals.source.values import (
    BATCH,
    MISSING,
    NOTHING,
    NUMBER,
    TENSOR,
    AbstractValue,
    LoopRecord,
    Meanings,
    same_value,
    tensor,
    value_of,
)


def evaluate(program: SourceInterpreter, frame: ScopeState, node: ast.expr) -> AbstractValue:
    """What an expression gives; its calls and tests are recorded in order of evaluation."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return NOTHING
    program.depth += 1
    try:
        if program.depth > program.deepest:
            return NOTHING
        return handler(program, frame, node)
    finally:
        program.depth -= 1


def _constant(program: SourceInterpreter, frame: ScopeState, node: ast.Constant) -> AbstractValue:
    value = node.value
    if isinstance(value, bool | float) or value is None:
        return AbstractValue(value=value)
    if isinstance(value, int):
        return AbstractValue(value=value) if abs(value) < LARGEST else NUMBER
    if isinstance(value, str):
        return AbstractValue(value=value, device=device_text(value) if len(value) < 9 else None)
    return NOTHING


def _name(program: SourceInterpreter, frame: ScopeState, node: ast.Name) -> AbstractValue:
    found = frame.look(node.id)
    if found is None:
        return NOTHING
    if found is NOTHING or (found.type is None and found.klass is None and not found.known):
        return _guessed(frame, node.id, found)
    return found


def _guessed(frame: ScopeState, name: str, thing: AbstractValue) -> AbstractValue:
    if thing.ref or thing.definition or thing.items is not None or thing.keys is not None or thing.elem or thing.option:
        return thing
    kind = guess(name) if frame.module.torch else None
    return thing.replace(type=kind, guessed=True) if kind else thing


def _attribute(program: SourceInterpreter, frame: ScopeState, node: ast.Attribute) -> AbstractValue:
    base = evaluate(program, frame, node.value)
    found = attribute(program, base, node.attr)
    if found is NOTHING and base.ref is None:
        return _guessed(frame, node.attr, found)
    return found


def _binary(program: SourceInterpreter, frame: ScopeState, node: ast.BinOp) -> AbstractValue:
    # `a + b + c + ...` leans left: walked in a loop, so that a thousand terms are no recursion.
    chain = [node]
    left: ast.expr = node.left
    while isinstance(left, ast.BinOp):
        chain.append(left)
        left = left.left
    thing = evaluate(program, frame, left)
    for part in reversed(chain):
        right = evaluate(program, frame, part.right)
        result = arithmetic(part.op, thing, right)
        if isinstance(part.op, ast.Mod):
            result = result.replace(modulus=value_of(right, frame.module.segment(part.right)))
        elif isinstance(part.op, ast.BitAnd) and isinstance(right.value, int):
            period = right.replace(value=right.value + 1)
            result = result.replace(modulus=value_of(period, frame.module.segment(part.right)))
        thing = result
    return thing


def _unary(program: SourceInterpreter, frame: ScopeState, node: ast.UnaryOp) -> AbstractValue:
    thing = evaluate(program, frame, node.operand)
    if isinstance(node.op, ast.Not):
        text = frame.module.segment(node.operand)
        test = conditions.negate(conditions.meaning(node.operand, thing, text))
        value = MISSING if thing.value is MISSING else not thing.value
        return AbstractValue(type="bool", value=value, origin=thing.origin, test=test, option=thing.option)
    if isinstance(thing.value, int | float) and isinstance(node.op, ast.USub | ast.UAdd):
        return thing.replace(value=-thing.value if isinstance(node.op, ast.USub) else thing.value, test=None)
    return thing.replace(value=MISSING, test=None)


def _bool(program: SourceInterpreter, frame: ScopeState, node: ast.BoolOp) -> AbstractValue:
    conjunction = isinstance(node.op, ast.And)
    things, parts = _operands(program, frame, node, conjunction)
    option = any(t.option for t in things)
    plain = all(t.test is None and not t.known and t.type not in (None, "bool", "number") for t in things)
    if plain:
        return things[0]
    value: Any = MISSING
    if all(t.known for t in things):
        value = things[0].value
        for thing in things[1:]:
            if bool(value) is conjunction:
                value = thing.value
    test = conditions.means_and(parts) if conjunction else conditions.means_or(parts)
    device = next((t.device for t in things if t.device), None)
    last = things[-1] if not conjunction else NOTHING
    known_type = last.type if last.type not in ("bool", "number") else None
    return AbstractValue(
        value=value,
        test=test,
        option=option,
        device=device,
        type=known_type,
        klass=last.klass,
        origin=next((t.origin for t in things if t.origin != "literal"), "literal"),
    )


def _compare(program: SourceInterpreter, frame: ScopeState, node: ast.Compare) -> AbstractValue:
    things = [evaluate(program, frame, node.left)]
    things += [evaluate(program, frame, operand) for operand in node.comparators]
    if any(t.type in (TENSOR, BATCH) for t in things):
        identity = isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn)
        if not identity:
            first = next(t for t in things if t.type in (TENSOR, BATCH))
            test = conditions.compared(node, things[0], things[1], "") if len(things) == 2 else None
            failed = test if test and test[0].kind is GuardKind.FAILURE else None
            return AbstractValue(type=TENSOR, device=first.device, test=failed)
    option = any(t.option for t in things)
    if len(things) != 2:
        return AbstractValue(type="bool", option=option)
    left, right = things
    text = frame.module.segment(node)
    value = conditions.known_comparison(node.ops[0], left, right)
    origin = left.origin if left.origin != "literal" else right.origin
    test = conditions.compared(node, left, right, text)
    return AbstractValue(type="bool", value=value, origin=origin, test=test, option=option)


def _operands(
    program: SourceInterpreter, frame: ScopeState, node: ast.BoolOp, conjunction: bool
) -> tuple[list[AbstractValue], list[Meanings]]:
    """Each operand with what it means: one is only looked at when those before it do not settle the whole."""
    things: list[AbstractValue] = []
    parts: list[Meanings] = []
    height = len(frame.marks)
    for place, operand in enumerate(node.values):
        thing = evaluate(program, frame, operand)
        if place and id(node) in frame.tested and not isinstance(operand, ast.Call | ast.BoolOp):
            frame.add(operand)
        text = frame.module.segment(operand)
        meaning = frame.told.get(id(operand)) or conditions.meaning(operand, thing, text)
        things.append(thing)
        parts.append(meaning)
        let = meaning if conjunction else conditions.negate(meaning)
        frame.open_guards(let, text if conjunction else f"not ({text})", operand.lineno)
    del frame.marks[height:]
    return things, parts


def _conditional(program: SourceInterpreter, frame: ScopeState, node: ast.IfExp) -> AbstractValue:
    frame.test(node.test)
    thing = evaluate(program, frame, node.test)
    frame.add(node.test)
    text = frame.module.segment(node.test)
    meaning = conditions.meaning(node.test, thing, text)
    height = len(frame.marks)
    frame.open_guards(meaning, text, node.lineno)
    first = evaluate(program, frame, node.body)
    del frame.marks[height:]
    frame.open_guards(conditions.negate(meaning), text, node.lineno)
    other = evaluate(program, frame, node.orelse)
    del frame.marks[height:]
    written = thing.known and not thing.option and thing.origin == "literal"
    if written and first.device and other.device:
        return first if thing.value else other  # `"cuda" if settings.cuda else "cpu"`, with cuda=False above
    joined = join(first, other)
    if joined.known and not same_value(first.value, other.value):
        joined = joined.replace(value=MISSING)
    if first.known and isinstance(first.value, bool) and isinstance(other.value, bool) and first.value != other.value:
        joined = joined.replace(test=meaning if first.value else conditions.negate(meaning))
    return joined


def _tuple(program: SourceInterpreter, frame: ScopeState, node: ast.Tuple | ast.List | ast.Set) -> AbstractValue:
    things: list[AbstractValue] = []
    loose = False
    for part in node.elts:
        if isinstance(part, ast.Starred):
            thing = evaluate(program, frame, part.value)
            loose = loose or thing.items is None
            things += thing.items or (element(thing),)
        else:
            things.append(evaluate(program, frame, part))
    if loose or len(things) > 100 or isinstance(node, ast.Set):
        found = things[0] if things else NOTHING
        for thing in things[1:100]:
            found = join(found, thing)
        return AbstractValue(elem=found)
    return AbstractValue(items=tuple(things), type="list" if isinstance(node, ast.List) else "tuple")


def _dict(program: SourceInterpreter, frame: ScopeState, node: ast.Dict) -> AbstractValue:
    keys: dict[str, AbstractValue] = {}
    loose = False
    for key, part in zip(node.keys, node.values, strict=True):
        if key is None:
            thing = evaluate(program, frame, part)
            loose = loose or thing.keys is None or thing.open
            keys.update(thing.keys or {})
            continue
        name = evaluate(program, frame, key)
        value = evaluate(program, frame, part)
        if isinstance(name.value, str) and len(keys) < 2000:
            keys[name.value] = value
        else:
            loose = True
    return AbstractValue(type="dict", keys=keys, open=loose)


def _subscript(program: SourceInterpreter, frame: ScopeState, node: ast.Subscript) -> AbstractValue:
    base = evaluate(program, frame, node.value)
    index = evaluate(program, frame, node.slice)
    if base.keys is not None:
        found = base.keys.get(index.value) if isinstance(index.value, str) else None
        if found is None and base.type == BATCH:
            return tensor(base.device, base.graph)
        return found if found is not None else AbstractValue(option=base.option)
    if base.attrs is not None and isinstance(index.value, str):
        return base.attrs.get(index.value, AbstractValue(option=base.option))
    if base.items is not None:
        if isinstance(index.value, int) and -len(base.items) <= index.value < len(base.items):
            return base.items[index.value]
        return element(base) if not isinstance(node.slice, ast.Slice) else base.widened()
    if base.type in (TENSOR, BATCH):
        return tensor(base.device, base.graph)
    if base.ref == "os.environ":
        name = index.value if isinstance(index.value, str) else ""
        rank = name.endswith("RANK")
        return AbstractValue(type="rank" if rank else "str", option=True)
    if base.elem is not None:
        return base if isinstance(node.slice, ast.Slice) else base.elem
    return AbstractValue(option=base.option) if base.option else NOTHING


def _text(program: SourceInterpreter, frame: ScopeState, node: ast.JoinedStr) -> AbstractValue:
    device = None
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            evaluate(program, frame, part.value)
            if part.format_spec is not None:
                evaluate(program, frame, part.format_spec)
        elif isinstance(part, ast.Constant) and part is node.values[0] and isinstance(part.value, str):
            device = device_text(part.value.rstrip(":")) if part.value.endswith(":") else None
    return AbstractValue(type="str", device=device)


def _lambda(program: SourceInterpreter, frame: ScopeState, node: ast.Lambda) -> AbstractValue:
    return AbstractValue(definition=class_model.define(program, frame, node))


def _comprehension(
    program: SourceInterpreter, frame: ScopeState, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> AbstractValue:
    first = evaluate(program, frame, node.generators[0].iter)
    record = LoopRecord(
        node=node,
        scope=frame.record,
        parents=tuple(frame.loops),
        base=len(frame.marks),
        stores=frozenset(),
        span=frame.module.span(node),
        iterates=frame.module.segment(node.generators[0].iter),
        source=first,
        start=len(frame.record.items),
        comprehension=True,
    )
    frame.loops.append(record)
    frame.start_branch()
    for index, generator in enumerate(node.generators):
        source = first if index == 0 else evaluate(program, frame, generator.iter)
        assign(program, frame, generator.target, element(source))
        for test in generator.ifs:
            evaluate(program, frame, test)
            frame.add(test)
    if isinstance(node, ast.DictComp):
        evaluate(program, frame, node.key)
        inner = evaluate(program, frame, node.value)
        result = AbstractValue(type="dict", open=True, elem=NOTHING)
    else:
        inner = evaluate(program, frame, node.elt)
        result = AbstractValue(elem=inner)
    frame.end_branch()
    frame.loops.pop()
    record.end = len(frame.record.items)
    return result


def _starred(program: SourceInterpreter, frame: ScopeState, node: ast.Starred) -> AbstractValue:
    return element(evaluate(program, frame, node.value))


def _await(program: SourceInterpreter, frame: ScopeState, node: ast.Await) -> AbstractValue:
    return evaluate(program, frame, node.value)


def _yield(program: SourceInterpreter, frame: ScopeState, node: ast.Yield) -> AbstractValue:
    thing = evaluate(program, frame, node.value) if node.value is not None else NOTHING
    frame.yielded = thing if frame.yielded is None else join(frame.yielded, thing)
    return NOTHING


def _yield_from(program: SourceInterpreter, frame: ScopeState, node: ast.YieldFrom) -> AbstractValue:
    thing = element(evaluate(program, frame, node.value))
    frame.yielded = thing if frame.yielded is None else join(frame.yielded, thing)
    return NOTHING


def _named(program: SourceInterpreter, frame: ScopeState, node: ast.NamedExpr) -> AbstractValue:
    thing = evaluate(program, frame, node.value)
    assign(program, frame, node.target, thing)
    return thing


def _slice(program: SourceInterpreter, frame: ScopeState, node: ast.Slice) -> AbstractValue:
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            evaluate(program, frame, part)
    return NOTHING


_HANDLERS: dict[type[ast.expr], Callable[..., AbstractValue]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: call,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Set: _tuple,
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.JoinedStr: _text,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Starred: _starred,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.NamedExpr: _named,
    ast.Slice: _slice,
}
