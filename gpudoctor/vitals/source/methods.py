"""What methods of typed objects give: tensors, modules, lists, dicts."""

import ast

from gpudoctor.analysis.source.syntax import last_name
from gpudoctor.vitals.source import library, tensor_values
from gpudoctor.vitals.source.assignment_targets import rebind
from gpudoctor.vitals.source.joins import join
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.resolving import MOVES, SAME, Resolved
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.values import (
    BATCH,
    LOADER,
    MISSING,
    MODULE,
    NOTHING,
    NUMBER,
    OPTIMIZER,
    TENSOR,
    AbstractValue,
    tensor,
)


def of_method(
    program: SourceInterpreter,
    frame: ScopeState,
    node: ast.Call,
    found: Resolved,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue:
    """What a method call on an object of a known kind gives."""
    base, method = found.base, found.name.rpartition(".")[2]
    func = node.func
    assert isinstance(func, ast.Attribute)
    kind = kind_of(base.type)
    if kind == TENSOR or base.type == BATCH:
        return tensor_values.tensor_method(base, method, _named_devices(node, args), keywords, frame.no_grad > 0)
    if kind == MODULE:
        if method in MOVES:
            moved = tensor_values.moved(base, method, _named_devices(node, args), keywords)
            rebind(program, frame, func.value, moved)
            return moved
        if method in SAME:
            return base
        if method in ("parameters", "buffers"):
            return AbstractValue(elem=AbstractValue(type="torch.nn.Parameter", device=base.device, graph=True))
        if method in ("generate", "forward"):
            return tensor(base.device, graph=method == "forward" and frame.no_grad == 0)
        return NOTHING
    if kind in (LOADER, OPTIMIZER):
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
        return AbstractValue(option=True)
    return result


def _named_devices(node: ast.Call, args: list[AbstractValue]) -> list[AbstractValue]:
    """Device arguments that nothing is known about, told by their names (`.to(rank)`, `.to(device)`)."""
    named = list(args)
    for index, (arg, thing) in enumerate(zip(node.args, args, strict=False)):
        if tensor_values.device_of(thing) is None and thing.type in (None, "rank", "number"):
            name = last_name(arg)
            device = tensor_values.device_name(name)
            if device is not None:
                named[index] = thing.replace(device=device, value=MISSING)
    return named


def _container(
    program: SourceInterpreter,
    frame: ScopeState,
    func: ast.Attribute,
    base: AbstractValue,
    method: str,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue:
    first = args[0] if args else NOTHING
    if base.keys is not None:
        return _dict_method(program, frame, func, base, method, args, keywords)
    if method in ("append", "add", "insert", "appendleft", "put"):
        item = args[-1] if args else NOTHING
        elem = item if base.items == () else join(tensor_values.element(base), item)
        rebind(program, frame, func.value, AbstractValue(type=base.type, elem=elem))
        return NOTHING
    if method == "extend":
        rebind(
            program,
            frame,
            func.value,
            AbstractValue(type=base.type, elem=join(tensor_values.element(base), tensor_values.element(first))),
        )
        return NOTHING
    if method in ("pop", "popleft", "get", "__next__"):
        return tensor_values.element(base)
    if method in ("values", "items", "copy", "__iter__"):
        return base
    return NUMBER if method in ("index", "count") else NOTHING


def _dict_method(
    program: SourceInterpreter,
    frame: ScopeState,
    func: ast.Attribute,
    base: AbstractValue,
    method: str,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue:
    keys = base.keys or {}
    first = args[0] if args else NOTHING
    if method == "update":
        merged = {**keys, **(first.keys or {}), **keywords}
        loose = base.open or first.open or (bool(args) and first.keys is None)
        rebind(program, frame, func.value, base.replace(keys=merged, open=loose))
        return NOTHING
    if method in ("get", "pop", "setdefault"):
        held = keys.get(first.value) if isinstance(first.value, str) else None
        if held is not None:
            return held
        default = args[1] if len(args) > 1 else AbstractValue(value=None)
        return default.widened() if base.open else default
    if method == "copy":
        return base
    if method == "values":
        return AbstractValue(items=tuple(keys.values())[:100]) if not base.open else NOTHING
    if method == "items":
        return AbstractValue(
            elem=AbstractValue(items=(NOTHING, tensor_values.element(AbstractValue(items=tuple(keys.values())[:100]))))
        )
    return NOTHING
