"""Where a program trains, and which of its values are tensors on that device, as far as the source tells."""

import ast
from enum import Enum

from gpudoctor.analysis.source.scopes import Key
from gpudoctor.analysis.source.syntax import is_attribute, is_method_call, is_name
from gpudoctor.model.signs.source import Call, Event, Known, Loop, Script, Source

_ENGINES = frozenset(
    {"accelerate", "lightning", "pytorch_lightning", "transformers", "trl", "deepspeed", "fastai", "ignite",
     "composer", "catalyst", "colossalai", "megatron", "unsloth", "torchtune", "ultralytics", "mmengine"}
)  # fmt: skip
_OTHER_DEVICES = ("mps", "xpu", "hpu", "npu", "xla", "tpu", "meta")


class Target(Enum):
    """The device that the training is meant for."""

    CUDA = "cuda"
    MAYBE = "maybe-cuda"
    """CUDA where there is a card: the is_available idiom, or an engine that chooses."""
    CPU = "cpu"
    """Named, and nothing else is."""
    NONE = "none"
    """The program never speaks of a device: torch's default, the CPU."""
    OTHER = "other"
    """Another accelerator, or a device that only a run can tell."""

    @property
    def on_gpu(self) -> bool:
        """Whether tensors of the training may be on a GPU."""
        return self in (Target.CUDA, Target.MAYBE, Target.OTHER)


def training_target(source: Source) -> Target:
    """The device that the program trains on, by the strongest word in any of its scripts."""
    seen = {_script_target(script) for script in source.scripts}
    for target in (Target.CUDA, Target.MAYBE, Target.OTHER, Target.CPU):
        if target in seen:
            return target
    return Target.NONE


def _script_target(script: Script) -> Target:
    # Whatever was never moved counts as `cpu` there; only a device object says that somebody chose it.
    known = set(script.devices.values()) - {"cpu"}
    if "cuda" in known:
        return Target.CUDA
    if "maybe-cuda" in known or _engine(script):
        return Target.MAYBE
    named = any(kind == "torch.device" and script.devices.get(name) == "cpu" for name, kind in script.types.items())
    other = False
    for call in script.calls:
        if call.method == "cuda" and not call.name.startswith("torch.cuda"):
            return Target.CUDA
        word = _device_word(script, call)
        if word is None:
            continue
        if word.startswith("cuda") or word.isdigit():
            return Target.CUDA
        named = named or word == "cpu"
        other = other or word == "?" or word.startswith(_OTHER_DEVICES)
    if other:
        return Target.OTHER
    return Target.CPU if named else Target.NONE


def _engine(script: Script) -> bool:
    roots = {name.split(".")[0] for name in script.imports.values()}
    if "transformers" in roots - {"accelerate"} and not any(
        call.method.endswith("Trainer") or call.method == "pipeline" for call in script.calls
    ):
        roots.discard("transformers")
    return bool(roots & _ENGINES)


def _device_word(script: Script, call: Call) -> str | None:
    """The device that a call names: a word, `?` when only a run can tell, None when it names none."""
    value: ast.expr | None = None
    if call.name in {"torch.device", "torch.set_default_device", "torch.accelerator.current_accelerator"}:
        value = call.node.args[0] if call.node.args else None
        if value is None:
            return "?"
    elif call.method in {"to", "to_empty"} and call.node.args and not isinstance(call.node.args[0], ast.Starred):
        value = call.node.args[0]
    for keyword in call.node.keywords:
        if keyword.arg == "device":
            value = keyword.value
    if value is None:
        return None
    return device_of(script, call.function, value)


def device_of(script: Script, scope: str, value: ast.expr) -> str | None:
    """`cuda`, `maybe-cuda`, `cpu`, another word, `?` when unknown, None when it is a dtype or the like."""
    if isinstance(value, ast.Constant):
        if isinstance(value.value, str):
            return value.value.split(":")[0]
        return "cuda" if isinstance(value.value, int) and not isinstance(value.value, bool) else None
    text = ast.unparse(value)
    if text.startswith(("torch.float", "torch.bfloat", "torch.half", "torch.int", "torch.long", "torch.double",
                        "torch.bool", "torch.uint", "torch.complex")) or "dtype" in text:  # fmt: skip
        return None
    if isinstance(value, ast.Call) and value.args and text.startswith("torch.device"):
        return device_of(script, scope, value.args[0])
    whole = scope
    while True:
        found = script.devices.get(f"{scope}.{text}" if scope else text)
        if found or not scope:
            break
        scope = scope.rpartition(".")[0]
    if found:
        return found
    if is_attribute(value, "device") and _is_tensor(script, whole, value.value):
        return None  # where another tensor is, which says nothing new
    option = script.arguments.get(text.rpartition(".")[2]) if isinstance(value, ast.Attribute) else None
    if isinstance(option, Known) and isinstance(option.value, str):
        return option.value.split(":")[0]
    if isinstance(value, ast.IfExp):
        words = {device_of(script, scope, value.body), device_of(script, scope, value.orelse)}
        return "maybe-cuda" if words & {"cuda", "maybe-cuda"} else "?"
    if isinstance(value, ast.JoinedStr):
        return "cuda" if text[2:].startswith("cuda") else "?"
    return "?" if "dev" in text.lower() or "rank" in text.lower() or "gpu" in text.lower() else None


def _is_tensor(script: Script, scope: str, value: ast.expr) -> bool:
    text = ast.unparse(value)
    return script.types.get(f"{scope}.{text}" if scope else text) == "torch.Tensor"


# Methods whose result is a tensor on the same device, and functions of torch that give no tensor.
_NO_TENSOR = frozenset(
    {"item", "tolist", "numpy", "cpu", "size", "dim", "numel", "element_size", "stride", "data_ptr", "type",
     "get_device", "is_floating_point", "is_contiguous", "keys", "backward", "step", "zero_grad", "format",
     "nelement", "ndimension", "state_dict", "parameters", "append", "update", "items", "values", "cuda_stream"}
)  # fmt: skip
_NO_TENSOR_FUNCTIONS = (
    "torch.cuda.", "torch.distributed.", "torch.utils.", "torch.backends.", "torch.is_", "torch.save",
    "torch.load", "torch.manual_seed", "torch.device", "torch.no_grad", "torch.get_", "torch.set_",
    "torch.optim",
    "torch.profiler", "torch.finfo", "torch.Generator", "torch.numel", "torch.nn.utils.clip_grad_value_",
    "torch.amp", "torch.autocast", "torch.compile", "torch.from_numpy", "torch.tensor", "torch.as_tensor",
    "torch.Size", "torch.onnx", "torch.jit", "torch.autograd", "torch.random", "torch.version",
)  # fmt: skip
_PLAIN_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout", "names"})
_TENSOR_ATTRIBUTES = frozenset({"weight", "bias", "grad", "data", "T", "mT"})
_MODELS = ("model", "net", "criterion", "loss_fn", "lossfn", "encoder", "decoder", "generator", "discriminator",
           "backbone", "classifier", "critic", "actor")  # fmt: skip


class DeviceTensors:
    """Names in a training loop that hold tensors on the training device, as the end of a pass leaves them."""

    def __init__(self, script: Script, loop: Loop) -> None:
        self.calls = {event.node: event.call for event in loop.events if event.call is not None}
        self.facts: dict[Key, bool] = {}
        self._script = script
        self._engine = loop.engine is not None  # it moves the model and the batch unseen
        for name in loop.targets:
            self.facts[(), name] = False  # a batch comes from the host until it is moved
        for event in loop.events:
            if event.call is not None and event.call.method == "backward" and event.call.receiver.isidentifier():
                self.facts[event.via, event.call.receiver] = True
        for event in loop.events:
            match event.node:
                case ast.Call(func=ast.Name(id=name)):
                    self.facts[event.via, name] = False  # what is called is no tensor
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self.bind(target, value, event)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self.bind(target, value, event)
                case ast.AugAssign(target=target, value=value) if self.holds(value, event):
                    self.facts[event.via, ast.unparse(target)] = True

    def holds(self, value: ast.expr, event: Event | None = None) -> bool:
        """Whether an expression is a tensor on the device."""
        if isinstance(value, ast.Name | ast.Attribute):
            return self._named(value, event)
        if isinstance(value, ast.Call):
            return self._called(value, event)
        if isinstance(value, ast.Compare):
            if any(isinstance(operator, ast.Is | ast.IsNot | ast.In | ast.NotIn) for operator in value.ops):
                return False
            sides = (value.left, *value.comparators)
            if any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides):
                return False  # what is compared with a text is none
            return any(self.holds(side, event) for side in sides)
        if isinstance(value, ast.BinOp):
            return self.holds(value.left, event) or self.holds(value.right, event)
        if isinstance(value, ast.UnaryOp):
            return self.holds(value.operand, event)
        if isinstance(value, ast.BoolOp):
            return any(self.holds(item, event) for item in value.values)
        if isinstance(value, ast.Subscript):
            return self.holds(value.value, event)
        return False

    def _named(self, value: ast.Name | ast.Attribute, event: Event | None) -> bool:
        text = ast.unparse(value)
        kind = event.types.get(text) if event is not None else None
        device = event.devices.get(text) if event is not None else None
        if kind is not None and kind != "torch.Tensor":
            return False
        if kind is not None and device is not None and not (device == "cpu" and self._engine):
            return device != "cpu"
        told = self.facts.get((event.via if event is not None else (), text))
        if told is not None:
            return told
        if kind is not None:
            return True
        if is_attribute(value, *_TENSOR_ATTRIBUTES):
            return self._on_module(value.value, event) or self.holds(value.value, event)
        plain = isinstance(value, ast.Attribute) and (value.attr in _PLAIN_ATTRIBUTES or value.attr.startswith("is_"))
        if isinstance(value, ast.Attribute) and not plain:
            return isinstance(value.value, ast.Name) and self._named(value.value, event)
        return False

    def _on_module(self, value: ast.expr, event: Event | None) -> bool:
        """Whether an expression is a module, or a part of one, that is on the device."""
        text = ast.unparse(value)
        kind = event.types.get(text, "") if event is not None else ""
        if kind.startswith("torch.nn."):
            return event is not None and event.devices.get(text, "cpu") != "cpu"
        return isinstance(value, ast.Attribute) and self._on_module(value.value, event)

    def _called(self, value: ast.Call, event: Event | None) -> bool:
        call = self.calls.get(value)
        name = call.name if call is not None else ast.unparse(value.func)
        method = name.rpartition(".")[2]
        if isinstance(value.func, ast.Attribute):
            if call is not None and call.receiver_device == "cpu" and not self._engine and method not in ("to", "cuda"):
                return False
            if method in ("to", "cuda"):
                words = [device_of(self._script, call.function if call else "", item) for item in value.args[:1]]
                return words != ["cpu"]
            if method in _NO_TENSOR:
                return False
            if name.startswith("torch.Tensor.") or self.holds(value.func.value, event):
                return True
        if name.startswith("torch.") and not name.startswith(_NO_TENSOR_FUNCTIONS):
            if self._given_by_host(value, event):
                return False
            return name.count(".") == 1 or name.startswith(("torch.nn.functional.", "torch.linalg.", "torch.fft."))
        return self._is_model(value.func, name, event)

    def _given_by_host(self, call: ast.Call, event: Event | None) -> bool:
        """Whether a function is given tensors of the host alone: `torch.isnan(x)` before `x.cuda()`."""
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        return any(self._on_host(item, event) for item in given) and not any(self.holds(item, event) for item in given)

    def _on_host(self, value: ast.expr, event: Event | None) -> bool:
        """Whether an expression is a tensor that is known to be on the host."""
        if isinstance(value, ast.Name | ast.Attribute):
            text = ast.unparse(value)
            tensor = event is not None and event.types.get(text) == "torch.Tensor"
            return tensor and event is not None and event.devices.get(text) == "cpu" and not self._engine
        if isinstance(value, ast.Call):
            if isinstance(value.func, ast.Attribute) and self._on_host(value.func.value, event):
                return value.func.attr not in ("to", "cuda")
            return ast.unparse(value.func).startswith("torch.") and self._given_by_host(value, event)
        if isinstance(value, ast.Compare):
            return self._on_host(value.left, event)
        if isinstance(value, ast.BinOp):
            return any(self._on_host(side, event) for side in (value.left, value.right))
        return isinstance(value, ast.UnaryOp | ast.Subscript) and self._on_host(
            value.operand if isinstance(value, ast.UnaryOp) else value.value, event
        )

    def _is_model(self, function: ast.expr, name: str, event: Event | None) -> bool:
        text = ast.unparse(function)
        kind = event.types.get(text, "") if event is not None else ""
        if kind.startswith("torch.nn.") or name.startswith("torch.nn.modules."):
            return True
        last = text.rpartition(".")[2].lower()
        return not kind and not name.startswith(("numpy.", "math.")) and any(
            last == word or last.endswith("_" + word) or last.startswith(word + "_") for word in _MODELS
        )  # fmt: skip

    def bind(self, target: ast.expr, value: ast.expr, event: Event) -> None:
        """The target is on the device if the value is; a name made from itself stays where it is."""
        if isinstance(target, ast.Tuple | ast.List):
            several = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for place, item in enumerate(target.elts):
                if several and isinstance(value, ast.Tuple | ast.List):
                    self.bind(item, value.elts[place], event)
                elif self._moves(value) or self.holds(value, event):
                    self.facts[event.via, ast.unparse(item)] = True
            return
        if isinstance(target, ast.Name | ast.Attribute):
            text = ast.unparse(target)
            key = (event.via, text)
            if _on_host(value):
                self.facts[key] = False
                return
            moved = self.holds(value, event) or self._moves(value)
            if moved or key in self.facts:
                self.facts[key] = moved or (self.facts[key] and _touches(value, text))

    def _moves(self, value: ast.expr) -> bool:
        """`{k: v.to(device) for k, v in batch.items()}` and its like."""
        if not isinstance(value, ast.DictComp | ast.ListComp | ast.GeneratorExp):
            return False
        body = value.value if isinstance(value, ast.DictComp) else value.elt
        return any(is_method_call(node, "to", "cuda") for node in ast.walk(body))


def _on_host(value: ast.expr) -> bool:
    """Whether an expression ends in a copy on the host: `x.detach().cpu().view(-1)`."""
    while is_method_call(value):
        if value.func.attr in ("cpu", "numpy", "tolist", "item"):
            return True
        if value.func.attr == "to" and any(ast.unparse(item).strip("'\"") == "cpu" for item in value.args):
            return True
        value = value.func.value
    return False


def _touches(value: ast.expr, text: str) -> bool:
    """Whether a name is made from itself, and not from a copy of it on the host."""
    nodes = list(ast.walk(value))
    if any(isinstance(node, ast.Call) and _on_host(node) for node in nodes):
        return False
    return any(is_name(node, text) for node in nodes)
