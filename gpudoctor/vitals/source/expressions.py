# ruff: noqa: ARG001  (handlers share one signature)
"""What expressions give: literals, names, operators, comparisons, containers, parts of things."""

import ast
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from gpudoctor.model.signs.source import GuardKind, Known
from gpudoctor.vitals.source import conditions
from gpudoctor.vitals.source.calls import attribute, call
from gpudoctor.vitals.source.index import text_of
from gpudoctor.vitals.source.joins import join
from gpudoctor.vitals.source.operators import LARGEST, arithmetic
from gpudoctor.vitals.source.tensor_values import device_text, element
from gpudoctor.vitals.source.values import (
    BATCH,
    MISSING,
    NOTHING,
    NUMBER,
    TENSOR,
    WITH_A_GPU,
    AbstractValue,
    Meanings,
    Module,
    same_value,
    tensor,
    value_of,
)

if TYPE_CHECKING:
    from gpudoctor.vitals.source.program import SourceLookup


def _constant(program: "SourceLookup", module: Module, node: ast.Constant) -> AbstractValue:
    value = node.value
    if isinstance(value, (bool, float)) or value is None:
        return AbstractValue(value=value)
    if isinstance(value, int):
        return AbstractValue(value=value) if abs(value) < LARGEST else NUMBER
    if isinstance(value, str):
        return AbstractValue(value=value, device=device_text(value) if len(value) < 9 else None)
    return NOTHING


def _name(program: "SourceLookup", module: Module, node: ast.Name) -> AbstractValue:
    scope = module.home(node)
    found = program.look(scope, node.id, node)
    if found is None:
        return program.guessed(module, node.id, NOTHING)
    if found.attrs is not None and not isinstance(
        module.parents.get(node), ast.Attribute
    ):  # `args.device = torch.device(...)` somewhere in the same function
        given = {
            name[len(node.id) + 1 :]: bindings
            for name, bindings in scope.bindings.items()
            if name.startswith(node.id + ".") and name.count(".") == 1
        }
        place = (node.lineno, node.col_offset)
        before = {name: [one for one in bindings if one.end <= place] for name, bindings in given.items()}
        more = {name: program.bound(bindings[-1]) for name, bindings in before.items() if bindings}
        found = found.replace(attrs={**found.attrs, **more}) if more else found
    return program.guessed(module, node.id, found)


def _attribute(program: "SourceLookup", module: Module, node: ast.Attribute) -> AbstractValue:
    text = text_of(node)
    scope = module.home(node)
    bindings = scope.bindings.get(text) if text else None
    reaching, certain = program.reaching(scope, bindings, node) if bindings else ([], False)
    found = program.joined(reaching) if reaching else NOTHING
    if certain and found is not NOTHING:
        return found
    base = program.thing(module, node.value)
    held = attribute(program, base, node.attr)
    found = held if found is NOTHING else join(found, held)
    return program.guessed(module, node.attr, found) if base.ref is None else found


def _binary(program: "SourceLookup", module: Module, node: ast.BinOp) -> AbstractValue:
    # `a + b + c + ...` leans left: walked in a loop, so that a thousand terms are no recursion.
    chain = [node]
    left: ast.expr = node.left
    while isinstance(left, ast.BinOp):
        chain.append(left)
        left = left.left
    thing = program.thing(module, left)
    for part in reversed(chain):
        right = program.thing(module, part.right)
        result = arithmetic(part.op, thing, right)
        if isinstance(part.op, ast.Mod):
            result = result.replace(modulus=value_of(right, module.segment(part.right)))
        thing = result
    return thing


def _unary(program: "SourceLookup", module: Module, node: ast.UnaryOp) -> AbstractValue:
    thing = program.thing(module, node.operand)
    if isinstance(node.op, ast.Not):
        test = conditions.negate(conditions.meaning(node.operand, thing, module.segment(node.operand)))
        value = MISSING if thing.value is MISSING else not thing.value
        return AbstractValue(type="bool", value=value, origin=thing.origin, test=test, option=thing.option)
    if isinstance(thing.value, (int, float)) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return thing.replace(value=-thing.value if isinstance(node.op, ast.USub) else thing.value, test=None)
    return thing.replace(value=MISSING, test=None)


def _bool(program: "SourceLookup", module: Module, node: ast.BoolOp) -> AbstractValue:
    conjunction = isinstance(node.op, ast.And)
    things = [program.thing(module, operand) for operand in node.values]
    parts: list[Meanings] = [
        conditions.meaning(operand, thing, module.segment(operand))
        for operand, thing in zip(node.values, things, strict=True)
    ]
    if all(t.test is None and not t.known and t.type not in (None, "bool", "number") for t in things):
        return things[0]
    value: Any = MISSING
    if all(t.known for t in things):
        value = things[0].value
        for thing in things[1:]:
            if bool(value) is conjunction:
                value = thing.value
    last = things[-1] if not conjunction else NOTHING
    return AbstractValue(
        value=value,
        test=conditions.means_and(parts) if conjunction else conditions.means_or(parts),
        option=any(t.option for t in things),
        device=next((t.device for t in things if t.device), None),
        type=last.type if last.type not in ("bool", "number") else None,
        klass=last.klass,
        origin=next((t.origin for t in things if t.origin != "literal"), "literal"),
    )


def _compare(program: "SourceLookup", module: Module, node: ast.Compare) -> AbstractValue:
    things = [program.thing(module, part) for part in (node.left, *node.comparators)]
    identity = isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn))
    if not identity and (found := next((t for t in things if t.type in (TENSOR, BATCH)), None)):
        test = conditions.compared(node, things[0], things[1], "") if len(things) == 2 else None
        failed = test if test and test[0].kind is GuardKind.FAILURE else None
        return AbstractValue(type=TENSOR, device=found.device, test=failed)
    option = any(t.option for t in things)
    if len(things) != 2:
        return AbstractValue(type="bool", option=option)
    left, right = things
    return AbstractValue(
        type="bool",
        value=conditions.known_comparison(node.ops[0], left, right),
        origin=left.origin if left.origin != "literal" else right.origin,
        test=conditions.compared(node, left, right, module.segment(node)),
        option=option,
    )


def _conditional(program: "SourceLookup", module: Module, node: ast.IfExp) -> AbstractValue:
    thing, first, other = (program.thing(module, part) for part in (node.test, node.body, node.orelse))
    meaning = conditions.meaning(node.test, thing, module.segment(node.test))
    joined = join(first, other)
    if joined.device == "cpu" and not (first.device and other.device):  # the other one is unknown
        cards = any(isinstance(item.value, Known) and item.value.origin == WITH_A_GPU for item in meaning)
        joined = joined.replace(device="maybe-cuda" if cards else NOTHING.device)
    if joined.known and not same_value(first.value, other.value):
        joined = joined.replace(value=MISSING)
    return joined


def _tuple(program: "SourceLookup", module: Module, node: ast.Tuple | ast.List | ast.Set) -> AbstractValue:
    things: list[AbstractValue] = []
    loose = len(node.elts) > 100 or isinstance(node, ast.Set)
    for part in node.elts[:100]:
        thing = program.thing(module, part.value if isinstance(part, ast.Starred) else part)
        if isinstance(part, ast.Starred):
            loose = loose or thing.items is None
            things += thing.items or (element(thing),)
        else:
            things.append(thing)
    if loose:
        return AbstractValue(elem=reduce(join, things[:100]) if things else NOTHING)
    return AbstractValue(items=tuple(things), type="list" if isinstance(node, ast.List) else "tuple")


def _dict(program: "SourceLookup", module: Module, node: ast.Dict) -> AbstractValue:
    keys: dict[str, AbstractValue] = {}
    loose = False
    for key, part in zip(node.keys, node.values, strict=True):
        thing = program.thing(module, part)
        name = program.thing(module, key).value if key is not None else None
        if key is None:
            loose = loose or thing.keys is None or thing.open
            keys.update(thing.keys or {})
        elif isinstance(name, str) and len(keys) < 2000:
            keys[name] = thing
        else:
            loose = True
    return AbstractValue(type="dict", keys=keys, open=loose)


def _subscript(program: "SourceLookup", module: Module, node: ast.Subscript) -> AbstractValue:
    base, index = program.thing(module, node.value), program.thing(module, node.slice)
    if base.keys is not None:
        found = base.keys.get(index.value) if isinstance(index.value, str) else None
        if found is None and base.type == BATCH:
            return tensor(base.device)
        return found if found is not None else AbstractValue(option=base.option)
    if base.attrs is not None and isinstance(index.value, str):
        return base.attrs.get(index.value, AbstractValue(option=base.option))
    if base.items is not None:
        if isinstance(index.value, int) and -len(base.items) <= index.value < len(base.items):
            return base.items[index.value]
        return element(base) if not isinstance(node.slice, ast.Slice) else base.widened()
    if base.type in (TENSOR, BATCH):
        return tensor(base.device).replace(made=base.made)
    if base.ref == "os.environ":
        rank = isinstance(index.value, str) and index.value.endswith("RANK")
        return AbstractValue(type="rank" if rank else "str", option=True)
    if base.elem is not None:
        return base if isinstance(node.slice, ast.Slice) else base.elem
    return AbstractValue(option=base.option) if base.option else NOTHING


def _text(program: "SourceLookup", module: Module, node: ast.JoinedStr) -> AbstractValue:
    first = node.values[0].value if node.values and isinstance(node.values[0], ast.Constant) else None
    told = first.rstrip(":") if isinstance(first, str) and first.endswith(":") else ""
    return AbstractValue(type="str", device=device_text(told))


def _lambda(program: "SourceLookup", module: Module, node: ast.Lambda) -> AbstractValue:
    return AbstractValue(definition=module.scopes[node].function)


def _comprehension(
    program: "SourceLookup", module: Module, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> AbstractValue:
    if isinstance(node, ast.DictComp):
        return AbstractValue(type="dict", open=True, elem=NOTHING)
    return AbstractValue(elem=program.thing(module, node.elt))


def _inner(program: "SourceLookup", module: Module, node: ast.Await | ast.NamedExpr) -> AbstractValue:
    return program.thing(module, node.value)


def _starred(program: "SourceLookup", module: Module, node: ast.Starred) -> AbstractValue:
    return element(program.thing(module, node.value))


HANDLERS: dict[type[ast.AST], Callable[..., AbstractValue]] = {
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
    ast.Await: _inner,
    ast.NamedExpr: _inner,
}
