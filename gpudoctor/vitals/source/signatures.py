"""Whether a call of the program's own function fits the function's parameters.

Only what is plain is judged: undecorated functions and constructors, called by a name, with arguments that are
all written there. What could be another function by the time of the call is left alone.
"""

import ast

from gpudoctor.model.signs.source import Misfit
from gpudoctor.vitals.source.resolving import Resolved
from gpudoctor.vitals.source.symbols import ClassSymbol, Function
from gpudoctor.vitals.source.values import NOTHING

_BINDERS = frozenset({"staticmethod", "classmethod"})
"""Decorators that only say what a method is bound to."""


def misfit(found: Resolved, node: ast.Call) -> Misfit | None:
    """What a call gives that its function cannot take; None where it fits, and where that cannot be told."""
    if any(isinstance(item, ast.Starred) for item in node.args) or any(not item.arg for item in node.keywords):
        return None
    target = _target(found)
    if target is None or not isinstance(target[0].node, ast.FunctionDef):
        return None
    function, own = target
    spec = function.node.args
    places = [item.arg for item in (*spec.posonlyargs, *spec.args)][own:]
    named = {item.arg for item in (*spec.args, *spec.kwonlyargs)}
    keywords = [item.arg for item in node.keywords if item.arg]
    given = {*places[: len(node.args)], *keywords}
    optional = set(places[len(places) - len(spec.defaults) :]) if spec.defaults else set()
    required = [name for name in places if name not in optional]
    required += [
        item.arg for item, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None
    ]
    missing = tuple(name for name in required if name not in given)
    unknown = tuple(name for name in keywords if name not in named) if spec.kwarg is None else ()
    surplus = max(0, len(node.args) - len(places)) if spec.vararg is None else 0
    if not (missing or unknown or surplus):
        return None
    return Misfit(
        missing=missing,
        unknown=unknown,
        surplus=surplus,
        name=found.klass.name if found.klass is not None else function.name,
        definition=function.module.span(function.node),
    )


def _target(found: Resolved) -> tuple[Function, int] | None:
    """The function that runs, with how many of its parameters Python fills itself."""
    if found.called or found.context:
        return None  # `model(x)` and `apply` go through code of torch
    if found.klass is not None:
        if found.base is not NOTHING:
            return None  # `Model.from_pretrained(path)` is not the constructor
        made = _constructor(found.klass)
        return (made, 1) if made is not None else None
    function = found.callee
    if function is None or not isinstance(function.node, ast.FunctionDef):
        return None
    bound = found.owner is not None
    if (bound and not function.bound_class) or not _is_plain(function):
        return None  # a method of an object may be that of another class by then
    return function, 1 if function.bound_class else 0


def _constructor(klass: ClassSymbol) -> Function | None:
    """The `__init__` that certainly runs when a class is called."""
    for _ in range(20):
        if klass.node.decorator_list or klass.node.keywords or "__new__" in klass.members or klass.data:
            return None
        own = klass.members.get("__init__")
        if own is not None:
            function = own.definition
            if not isinstance(function, Function) or not isinstance(function.node, ast.FunctionDef):
                return None
            return function if not function.node.decorator_list and _is_only(function) else None
        bases = [base.definition for base in klass.bases]
        if len(bases) != 1 or len(klass.node.bases) != 1 or not isinstance(bases[0], ClassSymbol):
            return None
        klass = bases[0]
    return None


def _is_plain(function: Function) -> bool:
    node = function.node
    if not isinstance(node, ast.FunctionDef):
        return False
    binders = [item.id for item in node.decorator_list if isinstance(item, ast.Name)]
    return len(binders) == len(node.decorator_list) and set(binders) <= _BINDERS and _is_only(function)


def _is_only(function: Function) -> bool:
    """Whether nothing else of its class goes by a method's name: a property's setter, an overload."""
    if function.klass is None:
        return True
    names = [item.name for item in function.klass.node.body if isinstance(item, ast.FunctionDef)]
    return names.count(function.short) == 1
