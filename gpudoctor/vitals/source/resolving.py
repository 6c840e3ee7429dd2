"""What a call calls: a library's function, one of the program's own, a method by its object's type."""

import ast
from dataclasses import dataclass

from gpudoctor.vitals.source.attributes import attribute
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.qualified_names import TENSOR_METHODS, canonical, guess, kind_of, method_name
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.values import BATCH, MODULE, NOTHING, TENSOR, AbstractValue, ClassSymbol, Function, Module

MOVES = frozenset(("to", "cuda", "cpu"))


SAME = frozenset(
    [
        "train",
        "eval",
        "half",
        "float",
        "bfloat16",
        "double",
        "requires_grad_",
        "apply",
        "share_memory",
        "compile",
        "zero_grad",
        "to_empty",
        "type",
    ]
)


_KNOWN_MODULE = MOVES | SAME


_AUTOGRAD = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class Resolved:
    """What a call calls."""

    name: str
    base: AbstractValue = NOTHING
    """The receiver of a method, or the object that is called."""
    callee: Function | None = None
    owner: AbstractValue | None = None
    """`self` for the callee."""
    klass: ClassSymbol | None = None
    """The program's own class that is instantiated."""
    called: bool = False
    """Whether the base itself is called (`model(x)`)."""
    context: bool = False
    """Whether the callee gets a context first (`forward` of an autograd function, by `apply`)."""


def resolve(program: SourceInterpreter, frame: ScopeState, node: ast.Call) -> Resolved:
    """What a call calls; the receiver is evaluated on the way."""
    func = node.func
    if isinstance(func, ast.Attribute):
        if isinstance(func.value, ast.Call) and isinstance(func.value.func, ast.Name) and func.value.func.id == "super":
            program.evaluate(frame, func.value)
            return _super(frame, func.attr)
        base = program.evaluate(frame, func.value)
        return _method(program, frame, base, func.attr)
    thing = program.evaluate(frame, func)
    label = func.id if isinstance(func, ast.Name) else f"?.{type(func).__name__.lower()}"
    if isinstance(func, ast.Name) and frame.look(label) is not None and label in program.builtins:
        label = f"{frame.module.name}.{label}"
    return _target(frame, thing, label)


def _super(frame: ScopeState, method: str) -> Resolved:
    scope: ScopeState | None = frame
    while scope is not None and (scope.function is None or scope.function.klass is None):
        scope = scope.outer
    if scope is None or scope.function is None or scope.function.klass is None:
        return Resolved(f"?.{method}")
    klass = scope.function.klass
    for parent in klass.lineage()[1:]:
        found = parent.members.get(method)
        if found is not None and isinstance(found.definition, Function):
            return Resolved(
                f"{parent.name}.{method}", callee=found.definition, owner=AbstractValue(klass=klass, type=klass.kind)
            )
    base = AbstractValue(type=klass.kind, klass=None)
    return Resolved(method_name(klass.kind, method) if klass.kind else f"?.{method}", base=base)


def _method(program: SourceInterpreter, frame: ScopeState, base: AbstractValue, method: str) -> Resolved:
    if base.ref is not None:
        return Resolved(canonical(f"{base.ref}.{method}"))
    definition = base.definition
    if isinstance(definition, Module):
        return _target(frame, program.member_of(definition, method), f"{definition.name}.{method}")
    if isinstance(definition, ClassSymbol):
        return _class_method(definition, base, method)
    if base.klass is not None:
        own = base.klass.method(method)
        if own is not None:
            return Resolved(f"{base.klass.name}.{method}", base=base, callee=own, owner=base)
        held = attribute(program, base, method)
        if held is not NOTHING and (held.definition or held.klass or held.type or held.ref):
            return _target(frame, held, f"{base.klass.name}.{method}")
    if base.type is not None:
        if kind_of(base.type) == MODULE and base.klass is None and method not in _KNOWN_MODULE:
            held = attribute(program, base, method)
            if held.type or held.definition:
                return _target(frame, held, method_name(base.type, method))
        return Resolved(_typed(base, method), base=base)
    if base.attrs is not None and method in base.attrs:
        return _target(frame, base.attrs[method], f"?.{method}")
    kind = guess(method) if frame.module.torch else None
    if kind == MODULE and base is NOTHING:
        return Resolved(f"{MODULE}.__call__", base=AbstractValue(type=MODULE, guessed=True), called=True)
    return Resolved(f"?.{method}", base=base)


def _typed(base: AbstractValue, method: str) -> str:
    if base.type == BATCH:
        return f"{TENSOR}.{method}" if method in TENSOR_METHODS else f"?.{method}"
    if base.type in ("number", "bool", "tuple", "list", "dict", "str"):
        return f"{'?' if base.type in ('number', 'bool') else base.type}.{method}"
    return method_name(base.type or "?", method)


def _class_method(klass: ClassSymbol, base: AbstractValue, method: str) -> Resolved:
    own = klass.method(method)
    if own is not None:
        owner = None if own.static else (base if own.bound_class else None)
        return Resolved(f"{klass.name}.{method}", callee=own, owner=owner)
    forward = klass.method("forward") if method == "apply" and _is_autograd(klass) else None
    if forward is not None:
        return Resolved(f"{klass.name}.apply", callee=forward, context=klass.method("setup_context") is None)
    if klass.kind and method in ("from_pretrained", "load_from_checkpoint", "from_config"):
        return Resolved(f"{klass.kind}.{method}", base=AbstractValue(type=klass.kind, klass=klass), klass=klass)
    return Resolved(f"{klass.name}.{method}")


def _is_autograd(klass: ClassSymbol) -> bool:
    """Whether a class is a function with a backward pass of its own."""
    return any(base.ref in _AUTOGRAD for part in klass.lineage() for base in part.bases)


def _target(frame: ScopeState, thing: AbstractValue, label: str) -> Resolved:
    if thing.ref is not None:
        return Resolved(canonical(thing.ref))
    definition = thing.definition
    if isinstance(definition, Function):
        name = label
        if definition.module is not frame.module and definition.klass is None:
            name = f"{definition.module.name}.{definition.name}"
        elif definition.klass is not None:
            name = f"{definition.klass.name}.{definition.short}"
        return Resolved(name, callee=definition, owner=thing.owner)
    if isinstance(definition, ClassSymbol):
        name = definition.name if definition.module is frame.module else f"{definition.module.name}.{definition.name}"
        return Resolved(name, klass=definition, callee=definition.method("__init__"))
    if thing.klass is not None:
        return _instance(thing, thing.klass)
    if thing.type is not None and thing.type not in ("number", "bool", "tuple", "list", "dict", "str", BATCH, TENSOR):
        return Resolved(method_name(thing.type, "__call__"), base=thing, called=True)
    return Resolved(label)


def _instance(thing: AbstractValue, klass: ClassSymbol) -> Resolved:
    module = kind_of(thing.type or klass.kind) == MODULE
    own = klass.method("forward") if module else klass.method("__call__")
    own = own or klass.method("__call__")
    name = f"{MODULE}.__call__" if module else f"{klass.name}.__call__"
    return Resolved(name, base=thing, callee=own, owner=thing, called=True)
