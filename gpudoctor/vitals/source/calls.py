"""Resolving one call: its name, what it runs, what it gives, what it does to the training."""

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpudoctor.model.signs.source import Call, Value
from gpudoctor.vitals.source import configuration, effects, guards, library
from gpudoctor.vitals.source.attributes import attribute
from gpudoctor.vitals.source.definitions import EVAL, Function, Klass, Module
from gpudoctor.vitals.source.frame import Frame
from gpudoctor.vitals.source.kinds import canonical, guess, kind_of, method_name
from gpudoctor.vitals.source.targets import rebind
from gpudoctor.vitals.source.things import (
    BATCH,
    LOADER,
    MISSING,
    MODULE,
    NOTHING,
    NUMBER,
    OPTIMIZER,
    TENSOR,
    Thing,
    join,
    tensor,
    value_of,
)

if TYPE_CHECKING:
    from gpudoctor.vitals.source.program import Program

_MOVES = frozenset(("to", "cuda", "cpu"))
_SAME = frozenset(
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


@dataclass(slots=True)
class Resolved:
    """What a call calls."""

    name: str
    base: Thing = NOTHING
    """The receiver of a method, or the object that is called."""
    callee: Function | None = None
    owner: Thing | None = None
    """`self` for the callee."""
    klass: Klass | None = None
    """The program's own class that is instantiated."""
    called: bool = False
    """Whether the base itself is called (`model(x)`)."""


def call(program: "Program", frame: Frame, node: ast.Call) -> Thing:
    """Evaluate a call: receiver, arguments, then the call itself is recorded."""
    from gpudoctor.vitals.source.expressions import evaluate

    found = _resolve(program, frame, node)
    positional: list[Thing] = []
    values: list[Value] = []
    open_ended = False
    segment = frame.module.segment
    for arg in node.args:
        thing = evaluate(program, frame, arg)
        if isinstance(arg, ast.Starred):
            inner = program.peek(frame, arg.value)
            if inner.items is None:
                open_ended = True
                break
            positional += inner.items
            values += [value_of(item, "") for item in inner.items]
            continue
        positional.append(thing)
        values.append(value_of(thing, segment(arg)))
    if open_ended:
        for arg in node.args[len(values) + 1 :]:
            evaluate(program, frame, arg)
    keywords: dict[str, Thing] = {}
    named: dict[str, Value] = {}
    for keyword in node.keywords:
        thing = evaluate(program, frame, keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = thing
            named[keyword.arg] = value_of(thing, segment(keyword.value))
        elif thing.keys is not None or thing.attrs is not None:
            entries = thing.keys if thing.keys is not None else thing.attrs or {}
            open_ended = open_ended or thing.open
            keywords.update(entries)
            named.update((key, value_of(entry, key)) for key, entry in entries.items())
        else:
            open_ended = True
    receiver = segment(node.func.value, 200) if isinstance(node.func, ast.Attribute) else ""
    base = found.base
    made = Call(
        name=found.name,
        method=found.name.rpartition(".")[2],
        receiver=receiver,
        positional=tuple(values),
        keywords=named,
        open_ended=open_ended,
        span=frame.module.span(node),
        function=frame.name,
        node=node,
        receiver_type=program.type_name(base),
        receiver_device=base.device,
        guessed=base.guessed,
        guards=tuple(mark.guard for mark in frame.marks),
    )
    frame.module.calls[id(node)] = made
    effect = effects.of_call(found, made, node, positional, keywords)
    callee = found.callee or _closure(found, positional, keywords)
    graph = any(t.graph for t in positional) or any(t.graph for t in keywords.values())
    if effect & effects.MODES:
        frame.evaluating = bool(effect & EVAL)
    frame.add(node, call=made, effect=effect, callee=callee, graph=graph)
    return _result(program, frame, node, found, positional, keywords, open_ended)


def _closure(found: Resolved, positional: list[Thing], keywords: dict[str, Thing]) -> Function | None:
    """`optimizer.step(closure)` runs the closure."""
    if found.name.endswith(".step"):
        for thing in (*positional[:2], *keywords.values()):
            if isinstance(thing.definition, Function):
                return thing.definition
    return None


def _resolve(program: "Program", frame: Frame, node: ast.Call) -> Resolved:
    from gpudoctor.vitals.source.expressions import evaluate

    func = node.func
    if isinstance(func, ast.Attribute):
        if (
            isinstance(func.value, ast.Call)
            and isinstance(func.value.func, ast.Name)
            and func.value.func.id == "super"
        ):
            evaluate(program, frame, func.value)
            return _super(frame, func.attr)
        base = evaluate(program, frame, func.value)
        return _method(program, frame, base, func.attr)
    thing = evaluate(program, frame, func)
    label = func.id if isinstance(func, ast.Name) else f"?.{type(func).__name__.lower()}"
    if isinstance(func, ast.Name) and frame.look(label) is not None and label in program.builtins:
        label = f"{frame.module.name}.{label}"
    return _target(frame, thing, label)


def _super(frame: Frame, method: str) -> Resolved:
    scope: Frame | None = frame
    while scope is not None and (scope.function is None or scope.function.klass is None):
        scope = scope.outer
    if scope is None or scope.function is None or scope.function.klass is None:
        return Resolved(f"?.{method}")
    klass = scope.function.klass
    for parent in klass.lineage()[1:]:
        found = parent.members.get(method)
        if found is not None and isinstance(found.definition, Function):
            return Resolved(
                f"{parent.name}.{method}", callee=found.definition, owner=Thing(klass=klass, type=klass.kind)
            )
    base = Thing(type=klass.kind, klass=None)
    return Resolved(method_name(klass.kind, method) if klass.kind else f"?.{method}", base=base)


def _method(program: "Program", frame: Frame, base: Thing, method: str) -> Resolved:
    if base.ref is not None:
        return Resolved(canonical(f"{base.ref}.{method}"))
    definition = base.definition
    if isinstance(definition, Module):
        return _target(frame, program.member_of(definition, method), f"{definition.name}.{method}")
    if isinstance(definition, Klass):
        return _class_method(definition, base, method)
    if base.klass is not None:
        own = base.klass.method(method)
        if own is not None:
            return Resolved(f"{base.klass.name}.{method}", base=base, callee=own, owner=base)
        held = attribute(program, frame, base, method)
        if held is not NOTHING and (held.definition or held.klass or held.type or held.ref):
            return _target(frame, held, f"{base.klass.name}.{method}")
    if base.type is not None:
        if kind_of(base.type) == MODULE and base.klass is None and method not in _KNOWN_MODULE:
            held = attribute(program, frame, base, method)
            if held.type or held.definition:
                return _target(frame, held, method_name(base.type, method))
        return Resolved(_typed(base, method), base=base)
    if base.attrs is not None and method in base.attrs:
        return _target(frame, base.attrs[method], f"?.{method}")
    kind = guess(method) if frame.module.torch else None
    if kind == MODULE and base is NOTHING:
        return Resolved(f"{MODULE}.__call__", base=Thing(type=MODULE, guessed=True), called=True)
    return Resolved(f"?.{method}", base=base)


_KNOWN_MODULE = _MOVES | _SAME


def _typed(base: Thing, method: str) -> str:
    if base.type == BATCH:
        return f"{TENSOR}.{method}" if method in library.TENSOR_METHODS else f"?.{method}"
    if base.type in ("number", "bool", "tuple", "list", "dict", "str"):
        return f"{'?' if base.type in ('number', 'bool') else base.type}.{method}"
    return method_name(base.type or "?", method)


def _class_method(klass: Klass, base: Thing, method: str) -> Resolved:
    own = klass.method(method)
    if own is not None:
        owner = None if own.static else (base if own.bound_class else None)
        return Resolved(f"{klass.name}.{method}", callee=own, owner=owner)
    if klass.kind and method in ("from_pretrained", "load_from_checkpoint", "from_config"):
        return Resolved(f"{klass.kind}.{method}", base=Thing(type=klass.kind, klass=klass), klass=klass)
    return Resolved(f"{klass.name}.{method}")


def _target(frame: Frame, thing: Thing, label: str) -> Resolved:
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
    if isinstance(definition, Klass):
        name = (
            definition.name
            if definition.module is frame.module
            else f"{definition.module.name}.{definition.name}"
        )
        return Resolved(name, klass=definition, callee=definition.method("__init__"))
    if thing.klass is not None:
        return _instance(thing, thing.klass)
    if thing.type is not None and thing.type not in (
        "number",
        "bool",
        "tuple",
        "list",
        "dict",
        "str",
        BATCH,
        TENSOR,
    ):
        return Resolved(method_name(thing.type, "__call__"), base=thing, called=True)
    return Resolved(label)


def _instance(thing: Thing, klass: Klass) -> Resolved:
    module = kind_of(thing.type or klass.kind) == MODULE
    own = klass.method("forward") if module else klass.method("__call__")
    own = own or klass.method("__call__")
    name = f"{MODULE}.__call__" if module else f"{klass.name}.__call__"
    return Resolved(name, base=thing, callee=own, owner=thing, called=True)


def _result(
    program: "Program",
    frame: Frame,
    node: ast.Call,
    found: Resolved,
    args: list[Thing],
    keywords: dict[str, Thing],
    open_ended: bool,
) -> Thing:
    if found.klass is not None:
        return program.construct(frame, found.klass, args, keywords, node)
    made = configuration.call_result(program, frame, node, found.name, found.base, args, keywords)
    if made is not None:
        return made
    returned = NOTHING
    if found.callee is not None:
        given = [found.owner, *args] if found.owner is not None else args
        returned = _retold(node, program.invoke(frame, found.callee, given, keywords, open_ended))
    if found.called and kind_of(found.base.type) == MODULE:
        return _output(frame, found.base, args, keywords, returned)
    if found.callee is not None:
        return returned
    program.run_targets(frame, found.name, args, keywords)
    if found.base is not NOTHING and not found.called:
        return _of_method(program, frame, node, found, args, keywords)
    return library.call_result(found.name, args, keywords, node, frame.no_grad > 0)


def _retold(node: ast.Call, returned: Thing) -> Thing:
    """A condition that a function returns depends, at its call site, on the arguments."""
    if returned.test is None:
        return returned
    names = frozenset(name for arg in node.args for name in guards.subject(arg))
    told = tuple(replace(m, subject=names) if m.subject and names else m for m in returned.test)
    return returned.but(test=told)


def _output(
    frame: Frame, model: Thing, args: list[Thing], keywords: dict[str, Thing], returned: Thing
) -> Thing:
    """A forward pass gives tensors on the model's device, with their graph unless under no_grad."""
    graph = frame.no_grad == 0
    device = model.device if model.device and model.device != "cpu" else None
    if device is None:
        device = library.tensors_device([*args, *keywords.values()]) or model.device
    if returned.items is not None:
        return Thing(items=tuple(_placed(item, device, graph) for item in returned.items))
    if returned is NOTHING or returned.type is None:
        return tensor(device, graph)
    return _placed(returned, device, graph)


def _placed(thing: Thing, device: str | None, graph: bool) -> Thing:
    if thing.type not in (None, TENSOR, "torch.nn.Parameter"):
        return thing
    if thing is NOTHING or thing.type == TENSOR:
        return tensor(device if device and device != "cpu" else thing.device or device, graph)
    return thing


def _of_method(
    program: "Program",
    frame: Frame,
    node: ast.Call,
    found: Resolved,
    args: list[Thing],
    keywords: dict[str, Thing],
) -> Thing:
    base, method = found.base, found.name.rpartition(".")[2]
    func = node.func
    assert isinstance(func, ast.Attribute)
    kind = kind_of(base.type)
    if kind == TENSOR or base.type == BATCH:
        return library.tensor_method(base, method, _named_devices(node, args), keywords, frame.no_grad > 0)
    if kind == MODULE:
        if method in _MOVES:
            moved = library.moved(base, method, _named_devices(node, args), keywords)
            rebind(program, frame, func.value, moved)
            return moved
        if method in _SAME:
            return base
        if method in ("parameters", "buffers"):
            return Thing(elem=Thing(type="torch.nn.Parameter", device=base.device, graph=True))
        if method in ("generate", "forward"):
            return tensor(base.device, graph=method == "forward" and frame.no_grad == 0)
        return NOTHING
    if kind == LOADER or kind == OPTIMIZER:
        return NOTHING
    if base.keys is not None or base.items is not None or base.elem is not None:
        return _container(program, frame, func, base, method, args, keywords)
    if base.type == "accelerate.Accelerator" and method in (
        "gather",
        "gather_for_metrics",
        "reduce",
        "pad_across_processes",
    ):
        return args[0] if args else NOTHING
    result = library.call_result(found.name, args, keywords, node, frame.no_grad > 0)
    if base.type == "torch.amp.GradScaler" or base.type == "torch.cuda.amp.GradScaler":
        return args[0] if method == "scale" and args else NOTHING
    if result is NOTHING and base.option:
        return Thing(option=True)
    return result


def _named_devices(node: ast.Call, args: list[Thing]) -> list[Thing]:
    """Device arguments that nothing is known about, told by their names (`.to(rank)`, `.to(device)`)."""
    named = list(args)
    for index, (arg, thing) in enumerate(zip(node.args, args, strict=False)):
        if library.device_of(thing) is None and thing.type in (None, "rank", "number"):
            name = arg.attr if isinstance(arg, ast.Attribute) else arg.id if isinstance(arg, ast.Name) else ""
            device = library.device_name(name)
            if device is not None:
                named[index] = thing.but(device=device, value=MISSING)
    return named


def _container(
    program: "Program",
    frame: Frame,
    func: ast.Attribute,
    base: Thing,
    method: str,
    args: list[Thing],
    keywords: dict[str, Thing],
) -> Thing:
    first = args[0] if args else NOTHING
    if base.keys is not None:
        return _dict_method(program, frame, func, base, method, args, keywords)
    if method in ("append", "add", "insert", "appendleft", "put"):
        item = args[-1] if args else NOTHING
        elem = item if base.items == () else join(library.element(base), item)
        rebind(program, frame, func.value, Thing(type=base.type, elem=elem))
        return NOTHING
    if method == "extend":
        rebind(
            program,
            frame,
            func.value,
            Thing(type=base.type, elem=join(library.element(base), library.element(first))),
        )
        return NOTHING
    if method in ("pop", "popleft", "get", "__next__"):
        return library.element(base)
    if method in ("values", "items", "copy", "__iter__"):
        return base
    return NUMBER if method in ("index", "count") else NOTHING


def _dict_method(
    program: "Program",
    frame: Frame,
    func: ast.Attribute,
    base: Thing,
    method: str,
    args: list[Thing],
    keywords: dict[str, Thing],
) -> Thing:
    keys = base.keys or {}
    first = args[0] if args else NOTHING
    if method == "update":
        merged = {**keys, **(first.keys or {}), **keywords}
        loose = base.open or first.open or (bool(args) and first.keys is None)
        rebind(program, frame, func.value, base.but(keys=merged, open=loose))
        return NOTHING
    if method in ("get", "pop", "setdefault"):
        held = keys.get(first.value) if isinstance(first.value, str) else None
        if held is not None:
            return held
        default = args[1] if len(args) > 1 else Thing(value=None)
        return default.vague() if base.open else default
    if method == "copy":
        return base
    if method == "values":
        return Thing(items=tuple(keys.values())[:100]) if not base.open else NOTHING
    if method == "items":
        return Thing(elem=Thing(items=(NOTHING, library.element(Thing(items=tuple(keys.values())[:100])))))
    return NOTHING
