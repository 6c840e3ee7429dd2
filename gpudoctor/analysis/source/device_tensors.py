"""Where a program trains, and which of its values are tensors on that device, as far as the source tells."""

import ast
import re
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.syntax import is_attribute, keyword_value
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
    seen = {script_target(script) for script in source.scripts}
    for target in (Target.CUDA, Target.MAYBE, Target.OTHER, Target.CPU):
        if target in seen:
            return target
    return Target.NONE


@once
def script_target(script: Script) -> Target:
    """The device that a script trains on, by its strongest word."""
    words = {word for call in script.calls if (word := _device_word(script, call)) is not None}
    if any(word.startswith("cuda") or word.isdigit() for word in words):
        return Target.CUDA
    if "maybe-cuda" in words or _engine(script):
        return Target.MAYBE
    if any(word == "?" or word.startswith(_OTHER_DEVICES) for word in words):
        return Target.OTHER
    return Target.CPU if "cpu" in words else Target.NONE


def _engine(script: Script) -> bool:
    roots = {name.split(".")[0] for name in script.imports.values()}
    if "transformers" in roots - {"accelerate"} and not any(
        call.method.endswith("Trainer") or call.method == "pipeline" for call in script.calls
    ):
        roots.discard("transformers")
    return bool(roots & _ENGINES)


def _device_word(script: Script, call: Call) -> str | None:
    """The device that a call names: a word, `?` when only a run can tell, None when it names none."""
    if call.method == "cuda" and not call.name.startswith("torch.cuda"):
        return "cuda"
    value = keyword_value(call.node, "device")
    if call.name in {"torch.device", "torch.set_default_device", "torch.accelerator.current_accelerator"}:
        value = value or next(iter(call.node.args), None)
        return "?" if value is None else device_of(script, value)
    if value is None and call.method in {"to", "to_empty"} and call.node.args:
        value = call.node.args[0]
    if value is None or isinstance(value, ast.Starred):
        return None
    moved = script.thing(call.node).device or ""
    return moved if "cuda" in moved else device_of(script, value)


def device_of(script: Script, value: ast.expr) -> str | None:
    """`cuda`, `maybe-cuda`, `cpu`, another word, `?` when unknown, None when it is a dtype or the like."""
    thing = script.thing(value)
    if isinstance(thing.value, Known) and type(thing.value.value) in (str, int):
        return "cuda" if isinstance(thing.value.value, int) else str(thing.value.value).split(":")[0]
    text = ast.unparse(value)
    if re.match(r"torch\.(float|bfloat|half|int|long|double|bool|uint|complex)", text) or "dtype" in text:
        return None
    if is_attribute(value, "device") and script.thing(value.value).type == "torch.Tensor":
        return None  # where another tensor is, which says nothing new
    return thing.device or ("?" if re.search("dev|rank|gpu", text.lower()) else None)


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
