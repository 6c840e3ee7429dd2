"""Where a program trains, and which of its values are tensors on that device, as far as the source tells."""

import ast
from enum import Enum

from gpudoctor.analysis.source.syntax import is_attribute
from gpudoctor.model.signs.source import Call, Event, Known, Loop, Script, Source, Unknown

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


class DeviceTensors:
    """Which expressions of a training loop's pass are tensors on the training device."""

    def __init__(self, loop: Loop) -> None:
        self._engine = loop.engine is not None  # it moves the model and the batch unseen
        self._losses = {
            (event.span.path, event.call.receiver)
            for event in loop.calls(".backward")
            if event.call is not None and event.call.receiver.isidentifier()
        }

    def holds(self, value: ast.expr, event: Event) -> bool:
        """Whether an expression is a tensor on the device."""
        thing = event.thing(value)
        if thing.type == "torch.Tensor":
            return self._engine or thing.device != "cpu"
        if isinstance(value, ast.Name) and thing.type is None and isinstance(thing.value, Unknown):
            return (event.span.path, value.id) in self._losses
        return False
