"""From a training config to the job that it describes: what the config readers say, under the job's names."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.job import OPTIMIZERS, meant
from gpudoctor.lang import say

if TYPE_CHECKING:
    from gpudoctor.model import Setting, SourceSpan
    from gpudoctor.model.signs.configs import ConfigFile


@dataclass(slots=True)
class DeclaredJob:
    """What configs and scripts say of a job."""

    model: str | None = None
    """The model's name, path or hub id."""
    fields: dict[str, Any] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    """What they left open, and how it was taken."""
    places: "dict[str, Setting | SourceSpan]" = field(default_factory=dict)
    """Field (and `model`) to where it is written."""
    guessed: set[str] = field(default_factory=set)
    """Fields whose value nobody wrote and no tool's default settles."""

    def tell(self, name: str, value: Any, place: "Setting | SourceSpan | None") -> None:
        """One field as somebody wrote it."""
        self.fields[name] = value
        self.guessed.discard(name)
        if place is not None:
            self.places[name] = place


def settle(fields: Mapping[str, Any], told: DeclaredJob) -> dict[str, Any]:
    """Fields of configs with those of the command line over them, made to agree where configs leave gaps."""
    settled = {**told.fields, **fields}
    world = settled.get("gpus", 1) * settled.get("nodes", 1)
    if world == 1 and "parallel" in told.fields and "parallel" not in fields and "gpus" not in settled:
        told.assumptions.append(
            say(
                "{parallel} without a number of GPUs in any config: counted on 1 (set --gpus)",
                parallel=settled["parallel"],
            )
        )
    split = settled.get("tp", 1) * settled.get("pp", 1) * settled.get("cp", 1)
    if world > 1 and split == 1 and told.fields and settled.get("parallel", "none") == "none":
        settled["parallel"] = fields.get("parallel", "ddp")
        told.assumptions.append(say("{world} GPUs and no sharding in the configs: ddp", world=world))
    return settled


_MOST = 10**9
DTYPES = {
    "bf16": "bf16", "bfloat16": "bf16",
    "fp16": "fp16", "float16": "fp16",
    "half": "fp16", "fp32": "fp32",
    "float32": "fp32", "float": "fp32",
    "16": "fp16", "32": "fp32",
    "bf16-true": "bf16", "16-true": "fp16",
}  # fmt: skip
ATTENTION = {
    "flash_attention_2": "flash", "flash_attention_3": "flash", "fa2": "flash", "fa3": "flash",
    "flash": "flash", "sdpa": "sdpa", "eager": "eager", "disabled": "eager",
}  # fmt: skip
_METHODS = frozenset({"full", "freeze", "lora", "qlora", "dora"})
_DISTRIBUTED = {"MULTI_GPU": "ddp", "FSDP": "fsdp"}
_PLACES = {
    "model": ("model",),
    "seq": ("sequence_length",),
    "batch": ("micro_batch", "batch"),
    "accumulate": ("gradient_accumulation",),
    "checkpointing": ("gradient_checkpointing",),
    "method": ("quantisation_bits", "lora_r", "method"),
    "optimizer": ("optimizer",),
    "dtype": ("model_dtype", "precision"),
    "parallel": ("distributed", "zero_stage"),
    "offload": ("offload_optimizer", "offload_param"),
    "lora_rank": ("lora_r",),
}
"""Field to the canonical names whose last entry says it."""
LIGER = ("use_liger_kernel", "enable_liger_kernel", "liger_fused_linear_cross_entropy", "use_liger")


def read_config(file: "ConfigFile", told: DeclaredJob, *, placed: bool = True) -> None:
    """Add what a file says; a later file wins. `UsageError` for one that is no training config.

    Without `placed`, `told.places` stays as it is: evidence is for findings, and costs its imports.
    """
    from gpudoctor.model.signs.configs import ConfigKind

    if file.kind is ConfigKind.MODEL:
        told.model = file.path
        return
    if not file.kind.trains:
        raise UsageError(
            "{path} is not a known training config (Hugging Face, DeepSpeed, accelerate, "
            "LLaMA-Factory, axolotl, torchtune, Lightning) and not a model's config.json",
            path=file.path,
        )
    model = _last(file, "model")
    if isinstance(model, str) and file.kind is ConfigKind.TORCHTUNE:
        model = _component(model)
        told.fields["stack"] = "torchtune"
    if isinstance(model, str):
        beside = os.path.join(os.path.dirname(file.path), model)
        told.model = beside if os.path.exists(beside) and not os.path.exists(model) else model
    for step in (_numbers, _method, _types, _step, _several_gpus):
        step(file, told)
    for name, words in _PLACES.items() if placed else ():
        found = [meaning for word in words for meaning in file.meaning(word)]
        if found:
            told.places[name] = found[-1].setting


def _component(name: str) -> str:
    """torchtune.models.llama3_1.lora_llama3_1_8b -> llama3.1-8b, ...qwen2.qwen2_0_5b -> qwen2-0.5b.

    An underscore may be the point of a release or of a size; the module's name says where the release ends.
    """
    *modules, last = name.split(".")
    last = last.removeprefix("qlora_").removeprefix("lora_")
    family = modules[-1] if modules and last.startswith(modules[-1] + "_") else ""
    size = re.sub(r"^(\d+)_(\d+b)", r"\1.\2", last.removeprefix(family).removeprefix("_"))
    release = re.sub(r"(\d)_(\d)", r"\1.\2", family)
    return "-".join(filter(None, (release, size))).replace("_", "-")


def _last(file: "ConfigFile", name: str) -> Any:
    """The last value that a file gives to a canonical name; None when it says nothing."""
    found = file.meaning(name)
    return found[-1].value if found else None


def _numbers(file: "ConfigFile", told: DeclaredJob) -> None:
    """Counts whose meaning is the same in every tool. 0 and less mean "not set" in most of them."""
    for name, field_name in (
        ("sequence_length", "seq"), ("micro_batch", "batch"), ("batch", "batch"),
        ("gradient_accumulation", "accumulate"), ("lora_r", "lora_rank"),
    ):  # fmt: skip
        value = _last(file, name)
        if isinstance(value, int) and value > 0:
            told.fields[field_name] = value
    dropout = _last(file, "lora_dropout")
    if isinstance(dropout, int | float):
        told.fields["lora_dropout"] = float(dropout)
    targets = _last(file, "lora_targets")
    if isinstance(targets, tuple) and targets:
        told.fields["lora_targets"] = targets_of(targets, told)


def targets_of(names: tuple[Any, ...], told: DeclaredJob) -> tuple[str, ...]:
    """Adapted modules by names that the job knows; others are left out with a word."""
    from gpudoctor.estimate.job import roles

    known: list[str] = []
    for name in map(str, names):
        if name in {"all", "all-linear"}:
            return ("all-linear",)
        try:
            known += roles((name,))
        except UsageError:
            told.assumptions.append(say("lora target {name!r} is not known, so it is not counted", name=name))
    return tuple(dict.fromkeys(known)) or ("all-linear",)


def _method(file: "ConfigFile", told: DeclaredJob) -> None:
    """Full, adapters or part of the layers; on which base."""
    from gpudoctor.model.signs.configs import ConfigKind

    said = _last(file, "method")
    if isinstance(said, str) and said not in _METHODS:
        told.guessed.add("method")
        told.assumptions.append(
            say(
                "{said!r} of {path} is not a known method; the nearest known one is estimated",
                said=said,
                path=file.path,
            )
        )
    bits = _last(file, "quantisation_bits")
    adapted = said in {"lora", "qlora", "dora"} or bool(_last(file, "lora")) or _last(file, "lora_r") is not None
    if file.kind is ConfigKind.TORCHTUNE:
        component = str(_last(file, "model") or "").rsplit(".", 1)[-1]
        adapted = component.startswith(("lora_", "qlora_"))
        bits = 4 if component.startswith("qlora_") else bits
    if said == "freeze":
        told.fields["method"] = "freeze"
    elif said == "full" or (not adapted and bits is None):
        if file.kind is not ConfigKind.DEEPSPEED and file.kind is not ConfigKind.ACCELERATE:
            told.fields.setdefault("method", "full")
    else:
        on = {4: "qlora", 8: "int8-lora"}.get(bits if isinstance(bits, int) else 0, "lora")
        told.fields["method"] = "qlora" if said == "qlora" else on
    if file.kind is ConfigKind.LLAMA_FACTORY and adapted:
        told.fields.setdefault("lora_rank", 8)  # its default
    quant = _last(file, "quantisation_type")
    if quant in {"nf4", "fp4"}:
        told.fields["quant"] = quant
    double = file.value("bnb_4bit_use_double_quant", "double_quantization")
    if isinstance(double, bool):
        told.fields["double_quant"] = double


def _types(file: "ConfigFile", told: DeclaredJob) -> None:
    """Types of the weights and of the arithmetic, as the file's tool reads them."""
    from gpudoctor.model.signs.configs import ConfigKind

    dtype = DTYPES.get(str(_last(file, "model_dtype") or _last(file, "precision") or "").removeprefix("torch."))
    mixed = next((name for name in ("bf16", "fp16") if _last(file, name) is True), None)
    if file.kind is ConfigKind.TORCHTUNE:
        mixed = None
    if file.kind in {ConfigKind.DEEPSPEED, ConfigKind.ACCELERATE}:
        if mixed:  # the engine casts the weights and keeps an fp32 master copy
            told.fields |= {"dtype": mixed}
        return
    if dtype:
        told.fields["dtype"] = dtype
    if mixed:
        told.fields["mixed_precision"] = mixed
        if not dtype:
            full = told.fields.get("method") == "full"
            whole = full and file.kind is ConfigKind.LLAMA_FACTORY and file.value("pure_bf16") is not True
            told.fields["dtype"] = "fp32" if whole else mixed
            why = say("LLaMA-Factory trains in fp32") if whole else say("the checkpoint's type")
            told.assumptions.append(
                say(
                    "{path} names no dtype of the weights: {dtype}, {why}",
                    path=file.path,
                    dtype=told.fields["dtype"],
                    why=why,
                )
            )
            if file.kind not in {ConfigKind.LLAMA_FACTORY, ConfigKind.AXOLOTL}:  # these load in that type
                told.guessed.add("dtype")
    elif not dtype and file.kind is ConfigKind.HUGGINGFACE:
        told.fields["dtype"] = "fp32"
        told.guessed.add("dtype")
        told.assumptions.append(
            say("{path} sets neither bf16 nor fp16: weights and arithmetic in fp32", path=file.path)
        )


def _step(file: "ConfigFile", told: DeclaredJob) -> None:
    """Checkpointing, attention, loss, optimizer."""
    from gpudoctor.model.signs.configs import ConfigKind

    keeps = _last(file, "gradient_checkpointing")
    if isinstance(keeps, bool):
        told.fields["checkpointing"] = "layer" if keeps else "none"
    elif file.kind is ConfigKind.LLAMA_FACTORY:
        told.fields["checkpointing"] = "layer"  # its default
    elif file.kind in {ConfigKind.HUGGINGFACE, ConfigKind.AXOLOTL, ConfigKind.TORCHTUNE}:
        told.fields["checkpointing"] = "none"
        told.assumptions.append(say("{path} does not set gradient checkpointing: none", path=file.path))
    attention = ATTENTION.get(str(_last(file, "attention")))
    for name, kind in (("flash_attention", "flash"), ("sdp_attention", "sdpa"), ("eager_attention", "eager")):
        attention = kind if _last(file, name) is True else attention
    if attention:
        told.fields["attention"] = attention
    optimizer = _last(file, "optimizer")
    if isinstance(optimizer, str):
        _optimizer(optimizer, file, told)
    loss = file.value("loss._component_")
    if any(file.value(name) is True for name in LIGER) or (isinstance(loss, str) and "Chunked" in loss):
        told.fields |= {"loss": "chunked"} | ({} if loss else {"fused_norm": True})
    if file.kind is ConfigKind.AXOLOTL and "cut_cross_entropy" in file.text:  # its plugin
        told.fields["loss"] = "chunked"
    if _last(file, "compile") is True:
        told.fields["compiled"] = True


def known_optimizer(name: str) -> str | None:
    """The job's word for an optimizer of any tool; None for one that is not known."""
    found = meant("optimizer", name.rsplit(".", 1)[-1])
    return found if found in OPTIMIZERS else None


def _optimizer(name: str, file: "ConfigFile", told: DeclaredJob) -> None:
    found = known_optimizer(name)
    if found is None:
        told.guessed.add("optimizer")
        told.assumptions.append(
            say("optimizer {name!r} of {path} is not known: counted as adamw", name=name, path=file.path)
        )
    else:
        told.fields["optimizer"] = found


def _several_gpus(file: "ConfigFile", told: DeclaredJob) -> None:
    """Processes, nodes, ZeRO and FSDP."""
    processes, nodes = _last(file, "processes"), _last(file, "nodes")
    if isinstance(nodes, int) and 1 <= nodes <= _MOST:
        told.fields["nodes"] = nodes
    if isinstance(processes, int) and processes >= 1:
        told.fields["gpus"] = max(processes // told.fields.get("nodes", 1), 1)
    parallel = _DISTRIBUTED.get(str(_last(file, "distributed")))
    if file.has("fsdp_config") or file.value("fsdp") not in (None, "", False, ()):
        parallel = "fsdp"
    stage = _last(file, "zero_stage")
    if isinstance(stage, int) and 0 <= stage <= 3:
        parallel = f"zero{stage}" if stage else "ddp"
    if parallel:
        told.fields["parallel"] = parallel
    for name, what in (("offload_optimizer", "optimizer"), ("offload_param", "params")):
        value = _last(file, name)
        if value is True or value in {"cpu", "nvme"}:
            told.fields["offload"] = what
