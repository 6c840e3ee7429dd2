"""What a call calls and gives: a library's function, one of the program's own, a method by its object's type."""

import ast
from typing import TYPE_CHECKING

from gpudoctor.analysis.source.syntax import last_name, words
from gpudoctor.model.signs.source import Misfit
from gpudoctor.vitals.source import library, settings, tensor_values
from gpudoctor.vitals.source.qualified_names import TENSOR_METHODS, canonical, kind_of, method_name
from gpudoctor.vitals.source.values import (
    BATCH,
    DATASET,
    DEVICE,
    LOADER,
    MISSING,
    MODULE,
    NOTHING,
    NUMBER,
    OPTIMIZER,
    TENSOR,
    AbstractValue,
    ClassSymbol,
    Function,
    Module,
    Scope,
    lean,
    tensor,
)

_MOVES = frozenset(("to", "cuda", "cpu"))
_SAME = words("train eval half float bfloat16 double requires_grad_ apply share_memory compile zero_grad to_empty type")

if TYPE_CHECKING:
    from gpudoctor.vitals.source.program import SourceLookup
_AUTOGRAD = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_PLAIN_TYPES = ("number", "bool", "tuple", "list", "dict", "str")
_PLAIN = frozenset(["shape", "dtype", "ndim", "is_cuda", "requires_grad", "grad_fn", "is_leaf", "names", "layout"])
_BINDERS = frozenset({"staticmethod", "classmethod"})
"""Decorators that only say what a method is bound to."""


@lean
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


def resolve(program: "SourceLookup", module: Module, node: ast.Call) -> Resolved:
    """What a call calls."""
    func = node.func
    if isinstance(func, ast.Attribute):
        if isinstance(func.value, ast.Call) and last_name(func.value.func) == "super":
            return _super(module, node, func.attr)
        return _method(program, module, program.thing(module, func.value), func.attr)
    thing = program.thing(module, func)
    label = func.id if isinstance(func, ast.Name) else f"?.{type(func).__name__.lower()}"
    if isinstance(func, ast.Name) and label in program.builtins:
        if program.look(module.home(func), label, func) is None:
            if label in ("isinstance", "print", "len", "range"):
                return Resolved(label)
        else:
            label = f"{module.name}.{label}"
    return _target(module, thing, label)


def _super(module: Module, node: ast.Call, method: str) -> Resolved:
    scope: Scope | None = module.home(node)
    while scope is not None and (scope.function is None or scope.function.klass is None):
        scope = scope.outer
    klass = scope.function.klass if scope is not None and scope.function is not None else None
    if klass is None:
        return Resolved(f"?.{method}")
    for parent in klass.lineage()[1:]:
        if method in parent.methods:
            owner = AbstractValue(klass=klass, type=klass.kind)
            return Resolved(f"{parent.name}.{method}", callee=parent.methods[method], owner=owner)
    name = method_name(klass.kind, method) if klass.kind else f"?.{method}"
    return Resolved(name, base=AbstractValue(type=klass.kind))


def _method(program: "SourceLookup", module: Module, base: AbstractValue, method: str) -> Resolved:
    if base.ref is not None:
        return Resolved(canonical(f"{base.ref}.{method}"))
    definition = base.definition
    if isinstance(definition, Module):
        return _target(module, program.member(definition, method), f"{definition.name}.{method}")
    if isinstance(definition, ClassSymbol):
        return _class_method(definition, base, method)
    if base.klass is not None:
        own = base.klass.method(method)
        if own is not None:
            return Resolved(f"{base.klass.name}.{method}", base=base, callee=own, owner=base)
        held = attribute(program, base, method)
        if held is not NOTHING and (held.definition or held.klass or held.type or held.ref):
            return _target(module, held, f"{base.klass.name}.{method}")
    if base.type is not None:
        return Resolved(_typed(base, method), base=base)
    return Resolved(f"?.{method}", base=base)


def _typed(base: AbstractValue, method: str) -> str:
    if base.type == BATCH:
        return f"{TENSOR}.{method}" if method in TENSOR_METHODS else f"?.{method}"
    if base.type in _PLAIN_TYPES:
        return f"{'?' if base.type in ('number', 'bool') else base.type}.{method}"
    return method_name(base.type or "?", method)


def _class_method(klass: ClassSymbol, base: AbstractValue, method: str) -> Resolved:
    own = klass.method(method)
    if own is not None:
        owner = base if own.bound_class else None
        return Resolved(f"{klass.name}.{method}", callee=own, owner=owner)
    forward = klass.method("forward") if method == "apply" else None
    if forward is not None and any(b.ref in _AUTOGRAD for part in klass.lineage() for b in part.bases):
        return Resolved(f"{klass.name}.apply", callee=forward, context=klass.method("setup_context") is None)
    if klass.kind and method in ("from_pretrained", "load_from_checkpoint", "from_config"):
        return Resolved(f"{klass.kind}.{method}", base=AbstractValue(type=klass.kind, klass=klass), klass=klass)
    return Resolved(f"{klass.name}.{method}")


def _target(module: Module, thing: AbstractValue, label: str) -> Resolved:
    if thing.ref is not None:
        return Resolved(canonical(thing.ref))
    definition = thing.definition
    if isinstance(definition, Function):
        name = label
        if definition.klass is not None:
            name = f"{definition.klass.name}.{definition.short}"
        elif definition.module is not module:
            name = f"{definition.module.name}.{definition.name}"
        return Resolved(name, callee=definition, owner=thing.owner)
    if isinstance(definition, ClassSymbol):
        name = definition.name if definition.module is module else f"{definition.module.name}.{definition.name}"
        return Resolved(name, klass=definition, callee=definition.method("__init__"))
    if thing.klass is not None:
        is_module = kind_of(thing.type or thing.klass.kind) == MODULE
        own = (thing.klass.method("forward") if is_module else None) or thing.klass.method("__call__")
        name = f"{MODULE}.__call__" if is_module else f"{thing.klass.name}.__call__"
        return Resolved(name, base=thing, callee=own, owner=thing, called=True)
    if thing.type is not None and thing.type not in (*_PLAIN_TYPES, BATCH, TENSOR):
        return Resolved(method_name(thing.type, "__call__"), base=thing, called=True)
    return Resolved(label)


# attributes


def attribute(program: "SourceLookup", base: AbstractValue, name: str) -> AbstractValue:
    """`base.name`; NOTHING when it cannot be told."""
    if base.ref is not None:
        return AbstractValue(ref=canonical(f"{base.ref}.{name}"))
    definition = base.definition
    if isinstance(definition, Module):
        return program.member(definition, name)
    if isinstance(definition, ClassSymbol):
        found = program.member_of(definition, name)
        if found is None and definition.data:
            found = program.fields(definition).get(name)
        found = found or NOTHING
        return found.replace(owner=base) if isinstance(found.definition, Function) else found
    if base.attrs is not None and name in base.attrs:
        return base.attrs[name]
    if base.klass is not None:
        found = _of_instance(program, base, base.klass, name)
        if found is not None:
            return found
    if base.keys is not None:
        return NOTHING
    if base.type is not None:
        return _of_type(base, name)
    return AbstractValue(option=True) if base.option else NOTHING


def _of_instance(program: "SourceLookup", base: AbstractValue, klass: ClassSymbol, name: str) -> AbstractValue | None:
    found = program.attribute_of(klass, name)
    if found is not None:
        if base.device and (found.type == "torch.nn.Parameter" or kind_of(found.type) == MODULE):
            return found.replace(device=base.device)
        return found
    method = klass.method(name)
    if method is not None:
        return program.returned(method) if method.is_property else AbstractValue(definition=method, owner=base)
    if klass.data:
        return program.fields(klass).get(name)
    return program.member_of(klass, name)


def _of_type(base: AbstractValue, name: str) -> AbstractValue:
    kind = kind_of(base.type)
    if kind == TENSOR or base.type == BATCH:
        if name in _PLAIN:
            return NOTHING
        if name == "device":
            return AbstractValue(type=DEVICE, device=base.device)
        return tensor(base.device)
    if base.type == DEVICE:
        return AbstractValue(type="torch.device.type", device=base.device) if name == "type" else NUMBER
    if kind == MODULE and name in ("weight", "bias"):
        return tensor(base.device)
    if kind == MODULE and name == "module":
        return base.replace(type=base.klass.kind if base.klass is not None else MODULE)
    if name == "device" and (base.device or kind == MODULE):
        return AbstractValue(type=DEVICE, device=base.device)
    if kind == LOADER and name == "dataset":
        return AbstractValue(type=DATASET)
    return AbstractValue(option=True) if base.option and kind != MODULE else NOTHING


# results


def arguments(
    program: "SourceLookup", module: Module, node: ast.Call
) -> tuple[list[AbstractValue], dict[str, AbstractValue]]:
    """What a call is given, by place and by keyword; `*` and `**` spread as far as they can be told."""
    positional: list[AbstractValue] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            items = program.thing(module, arg.value).items
            if items is None:
                break
            positional += items
        else:
            positional.append(program.thing(module, arg))
    keywords: dict[str, AbstractValue] = {}
    for keyword in node.keywords:
        thing = program.thing(module, keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = thing
        else:
            keywords |= thing.keys if thing.keys is not None else thing.attrs or {}
    return positional, keywords


def call(program: "SourceLookup", module: Module, node: ast.Call) -> AbstractValue:
    """What a call gives."""
    found = program.resolve(module, node)
    args, keywords = arguments(program, module, node)
    if found.klass is not None:
        return _construct(program, module, found.klass, args, keywords, node)
    made = settings.call_result(program, module, node, found.name, found.base, args, keywords)
    if made is not None:
        return made
    returned = NOTHING
    if found.callee is not None:
        returned = program.returned(found.callee)
        if returned.elem is not None and returned.type is None:
            # A generator of the program draws from the loader that it is given.
            loader = next((t for t in args if kind_of(t.type) == LOADER), None)
            returned = returned if loader is None else returned.replace(over=loader)
    if found.called and kind_of(found.base.type) == MODULE:
        return _output(found.base, args, keywords, returned)
    if found.callee is not None:
        return returned
    if found.base is not NOTHING and not found.called and isinstance(node.func, ast.Attribute):
        return _of_method(found, node, args, keywords)
    given = library.call_result(found.name, args, keywords, node)
    collates = keywords["collate_fn"].definition if given.elem is not None and "collate_fn" in keywords else None
    return given.replace(elem=_collated(program, collates)) if isinstance(collates, Function) else given


def _collated(program: "SourceLookup", function: Function) -> AbstractValue:
    """A batch, in which the lists of the dict that the collate function returns are no tensors."""
    keys = program.returned(function).keys or {}
    made = [key for key, part in keys.items() if part.type == "list" or (part.elem is not None and part.type is None)]
    lists = {key: AbstractValue(type="list") for key in made}
    return AbstractValue(type=BATCH, device="cpu", keys=lists or None, open=bool(lists))


def _construct(
    program: "SourceLookup",
    module: Module,
    klass: ClassSymbol,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
    node: ast.Call,
) -> AbstractValue:
    """An instance of one of the program's own classes."""
    kind = kind_of(klass.kind)
    made = AbstractValue(type=klass.kind, klass=klass, device="cpu" if kind == MODULE else None, made=(node,))
    if klass.data and klass.method("__init__") is None:
        fields = program.fields(klass)
        spread = [item.value for item in node.keywords if item.arg is None]
        loose = any((held := program.thing(module, item)).open or (held.keys is None and held.attrs is None)
                    for item in spread)  # fmt: skip
        values = {name: thing.widened() for name, thing in fields.items()} if loose else dict(fields)
        values |= dict(zip(fields, args, strict=False)) | keywords
        return made.replace(attrs=values, option=True)
    if kind in (DATASET, LOADER):
        return made.replace(elem=AbstractValue(type=BATCH, device="cpu"))
    return made


def _output(
    model: AbstractValue, args: list[AbstractValue], keywords: dict[str, AbstractValue], returned: AbstractValue
) -> AbstractValue:
    """A forward pass gives tensors on the model's device."""
    device = model.device if model.device and model.device != "cpu" else None
    device = device or tensor_values.device_among([*args, *keywords.values()], {}) or model.device
    if returned.items is not None:
        return AbstractValue(items=tuple(_placed(item, device) for item in returned.items))
    return tensor(device) if returned.type is None else _placed(returned, device)


def _placed(thing: AbstractValue, device: str | None) -> AbstractValue:
    if thing is NOTHING or thing.type == TENSOR:
        return tensor(device if device and device != "cpu" else thing.device or device)
    return thing


def _of_method(
    found: Resolved, node: ast.Call, args: list[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    """What a method call on an object of a known kind gives."""
    base, method = found.base, found.name.rpartition(".")[2]
    kind = kind_of(base.type)
    if kind == TENSOR or base.type == BATCH:
        return tensor_values.tensor_method(base, method, _named_devices(node, args), keywords)
    if kind == MODULE:
        if method in _MOVES:
            return tensor_values.moved(base, method, _named_devices(node, args), keywords)
        if method in _SAME:
            return base
        if method in ("parameters", "buffers"):
            return AbstractValue(elem=AbstractValue(type="torch.nn.Parameter", device=base.device))
        if method in ("generate", "forward"):
            return tensor(base.device)
        return NOTHING
    if kind in (LOADER, OPTIMIZER):
        return NOTHING
    if base.keys is not None:
        return _dict_method(base, method, args)
    if base.items is not None or base.elem is not None:
        if method in ("pop", "popleft", "get", "__next__"):
            return tensor_values.element(base)
        return base if method in ("values", "items", "copy", "__iter__") else NOTHING
    gathers = ("gather", "gather_for_metrics", "reduce", "pad_across_processes")
    scaler = base.type in ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler")
    if (base.type == "accelerate.Accelerator" and method in gathers) or (scaler and method == "scale"):
        return args[0] if args else NOTHING
    result = library.call_result(found.name, args, keywords, node)
    return AbstractValue(option=True) if result is NOTHING and base.option and not scaler else result


def _named_devices(node: ast.Call, args: list[AbstractValue]) -> list[AbstractValue]:
    """Device arguments that nothing is known about, told by their names (`.to(rank)`, `.to(device)`)."""
    named = list(args)
    for index, (arg, thing) in enumerate(zip(node.args, args, strict=False)):
        if tensor_values.device_of(thing) is None and thing.type in (None, "rank", "number"):
            device = tensor_values.device_name(last_name(arg))
            if device is not None:
                named[index] = thing.replace(device=device, value=MISSING)
    return named


def _dict_method(base: AbstractValue, method: str, args: list[AbstractValue]) -> AbstractValue:
    keys = base.keys or {}
    first = args[0] if args else NOTHING
    if method in ("get", "pop", "setdefault"):
        held = keys.get(first.value) if isinstance(first.value, str) else None
        if held is not None:
            return held
        default = args[1] if len(args) > 1 else AbstractValue(value=None)
        return default.widened() if base.open else default
    if method == "copy":
        return base
    values = AbstractValue(items=tuple(keys.values())[:100])
    if method == "values":
        return values if not base.open else NOTHING
    pair = AbstractValue(items=(NOTHING, tensor_values.element(values)))
    return AbstractValue(elem=pair) if method == "items" else NOTHING


# arguments that do not fit


def misfit(found: Resolved, node: ast.Call) -> Misfit | None:
    """What a call gives that its function cannot take; None where it fits, and where that cannot be told."""
    if any(isinstance(item, ast.Starred) for item in node.args) or any(not item.arg for item in node.keywords):
        return None
    target = _runs(found)
    if target is None:
        return None
    function, own = target
    spec = function.node.args
    places = [item.arg for item in (*spec.posonlyargs, *spec.args)][own:]
    named = {item.arg for item in (*spec.args, *spec.kwonlyargs)}
    keywords = [item.arg for item in node.keywords if item.arg]
    given = {*places[: len(node.args)], *keywords}
    required = places[: len(places) - len(spec.defaults)]
    required += [item.arg for item, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None]
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


def _runs(found: Resolved) -> tuple[Function, int] | None:
    """The function that certainly runs, with how many of its parameters Python fills itself."""
    if found.called or found.context:
        return None  # `model(x)` and `apply` go through code of torch
    if found.klass is not None:
        made = _constructor(found.klass) if found.base is NOTHING else None
        return (made, 1) if made is not None else None
    function = found.callee
    if function is None or not isinstance(function.node, ast.FunctionDef) or not _is_only(function):
        return None
    names = {name for _, name in function.decorators}
    if not names <= _BINDERS or (found.owner is not None and not function.bound_class):
        return None  # a method of an object may be that of another class by then
    return function, 1 if function.bound_class else 0


def _constructor(klass: ClassSymbol) -> Function | None:
    """The `__init__` that certainly runs when a class is called."""
    for _ in range(20):
        if klass.node.decorator_list or klass.node.keywords or "__new__" in klass.methods or klass.data:
            return None
        own = klass.methods.get("__init__")
        if own is not None:
            return own if not own.decorators and _is_only(own) else None
        bases = [base.definition for base in klass.bases]
        if len(bases) != 1 or not isinstance(bases[0], ClassSymbol):
            return None
        klass = bases[0]
    return None


def _is_only(function: Function) -> bool:
    """Whether nothing else of its scope goes by a function's name: a property's setter, an overload, another arm."""
    outer = function.scope.outer
    return outer is None or len(outer.bindings.get(function.short, ())) == 1
