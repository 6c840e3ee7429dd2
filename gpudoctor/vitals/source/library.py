"""What calls of known libraries give back: types, devices, graphs, without knowing the libraries' code."""

import ast
import re
from collections.abc import Callable

from gpudoctor.model.graphless import NO_GRAPH
from gpudoctor.model.signs.source import GuardKind, Known
from gpudoctor.vitals.source.batches import collated
from gpudoctor.vitals.source.qualified_names import TENSOR_METHODS as TENSOR_METHODS
from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.tables import (
    DDP,
    FACTORIES,
    LOADER_PREPARES,
    LOWER_CLASSES,
    NO_TENSOR,
    PREPARES,
    WRAPPERS,
)
from gpudoctor.vitals.source.tensor_values import (
    Arguments,
    Keywords,
    any_graph,
    device_among,
    device_of,
    element,
    paired,
)
from gpudoctor.vitals.source.values import (
    DEVICE,
    LOADER,
    MODULE,
    NOTHING,
    NUMBER,
    OPTIMIZER,
    SCHEDULER,
    TENSOR,
    Meaning,
    Thing,
    tensor,
)

GPU_PRESENT = Meaning(kind=GuardKind.SWITCH, value=Known(value=True, origin="with a GPU"))
RANK_ZERO = Meaning(kind=GuardKind.RANK)
FAILED = Meaning(kind=GuardKind.FAILURE)
FINITE = FAILED.opposite()


_FROM = re.compile(r"\.(?:from_pretrained|from_config|load_from_checkpoint|from_single_file)$")


def call_result(name: str, args: Arguments, keywords: Keywords, node: ast.Call, no_grad: bool) -> Thing:
    """What a call of a library function or class gives; NOTHING when it cannot be told."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args, keywords)
    if name in WRAPPERS:
        return args[0] if args else NOTHING
    if name in DDP or name in LOADER_PREPARES:
        return _wrapped(name, args, node)
    if name in PREPARES:
        return _prepared(args)
    if name.startswith("torch."):
        found = _torch(name, args, keywords, no_grad)
        if found is not None:
            return found
    if name.startswith("torchvision.models.") or name in ("timm.create_model", "torch.hub.load"):
        last = name.rpartition(".")[2]
        if last[:1].islower():
            return Thing(type=MODULE, device="cpu", made=node)
    return _instance(name, args, keywords, node)


def _instance(name: str, args: Arguments, keywords: Keywords, node: ast.Call) -> Thing:
    if _FROM.search(name):
        owner = name.rpartition(".")[0]
        last = owner.rpartition(".")[2]
        if "Tokenizer" in last:
            return Thing(type="transformers.PreTrainedTokenizerBase", made=node)
        if kind_of(owner) == MODULE:
            device = "cuda" if "device_map" in keywords else "cpu"
            return Thing(type=owner, device=device, made=node)
        return Thing(type=owner if last[:1].isupper() else None, made=node)
    if name.startswith("transformers.get_") and ("schedul" in name):
        return Thing(type=SCHEDULER, made=node)
    if name.endswith((".create_optimizer", ".create_optimizer_v2")) or ".build_optimizer" in name:
        return Thing(type=OPTIMIZER, made=node)
    last = name.rpartition(".")[2]
    if last[:1].isupper() and "." in name:
        place = "cpu" if kind_of(name) == MODULE else None
        elem = None
        attrs = None
        if kind_of(name) == LOADER:
            elem = collated(keywords.get("collate_fn", NOTHING))
        elif name in ("torch.nn.ModuleList", "torch.nn.Sequential"):
            elem = element(
                args[0] if len(args) == 1 and args[0].type in (None, "list") else Thing(items=tuple(args))
            )
        elif name == "torch.nn.ModuleDict" and args:
            attrs = args[0].keys
        return Thing(type=name, device=place, elem=elem, attrs=attrs, made=node)
    return NOTHING


def _wrapped(name: str, args: Arguments, node: ast.Call) -> Thing:
    if not args:
        return NOTHING
    if name in LOADER_PREPARES:
        return _on(args[0], "maybe-cuda")
    inner = args[0]
    if name.startswith(("torch.nn.", "torch.distributed.fsdp.Fully")):
        return inner.but(type=name, made=node, guessed=False, value=_MISSING, ref=None, definition=None)
    if name == "peft.get_peft_model":
        return inner.but(type="peft.PeftModel", made=node) if inner.klass is None else inner
    return inner if inner.type or inner.klass else Thing(type=MODULE)


_MISSING = NOTHING.value


def _on(thing: Thing, device: str) -> Thing:
    elem = thing.elem.but(device=device) if thing.elem is not None else thing.elem
    return thing.but(device=device if thing.type != SCHEDULER else None, elem=elem)


def _prepared(args: Arguments) -> Thing:
    moved = tuple(_on(a, "maybe-cuda") if kind_of(a.type) in (MODULE, LOADER) or a.klass else a for a in args)
    return moved[0] if len(moved) == 1 else Thing(items=moved)


def _torch(name: str, args: Arguments, keywords: Keywords, no_grad: bool) -> Thing | None:
    rest = name[6:]
    last = rest.rpartition(".")[2]
    if rest.startswith(("nn.functional.", "linalg.", "fft.", "special.")):
        return tensor(
            device_among(args, keywords), graph=not no_grad and last not in NO_GRAPH and any_graph(args)
        )
    if "." not in rest:
        if rest in NO_TENSOR:
            return NOTHING
        if rest in FACTORIES:
            device = device_of(keywords.get("device"))
            copied = args[0].device if rest in ("as_tensor", "tensor") and args else None
            return tensor(device or copied or "cpu")
        if rest[0].islower():
            graph = not no_grad and rest not in NO_GRAPH and any_graph(args)
            return paired(tensor(device_among(args, keywords), graph=graph), rest, args[1:], keywords)
    return None


def _elements(args: Arguments) -> Thing:
    return element(args[0]) if args else NOTHING


def _enumerated(args: Arguments, _: Keywords) -> Thing:
    return Thing(elem=Thing(items=(NUMBER, _elements(args))), over=args[0] if args else None)


def _zipped(args: Arguments, _: Keywords) -> Thing:
    over = next((a for a in args if kind_of(a.type) == LOADER), args[0] if args else None)
    return Thing(elem=Thing(items=tuple(element(a) for a in args)), over=over)


def _device_made(args: Arguments, keywords: Keywords) -> Thing:
    target = args[0] if args else keywords.get("device") or keywords.get("type")
    device = device_of(target)
    return Thing(type=DEVICE, device=device or "maybe-cuda")


def _split_data(args: Arguments, _: Keywords) -> Thing:
    return Thing(elem=args[0] if args and args[0].type else Thing(type="torch.utils.data.Subset"))


def _constantly(thing: Thing) -> Callable[[Arguments, Keywords], Thing]:
    return lambda _args, _keywords: thing


def _engine(args: Arguments, keywords: Keywords) -> Thing:
    model = keywords.get("model") or (args[1] if len(args) > 1 else NOTHING)
    engine = model.but(type="deepspeed.DeepSpeedEngine", device="cuda", value=_MISSING)
    return Thing(items=(engine, Thing(type=OPTIMIZER), Thing(type=LOADER), Thing(type=SCHEDULER)))


def _accelerator(_: Arguments, keywords: Keywords) -> Thing:
    cpu = keywords.get("cpu")
    return Thing(
        type="accelerate.Accelerator", device="cpu" if cpu is not None and cpu.value is True else "maybe-cuda"
    )


def _cpu_value(args: Arguments, _: Keywords) -> Thing:
    return Thing(option=True, type="str") if args else NOTHING


_GPU = Thing(test=(GPU_PRESENT,))
_RANK = Thing(type="rank", option=True)
_SPECIAL: dict[str, Callable[[Arguments, Keywords], Thing]] = {
    **{name: _constantly(Thing(type=name)) for name in LOWER_CLASSES},
    "torch.cuda.is_available": _constantly(_GPU),
    "torch.accelerator.is_available": _constantly(_GPU),
    "torch.cuda.is_bf16_supported": _constantly(_GPU),
    "torch.accelerator.current_accelerator": _constantly(Thing(type=DEVICE, device="maybe-cuda")),
    "torch.device": _device_made,
    "torch.cuda.current_device": _constantly(Thing(device="cuda")),
    "torch.distributed.get_rank": _constantly(_RANK),
    "torch.distributed.get_node_local_rank": _constantly(_RANK),
    "enumerate": _enumerated,
    "zip": _zipped,
    "itertools.chain": lambda args, _: args[0] if args else NOTHING,
    "next": lambda args, _: _elements(args),
    "torch.utils.data.random_split": _split_data,
    "deepspeed.initialize": _engine,
    "accelerate.Accelerator": _accelerator,
    "wandb.init": _constantly(Thing(type="wandb.Run")),
    "range": _constantly(Thing(elem=NUMBER)),
    "len": _constantly(NUMBER),
    "os.environ.get": _cpu_value,
    "os.getenv": _cpu_value,
    "torch.cuda.amp.GradScaler": _constantly(Thing(type="torch.cuda.amp.GradScaler")),
    "torch.amp.GradScaler": _constantly(Thing(type="torch.amp.GradScaler")),
    "torch.nn.Parameter": lambda args, _: Thing(
        type="torch.nn.Parameter", device=args[0].device if args else "cpu", graph=True
    ),
    "torch.is_grad_enabled": _constantly(NOTHING),
    "transformers.get_scheduler": _constantly(Thing(type=SCHEDULER)),
    "torch.isnan": lambda args, _: Thing(type=TENSOR, device=device_among(args, {}), test=(FAILED,)),
    "torch.isinf": lambda args, _: Thing(type=TENSOR, device=device_among(args, {}), test=(FAILED,)),
    "math.isnan": _constantly(Thing(test=(FAILED,))),
    "math.isinf": _constantly(Thing(test=(FAILED,))),
    "numpy.isnan": _constantly(Thing(test=(FAILED,))),
    "numpy.isinf": _constantly(Thing(test=(FAILED,))),
    "torch.isfinite": lambda args, _: Thing(type=TENSOR, device=device_among(args, {}), test=(FINITE,)),
    "math.isfinite": _constantly(Thing(test=(FINITE,))),
    "numpy.isfinite": _constantly(Thing(test=(FINITE,))),
}
