"""What calls of known libraries give back: types, devices, without knowing the libraries' code."""

import ast
import re
from collections.abc import Callable

from gpudoctor.model.signs.source import GuardKind, Known
from gpudoctor.vitals.source.library_functions import (
    DDP,
    FACTORIES,
    LOADER_PREPARES,
    LOWER_CLASSES,
    NO_TENSOR,
    PREPARES,
    WRAPPERS,
)
from gpudoctor.vitals.source.qualified_names import TENSOR_METHODS as TENSOR_METHODS
from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.tensor_values import Arguments, Keywords, device_among, device_of, element
from gpudoctor.vitals.source.values import (
    BATCH,
    DEVICE,
    LOADER,
    MISSING,
    MODULE,
    NOTHING,
    NUMBER,
    OPTIMIZER,
    SCHEDULER,
    TENSOR,
    WITH_A_GPU,
    AbstractValue,
    Condition,
    tensor,
)

GPU_PRESENT = Condition(kind=GuardKind.SWITCH, value=Known(value=True, origin=WITH_A_GPU))
RANK_ZERO = Condition(kind=GuardKind.RANK)
FAILED = Condition(kind=GuardKind.FAILURE)
FINITE = FAILED.opposite()


_FROM = re.compile(r"\.(?:from_pretrained|from_config|load_from_checkpoint|from_single_file)$")


def call_result(name: str, args: Arguments, keywords: Keywords, node: ast.Call) -> AbstractValue:
    """What a call of a library function or class gives; NOTHING when it cannot be told."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args, keywords)
    if name in WRAPPERS:
        return args[0] if args else NOTHING
    if name in DDP or name in LOADER_PREPARES:
        return _wrapped(name, args)
    if name in PREPARES:
        return _prepared(args)
    if name.startswith("math."):
        return NUMBER
    if name.startswith("torch."):
        found = _torch(name, args, keywords)
        if found is not None:
            return found
    if name.startswith("torchvision.models.") or name in ("timm.create_model", "torch.hub.load"):
        last = name.rpartition(".")[2]
        if last[:1].islower():
            return AbstractValue(type=MODULE, device="cpu", made=(node,))
    return _instance(name, args, keywords, node)


def _instance(name: str, args: Arguments, keywords: Keywords, node: ast.Call) -> AbstractValue:
    if _FROM.search(name):
        owner = name.rpartition(".")[0]
        last = owner.rpartition(".")[2]
        if "Tokenizer" in last:
            return AbstractValue(type="transformers.PreTrainedTokenizerBase", made=(node,))
        if kind_of(owner) == MODULE:
            device = "cuda" if "device_map" in keywords else "cpu"
            return AbstractValue(type=owner, device=device, made=(node,))
        return AbstractValue(type=owner if last[:1].isupper() else None, made=(node,))
    if name.startswith("transformers.get_") and ("schedul" in name):
        return AbstractValue(type=SCHEDULER, made=(node,))
    if name.endswith((".create_optimizer", ".create_optimizer_v2")) or ".build_optimizer" in name:
        return AbstractValue(type=OPTIMIZER, made=(node,))
    last = name.rpartition(".")[2]
    if last[:1].isupper() and "." in name:
        place = "cpu" if kind_of(name) == MODULE else None
        elem = None
        attrs = None
        if kind_of(name) == LOADER:
            elem = AbstractValue(type=BATCH, device="cpu")
        elif name in ("torch.nn.ModuleList", "torch.nn.Sequential"):
            elem = element(
                args[0] if len(args) == 1 and args[0].type in (None, "list") else AbstractValue(items=tuple(args))
            )
        elif name == "torch.nn.ModuleDict" and args:
            attrs = args[0].keys
        return AbstractValue(type=name, device=place, elem=elem, attrs=attrs, made=(node,))
    return NOTHING


def _wrapped(name: str, args: Arguments) -> AbstractValue:
    if not args:
        return NOTHING
    if name in LOADER_PREPARES:
        return _on(args[0], "maybe-cuda")
    inner = args[0]
    if name.startswith(("torch.nn.", "torch.distributed.fsdp.Fully")):
        return inner.replace(type=name, guessed=False, value=MISSING, ref=None, definition=None)
    if name == "peft.get_peft_model":
        return inner.replace(type="peft.PeftModel") if inner.klass is None else inner
    return inner if inner.type or inner.klass else AbstractValue(type=MODULE)


def _on(thing: AbstractValue, device: str) -> AbstractValue:
    elem = thing.elem.replace(device=device) if thing.elem is not None else thing.elem
    return thing.replace(device=device if thing.type != SCHEDULER else None, elem=elem)


def _prepared(args: Arguments) -> AbstractValue:
    moved = tuple(_on(a, "maybe-cuda") if kind_of(a.type) in (MODULE, LOADER) or a.klass else a for a in args)
    return moved[0] if len(moved) == 1 else AbstractValue(items=moved)


def _torch(name: str, args: Arguments, keywords: Keywords) -> AbstractValue | None:
    rest = name[6:]
    if rest.startswith(("nn.functional.", "linalg.", "fft.", "special.")):
        return tensor(device_among(args, keywords))
    if "." not in rest:
        if rest in NO_TENSOR:
            return NOTHING
        if rest in FACTORIES:
            device = device_of(keywords.get("device"))
            copied = args[0].device if rest in ("as_tensor", "tensor") and args else None
            return tensor(device or copied or "cpu")
        if rest[0].islower():
            return tensor(device_among(args, keywords))
    return None


def _elements(args: Arguments) -> AbstractValue:
    return element(args[0]) if args else NOTHING


def _enumerated(args: Arguments, _: Keywords) -> AbstractValue:
    return AbstractValue(elem=AbstractValue(items=(NUMBER, _elements(args))), over=args[0] if args else None)


def _zipped(args: Arguments, _: Keywords) -> AbstractValue:
    over = next((a for a in args if kind_of(a.type) == LOADER), args[0] if args else None)
    return AbstractValue(elem=AbstractValue(items=tuple(element(a) for a in args)), over=over)


def _device_made(args: Arguments, keywords: Keywords) -> AbstractValue:
    target = args[0] if args else keywords.get("device") or keywords.get("type")
    device = device_of(target)
    return AbstractValue(type=DEVICE, device=device or "maybe-cuda")


def _split_data(args: Arguments, _: Keywords) -> AbstractValue:
    return AbstractValue(elem=args[0] if args and args[0].type else AbstractValue(type="torch.utils.data.Subset"))


def _constantly(thing: AbstractValue) -> Callable[[Arguments, Keywords], AbstractValue]:
    return lambda _args, _keywords: thing


def _engine(args: Arguments, keywords: Keywords) -> AbstractValue:
    model = keywords.get("model") or (args[1] if len(args) > 1 else NOTHING)
    engine = model.replace(type="deepspeed.DeepSpeedEngine", device="cuda", value=MISSING)
    return AbstractValue(
        items=(engine, AbstractValue(type=OPTIMIZER), AbstractValue(type=LOADER), AbstractValue(type=SCHEDULER))
    )


def _accelerator(_: Arguments, keywords: Keywords) -> AbstractValue:
    cpu = keywords.get("cpu")
    return AbstractValue(
        type="accelerate.Accelerator", device="cpu" if cpu is not None and cpu.value is True else "maybe-cuda"
    )


def _cpu_value(args: Arguments, _: Keywords) -> AbstractValue:
    return AbstractValue(option=True, type="str") if args else NOTHING


_GPU = AbstractValue(test=(GPU_PRESENT,))
_RANK = AbstractValue(type="rank", option=True)
_SPECIAL: dict[str, Callable[[Arguments, Keywords], AbstractValue]] = {
    **{name: _constantly(AbstractValue(type=name)) for name in LOWER_CLASSES},
    "torch.cuda.is_available": _constantly(_GPU),
    "torch.accelerator.is_available": _constantly(_GPU),
    "torch.cuda.is_bf16_supported": _constantly(_GPU),
    "torch.accelerator.current_accelerator": _constantly(AbstractValue(type=DEVICE, device="maybe-cuda")),
    "torch.device": _device_made,
    "torch.cuda.current_device": _constantly(AbstractValue(device="cuda")),
    "torch.distributed.get_rank": _constantly(_RANK),
    "torch.distributed.get_node_local_rank": _constantly(_RANK),
    "enumerate": _enumerated,
    "zip": _zipped,
    "itertools.chain": lambda args, _: args[0] if args else NOTHING,
    "next": lambda args, _: _elements(args),
    "torch.utils.data.random_split": _split_data,
    "deepspeed.initialize": _engine,
    "accelerate.Accelerator": _accelerator,
    "wandb.init": _constantly(AbstractValue(type="wandb.Run")),
    "range": _constantly(AbstractValue(elem=NUMBER)),
    "len": _constantly(NUMBER),
    "os.environ.get": _cpu_value,
    "os.getenv": _cpu_value,
    "torch.cuda.amp.GradScaler": _constantly(AbstractValue(type="torch.cuda.amp.GradScaler")),
    "torch.amp.GradScaler": _constantly(AbstractValue(type="torch.amp.GradScaler")),
    "torch.nn.Parameter": lambda args, _: AbstractValue(
        type="torch.nn.Parameter", device=args[0].device if args else "cpu"
    ),
    "torch.is_grad_enabled": _constantly(NOTHING),
    "transformers.get_scheduler": _constantly(AbstractValue(type=SCHEDULER)),
    "torch.isnan": lambda args, _: AbstractValue(type=TENSOR, device=device_among(args, {}), test=(FAILED,)),
    "torch.isinf": lambda args, _: AbstractValue(type=TENSOR, device=device_among(args, {}), test=(FAILED,)),
    **dict.fromkeys(
        ("math.isnan", "math.isinf", "numpy.isnan", "numpy.isinf"), _constantly(AbstractValue(test=(FAILED,)))
    ),
    "torch.isfinite": lambda args, _: AbstractValue(type=TENSOR, device=device_among(args, {}), test=(FINITE,)),
    "math.isfinite": _constantly(AbstractValue(test=(FINITE,))),
    "numpy.isfinite": _constantly(AbstractValue(test=(FINITE,))),
}
