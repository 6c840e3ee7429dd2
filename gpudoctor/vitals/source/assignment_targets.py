"""Binding things to assignment targets."""

import ast

from gpudoctor.vitals.source import conditions
from gpudoctor.vitals.source.joins import join
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.tensor_values import element
from gpudoctor.vitals.source.values import MISSING, NOTHING, AbstractValue, ClassSymbol, Condition, Meanings, Module


def assign(program: object, frame: ScopeState, target: ast.expr, thing: AbstractValue) -> None:
    """`target = thing`."""
    match target:
        case ast.Name(id=name):
            if thing.value is not MISSING and thing.origin == "literal":
                thing = thing.replace(origin="constant")
            frame.bind(name, thing)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            _unpack(program, frame, parts, thing)
        case ast.Starred(value=inner):
            assign(program, frame, inner, AbstractValue(elem=element(thing)))
        case ast.Attribute():
            _attribute(program, frame, target, thing)
        case ast.Subscript():
            _entry(program, frame, target, thing)


def _unpack(program: object, frame: ScopeState, parts: list[ast.expr], thing: AbstractValue) -> None:
    items = thing.items
    starred = next((i for i, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
    if items is not None and starred is None and len(items) == len(parts):
        for part, item in zip(parts, items, strict=True):
            assign(program, frame, part, item)
        return
    if items is not None and starred is not None and len(items) >= len(parts) - 1:
        after = len(parts) - starred - 1
        for part, item in zip(parts[:starred], items, strict=False):
            assign(program, frame, part, item)
        assign(program, frame, parts[starred], AbstractValue(items=items[starred : len(items) - after]))
        if after:
            for part, item in zip(parts[-after:], items[-after:], strict=True):
                assign(program, frame, part, item)
        return
    each = element(thing)
    for part in parts:
        assign(program, frame, part, each)


def read(frame: ScopeState, node: ast.expr) -> AbstractValue | None:
    """What a name or attribute holds, without evaluating anything."""
    if isinstance(node, ast.Name):
        return frame.look(node.id)
    if isinstance(node, ast.Attribute):
        base = read(frame, node.value)
        if base is None:
            return None
        if base.attrs is not None and node.attr in base.attrs:
            return base.attrs[node.attr]
        if base.klass is not None:
            return base.klass.attribute(node.attr)
        if isinstance(base.definition, Module) and base.definition.names is not None:
            return base.definition.names.get(node.attr)
        if isinstance(base.definition, ClassSymbol):
            return base.definition.member(node.attr)
    return None


def _attribute(program: object, frame: ScopeState, target: ast.Attribute, thing: AbstractValue) -> None:
    base = read(frame, target.value)
    if base is None:
        return
    if base.klass is not None and base.attrs is None:
        _into(base.klass.attrs, target.attr, thing, _switch(frame))
        return
    if isinstance(base.definition, ClassSymbol):
        _into(base.definition.members, target.attr, thing, _switch(frame))
        return
    if isinstance(base.definition, Module):
        if base.definition.names is not None:
            _into(base.definition.names, target.attr, thing, _switch(frame))
        return
    if base.attrs is not None:
        attrs = dict(base.attrs)
        attrs[target.attr] = thing
        _rebind(program, frame, target.value, base.replace(attrs=attrs))


def _switch(frame: ScopeState) -> Meanings:
    """The switch that is off by default and that the code here waits for; empty when it runs."""
    guard = next((mark.guard for mark in frame.marks if mark.guard.never), None)
    return () if guard is None else (Condition(kind=guard.kind, value=guard.value),)


def _into(attrs: dict[str, AbstractValue], name: str, thing: AbstractValue, off: Meanings) -> None:
    old = attrs.get(name)
    if old is None:
        # What only a switch fills is empty without it, whichever branch is read first.
        attrs[name] = thing.replace(value=MISSING, test=off) if off and conditions.fills(thing) else thing
        return
    waits = conditions.switched_off(old.test or ())
    after = None
    if off:
        after = conditions.under_switch(old, thing, off)
    elif waits and not old.known:
        after = conditions.under_switch(thing, old, waits)
    attrs[name] = join(old, thing) if after is None else after


def _rebind(program: object, frame: ScopeState, node: ast.expr, thing: AbstractValue) -> None:
    if isinstance(node, ast.Name):
        home = frame.home_of(node.id)
        if home is None or home is frame:
            frame.bind(node.id, thing)
        else:
            old = home.names[node.id]
            home.bind(node.id, join(old, thing))
    elif isinstance(node, ast.Attribute):
        _attribute(program, frame, node, thing)


def rebind(program: object, frame: ScopeState, node: ast.expr, thing: AbstractValue) -> None:
    """A name or attribute holds a changed object from now on (`model.to(device)`, `kwargs.update(...)`)."""
    if isinstance(node, ast.Name | ast.Attribute):
        _rebind(program, frame, node, thing)


def _entry(program: object, frame: ScopeState, target: ast.Subscript, thing: AbstractValue) -> None:
    base = read(frame, target.value)
    if base is None:
        return
    index = target.slice
    key = index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else None
    if base.keys is not None:
        if key is None:
            rebind(program, frame, target.value, base.widened().replace(open=True))
        elif len(base.keys) < 2000:
            rebind(program, frame, target.value, base.replace(keys={**base.keys, key: thing}))
    elif base.attrs is not None and key is not None:
        rebind(program, frame, target.value, base.replace(attrs={**base.attrs, key: thing}))
    elif base.items is not None:
        joined = element(base)
        rebind(program, frame, target.value, AbstractValue(type=base.type, elem=join(joined, thing)))


def delete(program: object, frame: ScopeState, target: ast.expr) -> None:
    """`del target`: the name holds nothing from here on."""
    del program
    if isinstance(target, ast.Name) and target.id in frame.names:
        frame.bind(target.id, NOTHING)
