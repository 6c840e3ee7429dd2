"""Tensors and devices: what operations on them give, and where the result lives."""

import re
from collections.abc import Mapping, Sequence

from gpudoctor.vitals.source.joins import join, join_devices
from gpudoctor.vitals.source.library_functions import READS
from gpudoctor.vitals.source.qualified_names import TENSOR_METHODS, kind_of
from gpudoctor.vitals.source.values import BATCH, LOADER, NOTHING, NUMBER, TENSOR, TEXT, AbstractValue, tensor

_DEVICE_TEXT = re.compile(r"(cuda|cpu|mps|xpu|npu|gpu)(?::\d*)?$")
_DEVICE_NAME = re.compile(r"(?:\w*_)?(?:rank|gpu|gpu_id|device_id|dev)s?$")
Arguments = Sequence[AbstractValue]
Keywords = Mapping[str, AbstractValue]


def device_of(thing: AbstractValue | None) -> str | None:
    """The device that a device argument names."""
    if thing is None:
        return None
    if isinstance(thing.value, str):
        return device_text(thing.value)
    if isinstance(thing.value, int) and not isinstance(thing.value, bool):
        return "cuda"
    return thing.device


def device_text(text: str) -> str | None:
    """`cuda`, `cpu`, `mps` of a device string."""
    match = _DEVICE_TEXT.match(text)
    return (match[1].replace("gpu", "cuda") if match[1] != "npu" else "npu") if match else None


def device_name(name: str) -> str | None:
    """What a name of an unknown device argument suggests."""
    if _DEVICE_NAME.match(name.lower()):
        return "cuda"
    return "maybe-cuda" if "device" in name.lower() else None


def device_among(args: Arguments, keywords: Keywords) -> str | None:
    """The device of the result of an operation on some things."""
    device = device_of(keywords.get("device"))
    if device:
        return device
    found: str | None = None
    for arg in args:
        for part in arg.items or (arg,):
            if part.type in (TENSOR, BATCH, "torch.nn.Parameter"):
                if part.device == "cuda":
                    return "cuda"
                found = join_devices(found, part.device)
        if arg.elem is not None and arg.elem.type == TENSOR:
            found = join_devices(found, arg.elem.device)
    return found


def tensor_method(base: AbstractValue, method: str, args: Arguments, keywords: Keywords) -> AbstractValue:
    """What a method of a tensor (or batch) gives."""
    if method in ("cuda", "cpu", "to"):
        return moved(base, method, args, keywords)
    if method in ("values", "items", "keys") and base.type == BATCH:
        part = tensor(base.device).replace(made=base.made)
        return AbstractValue(elem={"values": part, "items": AbstractValue(items=(TEXT, part)), "keys": TEXT}[method])
    if method == "item" and base.test:
        return NUMBER.replace(test=base.test)
    if method in ("item", "tolist", "numpy") or method in READS:
        return NUMBER if method in ("item", "size", "numel", "dim") else NOTHING
    if method in ("split", "chunk", "unbind"):
        return AbstractValue(elem=tensor(base.device))
    if base.type == BATCH and method not in TENSOR_METHODS:
        return tensor(base.device)
    if method in ("any", "all") and base.test:
        return tensor(base.device).replace(test=base.test)
    return tensor(base.device)


def moved(base: AbstractValue, method: str, args: Arguments, keywords: Keywords) -> AbstractValue:
    """A tensor, batch or module after `.to(...)`, `.cuda()` or `.cpu()`."""
    if method == "cpu":
        return base.replace(device="cpu")
    if method == "cuda":
        return base.replace(device="cuda")
    target = keywords.get("device") or (args[0] if args else None)
    if target is None:
        return base
    device = device_of(target) or (target.device if target.type == TENSOR else None)
    return base.replace(device=device) if device else base


def element(thing: AbstractValue) -> AbstractValue:
    """What iterating over a thing gives."""
    if thing.elem is not None:
        return thing.elem.replace(made=thing.made) if thing.elem.type == BATCH else thing.elem
    if thing.items is not None:
        found = thing.items[0] if thing.items else NOTHING
        for item in thing.items[1:50]:
            found = join(found, item)
        return found
    if thing.type == TENSOR:
        return thing.replace(type=TENSOR)
    if thing.type == BATCH:
        return tensor(thing.device).replace(made=thing.made)
    if kind_of(thing.type) == LOADER:
        return AbstractValue(type=BATCH, device=thing.device or "cpu", made=thing.made)
    return NOTHING
