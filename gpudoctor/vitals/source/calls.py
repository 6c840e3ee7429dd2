"""Resolving one call: its name, what it runs, what it gives, what it does to the training."""

import ast
from dataclasses import replace

from gpudoctor.model.signs.source import Call, Misfit, Value
from gpudoctor.vitals.source import class_model, conditions, configuration, effects, library, tensor_values
from gpudoctor.vitals.source.methods import of_method
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.resolving import Resolved, resolve
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.values import (
    EVAL,
    LOADER,
    MODULE,
    NOTHING,
    TENSOR,
    AbstractValue,
    ClassSymbol,
    Function,
    tensor,
    value_of,
    without_graph,
)


def call(program: SourceInterpreter, frame: ScopeState, node: ast.Call) -> AbstractValue:
    """Evaluate a call: receiver, arguments, then the call itself is recorded."""
    found = resolve(program, frame, node)
    positional: list[AbstractValue] = []
    values: list[Value] = []
    open_ended = False
    segment = frame.module.segment
    for arg in node.args:
        thing = program.evaluate(frame, arg)
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
            program.evaluate(frame, arg)
    keywords: dict[str, AbstractValue] = {}
    named: dict[str, Value] = {}
    for keyword in node.keywords:
        thing = program.evaluate(frame, keyword.value)
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
        receiver_class=base.klass.name if base.klass is not None else None,
        receiver_device=base.device,
        guessed=base.guessed,
        guards=tuple(mark.guard for mark in frame.marks),
        misfit=misfit(found, node),
    )
    frame.module.calls[id(node)] = made
    effect = effects.of_call(found, made, node, positional)
    callee = found.callee or _closure(found, positional, keywords)
    graph = any(t.graph for t in positional) or any(t.graph for t in keywords.values())
    if effect & effects.MODES:
        frame.evaluating = bool(effect & EVAL)
    frame.add(node, call=made, effect=effect, callee=callee, graph=graph)
    return _result(program, frame, node, found, positional, keywords, open_ended)


def _closure(found: Resolved, positional: list[AbstractValue], keywords: dict[str, AbstractValue]) -> Function | None:
    """`optimizer.step(closure)` runs the closure."""
    if found.name.endswith(".step"):
        for thing in (*positional[:2], *keywords.values()):
            if isinstance(thing.definition, Function):
                return thing.definition
    return None


def _result(
    program: SourceInterpreter,
    frame: ScopeState,
    node: ast.Call,
    found: Resolved,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
    open_ended: bool,
) -> AbstractValue:
    if found.klass is not None:
        return class_model.construct(program, found.klass, args, keywords, node, open_ended)
    made = configuration.call_result(program, frame, node, found.name, found.base, args, keywords)
    if made is not None:
        return made
    returned = NOTHING
    if found.callee is not None:
        # A static method gets no instance, though it is called on one.
        given = args if found.owner is None or found.callee.static else [found.owner, *args]
        given = [NOTHING, *given] if found.context else given
        returned = _retold(node, program.invoke(found.callee, given, keywords, open_ended))
        if frame.no_grad:  # the function is read once for all its calls, most of them outside of no_grad
            returned = without_graph(returned)
        if returned.elem is not None and returned.type is None:
            # A generator of the program draws from the loader that it is given.
            loader = next((t for t in args if kind_of(t.type) == LOADER), None)
            returned = returned if loader is None else returned.replace(over=loader)
    if found.called and kind_of(found.base.type) == MODULE:
        return _output(frame, found.base, args, keywords, returned)
    if found.callee is not None:
        return returned
    configuration.run_targets(program, frame, found.name, args, keywords)
    if found.base is not NOTHING and not found.called:
        return of_method(program, frame, node, found, args, keywords)
    return library.call_result(found.name, args, keywords, node, frame.no_grad > 0)


def _retold(node: ast.Call, returned: AbstractValue) -> AbstractValue:
    """A condition that a function returns depends, at its call site, on the arguments."""
    if returned.test is None:
        return returned
    names = frozenset(name for arg in node.args for name in conditions.subject(arg))
    told = tuple(replace(m, subject=names) if m.subject and names else m for m in returned.test)
    return returned.replace(test=told)


def _output(
    frame: ScopeState,
    model: AbstractValue,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
    returned: AbstractValue,
) -> AbstractValue:
    """A forward pass gives tensors on the model's device, with their graph unless under no_grad."""
    graph = frame.no_grad == 0
    device = model.device if model.device and model.device != "cpu" else None
    if device is None:
        device = tensor_values.tensors_device([*args, *keywords.values()]) or model.device
    if returned.items is not None:
        # Where the graph of one output was followed, the others' was as well: masks, indices, draws have none.
        followed = graph and any(item.graph for item in returned.items)
        return AbstractValue(
            items=tuple(_placed(item, device, graph and (item.graph or not followed)) for item in returned.items)
        )
    if returned is NOTHING or returned.type is None:
        return tensor(device, graph)
    return _placed(returned, device, graph)


def _placed(thing: AbstractValue, device: str | None, graph: bool) -> AbstractValue:
    if thing.type not in (None, TENSOR, "torch.nn.Parameter"):
        return thing
    if thing is NOTHING or thing.type == TENSOR:
        return tensor(device if device and device != "cpu" else thing.device or device, graph)
    return thing


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
