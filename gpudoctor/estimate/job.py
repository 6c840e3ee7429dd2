"""One training (or inference) job as the user would describe it, checked for combinations that cannot be."""

import math
import re
from collections.abc import Iterator, Sequence
from string import Formatter
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.tables import read_table, stacks
from gpudoctor.lang import template
from gpudoctor.model.records import fields, frozen

METHODS = ("full", "lora", "qlora", "int8-lora", "gptq-lora", "freeze")
DTYPES = ("bf16", "fp16", "fp32")
MIXED = ("no", "bf16", "fp16")
CHECKPOINTING = ("none", "layer", "selective", "offloaded")
ATTENTION = ("eager", "sdpa", "flash")
LOSSES = ("stock", "fused", "chunked")
QUANTS = ("nf4", "fp4")
PARALLEL = ("none", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp2")
OFFLOAD = ("none", "optimizer", "params")
MODES = ("train", "inference")
KV_DTYPES = ("bf16", "fp16", "fp32", "fp8", "int8", "int4")
OPTIMIZERS = (
    "adamw", "adamw-foreach", "adamw-fused", "adamw-8bit", "paged-adamw", "paged-adamw-8bit",
    "adamw-ao-8bit", "adamw-ao-4bit", "adafactor", "sgd", "sgd-momentum", "lion", "lion-8bit", "muon",
    "galore", "lomo", "in-backward", "in-backward-8bit",
)  # fmt: skip
STACKS = tuple(stacks())
IN_BACKWARD = frozenset({"lomo", "in-backward", "in-backward-8bit", "galore"})
"""Optimizers that step as soon as a gradient is there, so that one layer's gradients are alive at a time."""
ADAPTED = ("qlora", "lora", "int8-lora", "gptq-lora")
QUANTIZED = ("qlora", "int8-lora", "gptq-lora")
TARGETS: dict[str, tuple[str, ...]] = read_table("names.json")["targets"]
"""Short names for sets of adapted linears; a name of one linear (`q`, `q_proj`, `c_attn`...) is taken as it
is."""

_ROLES: dict[str, str] = read_table("names.json")["roles"]
CHOICES: dict[str, tuple[str, ...]] = {
    "method": METHODS, "dtype": DTYPES, "mixed_precision": MIXED, "optimizer": OPTIMIZERS, "quant": QUANTS,
    "checkpointing": CHECKPOINTING, "attention": ATTENTION, "loss": LOSSES, "parallel": PARALLEL,
    "offload": OFFLOAD, "mode": MODES, "kv_dtype": KV_DTYPES, "stack": STACKS, "lora_dtype": DTYPES,
}  # fmt: skip
_SPELLINGS: dict[str, str] = read_table("names.json")["spellings"]
"""What other programs call a choice, without its case and signs."""


def meant(name: str, text: str) -> str:
    """A choice however the ecosystem writes it: QLoRA, bfloat16, paged_adamw_8bit, zero-3; else the text itself."""
    bare = re.sub(r"[^a-z0-9]", "", text.lower())
    allowed = {choice.replace("-", ""): choice for choice in CHOICES[name]}
    return allowed.get(bare) or allowed.get(_SPELLINGS.get(bare, ""), text)


_COUNTS = (
    "seq", "batch", "accumulate", "checkpoint_every", "lora_rank", "gpus", "nodes", "tp", "pp", "cp", "ep",
    "concurrency",
)  # fmt: skip


@frozen
class TrainingJob:
    """How a model is trained or served. Field names are the command's flags and keys of its
    `--set`; the defaults are stated in its output."""

    mode: str = "train"
    """`train` or `inference`."""
    method: str = "full"
    """What is trained and how the base is held: see `METHODS`."""
    dtype: str = "bf16"
    """Type in which the (unquantized) weights are loaded."""
    mixed_precision: str = "no"
    """Autocast: `no`, or the type that matmuls run in."""
    master_weights: bool = False
    """An fp32 copy of the trained weights in the optimizer (DeepSpeed, Megatron, apex O2), gradients in the
    low type."""
    optimizer: str = "adamw"
    """`adamw` is torch's default, which is the foreach implementation on a GPU."""
    seq: int = 2048
    """Tokens in a row, after padding or packing."""
    batch: int = 1
    """Rows in a micro batch on one GPU."""
    accumulate: int = 1
    """Micro batches in a step."""
    checkpointing: str = "layer"
    """Gradient checkpointing: none, whole layers, selected operations, or whole layers with their inputs on
    the host."""
    checkpoint_every: int = 1
    """Which blocks are checkpointed: every one, or every n-th."""
    attention: str = "sdpa"
    loss: str = "stock"
    """Cross entropy: as the library has it, one fused kernel on whole logits, or chunked with the head (never
    whole logits)."""
    fused_norm: bool = False
    """Norm and rotary kernels that keep no fp32 copies (Liger, Apex, Transformer Engine, foak)."""
    compiled: bool = False
    """torch.compile of the model."""
    quant: str = "nf4"
    """4-bit type of qlora."""
    double_quant: bool = True
    """Whether qlora quantizes its scales too."""
    quant_group: int = 128
    """Weights that share a scale in a GPTQ or AWQ base; 0 = one scale a column."""
    kbit_prepare: bool = True
    """Whether PEFT's `prepare_model_for_kbit_training` is called on a quantized base (TRL, Axolotl, LLaMA-
    Factory do)."""
    experts_quantized: bool | None = None
    """Whether routed experts are quantized: None = as the library does (transformers 5 does not)."""
    lora_rank: int = 16
    lora_targets: tuple[str, ...] = ("all-linear",)
    """Adapted linears: `all-linear`, `attention`, `mlp`, or names."""
    lora_dropout: float = 0.0
    lora_dora: bool = False
    """DoRA: a magnitude per output and the weight's norm computed in every forward."""
    lora_dtype: str = "fp32"
    """Type of the adapters; PEFT makes them fp32 unless `autocast_adapter_dtype=False`."""
    train_embeddings: bool = False
    """Embedding and head are trained whole (`modules_to_save`)."""
    freeze_layers: int | None = None
    """Method freeze: how many layers stay frozen, from the bottom; None = all but two."""
    gpus: int = 1
    nodes: int = 1
    parallel: str = "none"
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    offload: str = "none"
    """What lives on the host."""
    context: int | None = None
    """Inference: tokens a sequence may grow to; None = `seq`."""
    concurrency: int = 1
    """Inference: sequences at a time."""
    kv_dtype: str = "bf16"
    """Inference: type of the cache."""
    outputs_kept: bool | None = None
    """Whether the loop keeps the logits through the backward; None = as its stack does."""
    lora_fused: bool = False
    """Fused LoRA kernels (Unsloth, foak) on a quantized base."""
    stack: str = "hf"
    """Whose code runs, in which release: chooses constants out of `data/stacks.json`."""

    def __post_init__(self) -> None:
        _refuse(self._wrong_fields(), self)
        object.__setattr__(self, "lora_targets", roles(self.lora_targets))
        _refuse(self._wrong_together(), self)

    def _wrong_fields(self) -> "Wrong":
        for name, allowed in CHOICES.items():
            parts = {"flag": name, "value": getattr(self, name), "allowed": ", ".join(allowed)}
            yield parts["value"] not in allowed, template("{flag} is {value!r}; it must be one of {allowed}"), parts
        for name in _COUNTS:
            parts = {"flag": name, "value": getattr(self, name)}
            yield not _is_whole(parts["value"], 1), template(
                "{flag} is {value!r}; it must be a whole number from 1 to 10^9"
            ), parts  # fmt: skip
        yield self.context is not None and not _is_whole(self.context, 1), template(
            "context is {context!r}; it must be a whole number from 1 to 10^9"
        )  # fmt: skip
        yield not _is_whole(self.quant_group, 0), template(
            "quant_group is {group!r}; it must be a whole number from 0 (one scale a column) to 10^9"
        ), {"group": self.quant_group}  # fmt: skip
        yield not isinstance(self.lora_dropout, (int, float)) or not 0 <= self.lora_dropout < 1, template(
            "lora_dropout is {lora_dropout!r}; it must be from 0 up to, not including, 1"
        )  # fmt: skip

    def _wrong_together(self) -> "Wrong":
        """Combinations that cannot be."""
        split = self.tp * self.pp * self.cp
        yield bool(self.world % split), template(
            "tp {tp} x pp {pp} x cp {cp} = {split} must divide the {world} GPUs (--gpus x nodes)"
        ), {"split": split}  # fmt: skip
        each = {"split": self.world // split}
        yield bool(self.world // split % self.ep), template(
            "ep {ep} must divide the {split} data-parallel GPUs (--gpus x nodes / tp / pp / cp)"
        ), each  # fmt: skip
        yield self.parallel == "none" and self.mode == "train" and self.world > split, template(
            "--parallel none leaves {split} of {world} GPUs without a part; use one of {parallel}, or tp, pp, cp"
        ), each | {"parallel": ", ".join(PARALLEL[1:])}  # fmt: skip
        yield self.method == "gptq-lora" and self.parallel == "zero3", template(
            "--method gptq-lora cannot be sharded by --parallel zero3: GPTQ's packed weights are "
            "buffers; use ddp, zero1, zero2 or fsdp"
        )  # fmt: skip
        yield self.method == "qlora" and self.parallel == "zero3" and self.stack == "hf-2023", template(
            "--method qlora cannot be sharded by --parallel zero3 with stack {stack}. It needs "
            "bitsandbytes 0.43 and PEFT 0.10. Use none, ddp, zero1 or zero2, or stack hf"
        )  # fmt: skip
        yield self.method in QUANTIZED and self.tp > 1 and self.mode == "train", template(
            "--method {method} cannot be split by tp {tp}: bitsandbytes and GPTQ layers are whole; use tp 1"
        )  # fmt: skip
        yield self.method == "int8-lora" and self.parallel in {"zero3", "fsdp", "fsdp2"}, template(
            "--method int8-lora cannot be sharded by --parallel {parallel}: bitsandbytes shards "
            "4-bit weights only. Use none, ddp, zero1 or zero2, or --method qlora"
        )  # fmt: skip
        two = self.mixed_precision != "no" and self.dtype != "fp32" and self.mixed_precision != self.dtype
        yield two and self.method == "full", template(
            "--dtype {dtype} with mixed_precision {mixed_precision} mixes two 16-bit types; "
            "allowed: no, {dtype}, or --dtype fp32"
        )  # fmt: skip
        yield self.offload != "none" and self.parallel not in {"zero1", "zero2", "zero3", "fsdp", "fsdp2"}, template(
            "offload {offload} needs --parallel zero1, zero2, zero3, fsdp or fsdp2; it is {parallel}"
        )  # fmt: skip
        yield self.offload == "params" and self.parallel in {"zero1", "zero2"}, template(
            "offload params needs --parallel zero3, fsdp or fsdp2; {parallel} keeps whole weights on each GPU"
        )  # fmt: skip
        yield self.optimizer in IN_BACKWARD and self.accumulate > 1, template(
            "--optimizer {optimizer} steps inside the backward; accumulate is {accumulate}, it must be 1"
        )  # fmt: skip

    @property
    def world(self) -> int:
        """All GPUs."""
        return self.gpus * self.nodes

    @property
    def data_parallel(self) -> int:
        """Data-parallel degree."""
        return self.world // (self.tp * self.pp * self.cp)

    @property
    def shards(self) -> int:
        """Over how many GPUs sharded state is spread (context parallel ranks shard with data parallel ones)."""
        return self.data_parallel * self.cp

    @property
    def adapted(self) -> bool:
        """Whether adapters are trained on a frozen base."""
        return self.method in ADAPTED

    @property
    def quantized(self) -> bool:
        """Whether the base is held in 4 or 8 bits."""
        return self.method in QUANTIZED

    def check(self, shape: ModelShape) -> None:
        """Refuse what this model cannot do; raises `UsageError`."""
        _refuse(self._wrong_for(shape), self, shape)

    def _wrong_for(self, shape: ModelShape) -> "Wrong":
        yield bool(shape.heads % self.tp), template(
            "tp {tp} must divide the {heads} heads of {name}; allowed: {allowed}"
        ), {"allowed": _divisors(shape.heads)}  # fmt: skip
        yield self.pp > shape.layers, template("pp {pp} is more than the {layers} layers of {name}")
        yield self.ep > 1 and not shape.experts, template("ep {ep}: {name} has no experts; it must be 1")
        yield bool(shape.experts and shape.experts % self.ep), template(
            "ep {ep} must divide the {experts} experts of {name}; allowed: {allowed}"
        ), {"allowed": _divisors(shape.experts)}  # fmt: skip
        yield shape.positions == "learned" and bool(shape.max_positions) and self.seq > shape.max_positions, template(
            "--seq {seq} is beyond the {max_positions} learned positions of {name}; it must be at most {max_positions}"
        )  # fmt: skip
        yield self.mode == "inference" and shape.kind != "decoder", template(
            "--mode inference is for causal decoders; {name} is an {kind}"
        )  # fmt: skip
        yield self.adapted and "head" in self.lora_targets and not self.stack.startswith("litgpt"), template(
            "lora_targets has head: adapters on the output matrix are counted with stack litgpt only; it is {stack}"
        )  # fmt: skip
        present = {bare(linear.role) for linear in shape.linears} if self.adapted else set()
        yield self.adapted and not set(wanted(self, shape)) & present, template(
            "lora_targets {lora_targets}: {name} has none of them; it has {present}"
        ), {"lora_targets": ",".join(self.lora_targets), "present": ", ".join(sorted(present))}  # fmt: skip
        beyond = self.freeze_layers is not None and not 0 <= self.freeze_layers <= shape.layers
        yield self.method == "freeze" and beyond, template(
            "freeze_layers is {freeze_layers}; {name} has {layers} layers"
        )  # fmt: skip


Wrong = Iterator[tuple[bool, str] | tuple[bool, str, dict[str, Any]]]
"""Whether something is wrong, the sentence that says so, and its parts that no field has."""


def _refuse(rows: Wrong, *holders: object) -> None:
    """Raise `UsageError` for the first row that is wrong; the parts of its sentence are fields of the holders."""
    for wrong, text, *more in rows:
        if wrong:
            parts = more[0] if more else {}
            names = {name for _, name, _, _ in Formatter().parse(text) if name} - parts.keys()
            held = {name: next(getattr(each, name) for each in holders if hasattr(each, name)) for name in names}
            raise UsageError(text, **parts, **held)


FIELDS = frozenset(field.name for field in fields(TrainingJob))
"""Names that a job may be given by."""


def roles(targets: Sequence[str] | str) -> tuple[str, ...]:
    """Linears by their short names, from module names or sets: `q_proj,v_proj` -> q, v. Raises `UsageError`."""
    named = targets.split(",") if isinstance(targets, str) else list(targets)
    found = []
    for name in (str(name).strip().lower().rsplit(".", 1)[-1] for name in named):
        role = _ROLES.get(name, name)
        if role not in TARGETS and role not in TARGETS["all-linear"] and role != "head":
            allowed = ", ".join((*TARGETS, *TARGETS["all-linear"], "head"))
            raise UsageError(
                "lora_targets has {name!r}; allowed are {allowed} and module names such as q_proj",
                name=name,
                allowed=allowed,
            )
        found.append(role)
    if not found:
        raise UsageError("lora_targets is empty; give all-linear, attention, mlp or names such as q,v")
    return tuple(dict.fromkeys(found))


def wanted(job: TrainingJob, shape: ModelShape) -> frozenset[str]:
    """Roles of this model that get an adapter; q, k, v mean the fused matrix where there is only that."""
    asked = {role for target in job.lora_targets for role in TARGETS.get(target, (target,))}
    if shape.fused_qkv and asked & {"q", "k", "v"}:
        asked.add("qkv")
    if shape.fused_gate_up and asked & {"gate", "up"}:
        asked.add("gate_up")
    return frozenset(asked)


def bare(role: str) -> str:
    """A role without its prefix: cross_q -> q."""
    for prefix in ("cross_", "shared_", "expert_"):
        role = role.removeprefix(prefix)
    return role


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 10**9


def _divisors(number: int) -> str:
    return ", ".join(
        str(part) for part in range(1, math.isqrt(number) * 8 + 1) if number % part == 0 and part <= number
    )
