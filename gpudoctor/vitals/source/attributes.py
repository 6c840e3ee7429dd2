"""What an attribute of a thing is."""

from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.qualified_names import canonical, kind_of
from gpudoctor.vitals.source.values import (
    BATCH,
    DEVICE,
    LOADER,
    MODULE,
    NOTHING,
    NUMBER,
    TENSOR,
    AbstractValue,
    ClassSymbol,
    Function,
    Module,
    tensor,
)

_PLAIN = frozenset(("shape", "dtype", "ndim", "is_cuda", "requires_grad", "grad_fn", "is_leaf", "names", "layout"))


def attribute(program: SourceInterpreter, base: AbstractValue, name: str) -> AbstractValue:
    """`base.name`; NOTHING when it cannot be told."""
    if base.ref is not None:
        return AbstractValue(ref=canonical(f"{base.ref}.{name}"))
    if base.definition is not None:
        return _of_definition(program, base, name)
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


def _of_definition(program: SourceInterpreter, base: AbstractValue, name: str) -> AbstractValue:
    definition = base.definition
    if isinstance(definition, Module):
        return program.member_of(definition, name)
    if isinstance(definition, ClassSymbol):
        found = definition.member(name) or definition.fields.get(name)
        if found is not None:
            return found.replace(owner=base) if isinstance(found.definition, Function) else found
        return NOTHING
    return NOTHING


def _of_instance(
    program: SourceInterpreter, base: AbstractValue, klass: ClassSymbol, name: str
) -> AbstractValue | None:
    found = klass.attribute(name)
    if found is not None:
        if base.device and (found.type == "torch.nn.Parameter" or kind_of(found.type) == MODULE):
            return found.replace(device=base.device)
        return found
    found = klass.member(name)
    if found is None:
        return klass.all_fields().get(name) if klass.data else None
    function = found.definition
    if isinstance(function, Function):
        if function.is_property:
            return program.invoke(function, [base], {})
        return found.replace(owner=base)
    return found


def _of_type(base: AbstractValue, name: str) -> AbstractValue:
    kind = kind_of(base.type)
    if kind == TENSOR or base.type == BATCH:
        return _of_tensor(base, name)
    if base.type == DEVICE:
        return AbstractValue(type="torch.device.type", device=base.device) if name == "type" else NUMBER
    if kind == MODULE:
        if name == "module":
            return base.replace(type=base.klass.kind if base.klass is not None else MODULE)
        if name == "device":
            return AbstractValue(type=DEVICE, device=base.device)
        return NOTHING
    if name == "device" and base.device:
        return AbstractValue(type=DEVICE, device=base.device)
    if kind == LOADER and name == "dataset":
        return AbstractValue(type="torch.utils.data.Dataset")
    return AbstractValue(option=True) if base.option else NOTHING


def _of_tensor(base: AbstractValue, name: str) -> AbstractValue:
    if name in _PLAIN:
        return NOTHING
    if name == "device":
        return AbstractValue(type=DEVICE, device=base.device)
    if name in ("data", "grad", "indices"):
        return tensor(base.device)
    return tensor(base.device, base.graph)
