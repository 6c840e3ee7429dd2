"""What calls of known libraries give back: types, devices, graphs, without knowing the libraries' code."""

import ast
import re
from collections.abc import Callable, Mapping, Sequence

from gpudoctor.model.signs.source import GuardKind, Known
from gpudoctor.vitals.source.kinds import TENSOR_METHODS as TENSOR_METHODS
from gpudoctor.vitals.source.kinds import kind_of
from gpudoctor.vitals.source.things import (
    BATCH,
    DEVICE,
    LOADER,
    MODULE,
    NOTHING,
    NUMBER,
    OPTIMIZER,
    SCHEDULER,
    TENSOR,
    TEXT,
    Meaning,
    Thing,
    join,
    join_devices,
    tensor,
)

GPU_PRESENT = Meaning(kind=GuardKind.SWITCH, value=Known(value=True, origin="with a GPU"))
RANK_ZERO = Meaning(kind=GuardKind.RANK)
FAILED = Meaning(kind=GuardKind.FAILURE)
FINITE = FAILED.opposite()

_DEVICE_TEXT = re.compile(r"(cuda|cpu|mps|xpu|npu|gpu)(?::\d*)?$")
_DEVICE_NAME = re.compile(r"(?:\w*_)?(?:rank|gpu|gpu_id|device_id|dev)s?$")

# Members of torch itself that give no tensor.
_NO_TENSOR = frozenset(
    [
        "save",
        "load",
        "manual_seed",
        "seed",
        "initial_seed",
        "set_default_dtype",
        "set_default_device",
        "set_default_tensor_type",
        "get_default_dtype",
        "is_tensor",
        "is_grad_enabled",
        "set_grad_enabled",
        "no_grad",
        "enable_grad",
        "inference_mode",
        "autocast",
        "compile",
        "device",
        "set_float32_matmul_precision",
        "get_float32_matmul_precision",
        "set_num_threads",
        "get_num_threads",
        "numel",
        "is_floating_point",
        "is_complex",
        "allclose",
        "equal",
        "Generator",
        "get_rng_state",
        "set_rng_state",
        "use_deterministic_algorithms",
        "finfo",
        "iinfo",
        "Size",
        "set_printoptions",
        "typename",
        "is_autocast_enabled",
        "vmap",
    ]
)
_FACTORIES = frozenset(
    [
        "tensor",
        "zeros",
        "ones",
        "empty",
        "full",
        "rand",
        "randn",
        "randint",
        "arange",
        "linspace",
        "eye",
        "randperm",
        "as_tensor",
        "from_numpy",
        "logspace",
        "asarray",
        "normal",
        "tril_indices",
        "triu_indices",
        "hann_window",
        "FloatTensor",
        "LongTensor",
        "IntTensor",
        "Tensor",
        "BoolTensor",
    ]
)
_NO_GRAPH = frozenset(["argmax", "argmin", "eq", "ne", "gt", "lt", "ge", "le", "isnan", "isinf", "isfinite", "sign", "floor", "ceil", "round", "argsort", "detach_", "bincount", "unique", "detach", "any", "all", "long", "int", "bool", "zero_", "randn_like", "zeros_like", "ones_like"])  # fmt: skip
_READS = frozenset(
    [
        "item",
        "tolist",
        "numpy",
        "size",
        "dim",
        "numel",
        "ndimension",
        "element_size",
        "nelement",
        "stride",
        "data_ptr",
        "storage",
        "get_device",
        "is_contiguous",
        "is_floating_point",
        "backward",
        "register_hook",
        "retain_grad",
        "dtype",
        "__len__",
        "is_pinned",
        "tobytes",
    ]
)
_WRAPPERS = frozenset({
    "torch.compile", "torch.jit.script", "torch.jit.trace", "copy.deepcopy", "copy.copy",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "accelerate.Accelerator.unwrap_model", "torch.jit.freeze",
    "torch.jit.optimize_for_inference", "torch.distributed.checkpoint.wrapper", "peft.prepare_model_for_kbit_training",
    "apex.parallel.convert_syncbn_model", "lightning.Fabric.to_device", "torch.fx.symbolic_trace", "iter", "reversed",
    "sorted", "tqdm.tqdm", "list", "tuple", "tqdm", "rich.progress.track", "itertools.cycle", "itertools.islice",
    "alive_progress.alive_it", "progressbar.progressbar", "tqdm.tqdm_notebook", "torch.autograd.Variable",
    "lightning.Fabric.all_reduce", "torch.utils.data.backward_compat", "iter.__iter__",
})  # fmt: skip
_DDP = frozenset({
    "torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel", "apex.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard", "horovod.torch.DistributedOptimizer",
    "torch_xla.distributed.xla_multiprocessing.MpModelWrapper", "peft.get_peft_model", "torch.optim.swa_utils.AveragedModel",
})  # fmt: skip
_PREPARES = frozenset({"accelerate.Accelerator.prepare", "lightning.Fabric.setup", "apex.amp.initialize"})
_LOADER_PREPARES = frozenset({
    "accelerate.Accelerator.prepare_data_loader", "lightning.Fabric.setup_dataloaders",
    "torch_xla.distributed.parallel_loader.MpDeviceLoader", "torch_xla.distributed.parallel_loader.ParallelLoader",
})  # fmt: skip
_FROM = re.compile(r"\.(?:from_pretrained|from_config|load_from_checkpoint|from_single_file)$")

Arguments = Sequence[Thing]
Keywords = Mapping[str, Thing]


def device_of(thing: Thing | None) -> str | None:
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


def call_result(name: str, args: Arguments, keywords: Keywords, node: ast.Call, no_grad: bool) -> Thing:
    """What a call of a library function or class gives; NOTHING when it cannot be told."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args, keywords)
    if name in _WRAPPERS:
        return args[0] if args else NOTHING
    if name in _DDP or name in _LOADER_PREPARES:
        return _wrapped(name, args, node)
    if name in _PREPARES:
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
        device = "cpu" if kind_of(name) == MODULE else None
        elem = None
        attrs = None
        if kind_of(name) == LOADER:
            elem = Thing(type=BATCH, device="cpu")
        elif name in ("torch.nn.ModuleList", "torch.nn.Sequential"):
            elem = element(
                args[0] if len(args) == 1 and args[0].type in (None, "list") else Thing(items=tuple(args))
            )
        elif name == "torch.nn.ModuleDict" and args:
            attrs = args[0].keys
        return Thing(type=name, device=device, elem=elem, attrs=attrs, made=node)
    return NOTHING


def _wrapped(name: str, args: Arguments, node: ast.Call) -> Thing:
    if not args:
        return NOTHING
    if name in _LOADER_PREPARES:
        return _on(args[0], "maybe-cuda")
    inner = args[0]
    if name.startswith("torch.nn.") or name.startswith("torch.distributed.fsdp.Fully"):
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
    if rest.startswith("nn.functional.") or rest.startswith(("linalg.", "fft.", "special.")):
        return tensor(_device(args, keywords), graph=not no_grad and last not in _NO_GRAPH and _any_graph(args))
    if "." not in rest:
        if rest in _NO_TENSOR:
            return NOTHING
        if rest in _FACTORIES:
            device = device_of(keywords.get("device"))
            copied = args[0].device if rest in ("as_tensor", "tensor") and args else None
            return tensor(device or copied or "cpu")
        if rest[0].islower():
            graph = not no_grad and rest not in _NO_GRAPH and _any_graph(args)
            return tensor(_device(args, keywords), graph=graph)
    return None


def _device(args: Arguments, keywords: Keywords) -> str | None:
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


def _any_graph(args: Arguments) -> bool:
    return any(
        a.graph or (a.elem is not None and a.elem.graph) or any(i.graph for i in a.items or ()) for a in args
    )


def tensor_method(base: Thing, method: str, args: Arguments, keywords: Keywords, no_grad: bool) -> Thing:
    """What a method of a tensor (or batch) gives."""
    if method in ("cuda", "cpu", "to"):
        return moved(base, method, args, keywords)
    if method in ("values", "items", "keys") and base.type == BATCH:
        part = tensor(base.device)
        return Thing(elem={"values": part, "items": Thing(items=(TEXT, part)), "keys": TEXT}[method])
    if method == "item" and base.test:
        return NUMBER.but(test=base.test)
    if method in ("item", "tolist", "numpy") or method in _READS:
        return NUMBER if method in ("item", "size", "numel", "dim") else NOTHING
    if method in ("split", "chunk", "unbind"):
        return Thing(elem=tensor(base.device, base.graph))
    if base.type == BATCH and method not in TENSOR_METHODS:
        return tensor(base.device)
    if method == "pin_memory":
        return base
    if method in ("any", "all") and base.test:
        return tensor(base.device).but(test=base.test)
    graph = (base.graph or _any_graph(args)) and not no_grad and method not in _NO_GRAPH
    return tensor(base.device, graph)


def moved(base: Thing, method: str, args: Arguments, keywords: Keywords) -> Thing:
    """A tensor, batch or module after `.to(...)`, `.cuda()` or `.cpu()`."""
    if method == "cpu":
        return base.but(device="cpu")
    if method == "cuda":
        return base.but(device="cuda")
    target = keywords.get("device") or (args[0] if args else None)
    if target is None:
        return base
    device = device_of(target) or (target.device if target.type == TENSOR else None)
    return base.but(device=device) if device else base


def _elements(args: Arguments) -> Thing:
    return element(args[0]) if args else NOTHING


def element(thing: Thing) -> Thing:
    """What iterating over a thing gives."""
    if thing.elem is not None:
        return thing.elem
    if thing.items is not None:
        found = thing.items[0] if thing.items else NOTHING
        for item in thing.items[1:50]:
            found = join(found, item)
        return found
    if thing.type == TENSOR:
        return thing.but(type=TENSOR)
    if thing.type == BATCH:
        return tensor(thing.device)
    if kind_of(thing.type) == LOADER:
        return Thing(type=BATCH, device="cuda" if thing.device == "cuda" else thing.device or "cpu")
    return NOTHING


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
_LOWER_CLASSES = (
    "torch.profiler.profile",
    "torch.autograd.profiler.profile",
    "torch.autograd.profiler.emit_nvtx",
    "torch.autocast",
    "torch.cuda.amp.autocast",
    "torch.profiler.record_function",
    "torch.cuda.stream",
)
_SPECIAL: dict[str, Callable[[Arguments, Keywords], Thing]] = {
    **{name: _constantly(Thing(type=name)) for name in _LOWER_CLASSES},
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
    "torch.isnan": lambda args, _: Thing(type=TENSOR, device=_device(args, {}), test=(FAILED,)),
    "torch.isinf": lambda args, _: Thing(type=TENSOR, device=_device(args, {}), test=(FAILED,)),
    "math.isnan": _constantly(Thing(test=(FAILED,))),
    "math.isinf": _constantly(Thing(test=(FAILED,))),
    "numpy.isnan": _constantly(Thing(test=(FAILED,))),
    "numpy.isinf": _constantly(Thing(test=(FAILED,))),
    "torch.isfinite": lambda args, _: Thing(type=TENSOR, device=_device(args, {}), test=(FINITE,)),
    "math.isfinite": _constantly(Thing(test=(FINITE,))),
    "numpy.isfinite": _constantly(Thing(test=(FINITE,))),
}


def tensors_device(things: Arguments) -> str | None:
    """Where the tensors among some things live."""
    return _device(things, {})
