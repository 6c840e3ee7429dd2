"""The flags of `gpudoctor estimate`, named as the fields of `TrainingJob`, and values of these fields."""

import argparse
from typing import Any

from gpudoctor.cli.argument_parser import BadValue
from gpudoctor.errors import UsageError
from gpudoctor.estimate import TrainingJob, job
from gpudoctor.estimate.job import FIELDS
from gpudoctor.lang import say, template, term

SHAPE_FLAGS = {
    "hidden": template("width of the residual stream"),
    "layers": "blocks",
    "heads": template("query heads"),
    "kv_heads": template("key and value heads"),
    "head_dim": template("width of a head"),
    "intermediate": template("inner width of the MLP"),
    "vocab": template("rows of the embedding"),
}
"""Numbers of a model that no name is known for; `intermediate` is the shape's `mlp`."""
_JOB_NUMBERS = {
    "lora_rank": ("method", template("rank of the adapters")),
    "quant_group": ("method", template("weights that share a scale in a GPTQ or AWQ base, 0 for one scale per column")),
    "freeze_layers": ("method", template("freeze: number of bottom layers that are not trained")),
    "seq": ("step", template("tokens per sequence, k for 1,024")),
    "batch": ("step", template("rows in a micro batch on one GPU")),
    "accumulate": ("step", template("micro batches in a step")),
    "checkpoint_every": ("step", template("checkpoint every n-th block")),
    "gpus": ("GPUs", template("GPUs in a node")),
    "nodes": ("GPUs", "nodes"),
    "tp": ("GPUs", template("tensor parallel degree, with sequence parallelism")),
    "pp": ("GPUs", template("pipeline stages")),
    "cp": ("GPUs", template("context parallel degree")),
    "ep": ("GPUs", template("expert parallel degree")),
    "context": ("inference", template("longest sequence, in tokens")),
    "concurrency": ("inference", template("sequences at a time")),
}
_JOB_CHOICES = {
    "method": ("method", job.METHODS, template("training method and base (default: full, LoRA and QLoRA)")),
    "quant": ("method", job.QUANTS, template("4-bit type of qlora")),
    "lora_dtype": ("method", job.DTYPES, template("type of the adapters; PEFT makes them fp32")),
    "dtype": ("step", job.DTYPES, template("type of the weights")),
    "mixed_precision": ("step", job.MIXED, "autocast"),
    "optimizer": ("step", job.OPTIMIZERS, template("the optimizer; adamw is torch's, foreach on a GPU")),
    "attention": ("step", job.ATTENTION, template("attention implementation")),
    "loss": ("step", job.LOSSES, template("cross entropy: stock, one fused kernel, or in chunks with the head")),
    "stack": ("step", job.STACKS, template("libraries and their releases")),
    "parallel": ("GPUs", job.PARALLEL, template("data parallelism")),
    "offload": ("GPUs", job.OFFLOAD, template("what is offloaded to the host")),
    "mode": ("inference", job.MODES, template("train, or serve with a cache of keys and values")),
    "kv_dtype": ("inference", job.KV_DTYPES, template("type of the cache")),
}
_SWITCHES = {
    "double_quant": ("method", template("quantize the scales of qlora too")),
    "kbit_prepare": ("method", template("PEFT's k-bit preparation of a quantized base")),
    "experts_quantized": ("method", template("quantize routed experts too (default: as the library does)")),
    "lora_dora": ("method", "DoRA"),
    "lora_fused": ("method", template("fused LoRA kernels on a quantized base (Unsloth, foak)")),
    "train_embeddings": ("method", template("train the embedding and the head fully, in addition to the adapters")),
    "master_weights": ("step", template("an fp32 copy of the weights in the optimizer")),
    "fused_norm": ("step", template("norm and rotary kernels that save no fp32 copies (Liger)")),
    "compiled": ("step", "torch.compile"),
    "outputs_kept": (
        "step",
        template("the loop keeps its logits during the backward pass (default: as the library does)"),
    ),
}
_GROUPS = {
    "method": template("what is trained"),
    "step": template("the step"),
    "GPUs": template("several GPUs"),
    "inference": "inference",
}


def add_job_flags(
    parser: argparse.ArgumentParser, *, before: str = "", without: frozenset[str] = frozenset(),
    method: str = "",
) -> None:  # fmt: skip
    """The model's numbers and every field of the job. All default to None: only what was said is passed on.

    `before` goes before the groups' titles; fields in `without` are taken and not shown, for a sentence that
    says why not; `method` is what --method's help says.
    """
    numbers = parser.add_argument_group(before + term(template("a model by its numbers")))
    for name, text in SHAPE_FLAGS.items():
        numbers.add_argument(flag(name), type=whole, metavar="N", help=text)
    shown = [group for group in _GROUPS if any(group == one[0] for one in _fields(without).values())]
    groups = {key: parser.add_argument_group(before + term(_GROUPS[key])) for key in shown}

    def place(name: str, group: str) -> argparse._ActionsContainer:
        return groups[group] if name not in without else parser

    def said(name: str, text: str) -> str:
        return argparse.SUPPRESS if name in without else method if method and name == "method" else text

    for name, (group, allowed, text) in _JOB_CHOICES.items():
        # Short lists are shown in the help, long ones by their name.
        listed = "|".join(allowed)
        place(name, group).add_argument(
            flag(name), choices=allowed, metavar=(listed if len(listed) <= 48 else name.upper()), help=said(name, text)
        )
    for name, (group, text) in _JOB_NUMBERS.items():
        place(name, group).add_argument(flag(name), type=whole, metavar="N", help=said(name, text))
    for name, (group, text) in _SWITCHES.items():
        place(name, group).add_argument(
            flag(name), action=argparse.BooleanOptionalAction, default=None, help=said(name, text)
        )
    groups["method"].add_argument(
        "--lora-targets", metavar="NAMES", help="all-linear, attention, mlp, or names such as q_proj,v_proj"
    )
    groups["method"].add_argument("--lora-dropout", type=float, metavar="SHARE", help="dropout before the adapters")
    keep = groups["step"].add_mutually_exclusive_group()
    keep.add_argument(
        "--checkpointing", action="store_const", const="layer", help="gradient checkpointing (the default)"
    )
    keep.add_argument("--no-checkpointing", dest="checkpointing", action="store_const", const="none")
    keep.add_argument(
        "--checkpoint-kind", dest="checkpointing", choices=job.CHECKPOINTING[1:], metavar="KIND",
        help="layer, selective or offloaded",
    )  # fmt: skip


def _fields(without: frozenset[str]) -> dict[str, tuple[object, ...]]:
    """Every field that is shown, with its group first."""
    every: dict[str, tuple[object, ...]] = {**_JOB_CHOICES, **_JOB_NUMBERS, **_SWITCHES}
    return {name: entry for name, entry in every.items() if name not in without}


def job_fields(arguments: argparse.Namespace) -> dict[str, object]:
    """What the command line said of the job, under the job's names."""
    names = (*_JOB_NUMBERS, *_JOB_CHOICES, *_SWITCHES, "lora_targets", "lora_dropout", "checkpointing")
    given = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def shape_numbers(arguments: argparse.Namespace) -> dict[str, int]:
    """What the command line said of the model, under the shape's names."""
    given = {name: getattr(arguments, name) for name in SHAPE_FLAGS}
    return {"mlp" if name == "intermediate" else name: value for name, value in given.items() if value is not None}


def flag(name: str) -> str:
    """A field as a flag: lora_rank -> --lora-rank."""
    return "--" + name.replace("_", "-")


def whole(text: str) -> int:
    """A whole number; `4k` is 4,096."""
    digits = text.strip().lower().replace("_", "")
    times = 1024 if digits.endswith("k") else 1
    try:
        return int(digits.removesuffix("k")) * times
    except ValueError:
        raise BadValue(say("{text!r} is not a whole number (2048, 4k)", text=text)) from None


# Values of a job's field as `verify --model --vary seq=1k,2k,4k` names them.

_MOST_VALUES = 40
_SWITCHED = frozenset({"experts_quantized", "outputs_kept"})
"""Switches whose third state, unsaid, is the library's own way."""


def split_values(text: str) -> tuple[str, tuple[str, ...]]:
    """Field and values of `KEY=V1,V2`. Raises `UsageError`."""
    key, sign, listed = text.partition("=")
    key = key.strip().removeprefix("--").replace("-", "_")
    values = tuple(dict.fromkeys(part.strip() for part in listed.split(",") if part.strip()))
    if not sign or not values:
        raise UsageError("--vary {text!r}: give a flag and its values, such as seq=1k,2k,4k", text=text)
    if len(values) > _MOST_VALUES:
        raise UsageError(
            "--vary {key} has {number} values; give at most {most_values}",
            key=key,
            number=len(values),
            most_values=_MOST_VALUES,
        )
    return key, values


def value_of(key: str, text: str) -> Any:
    """One value of --vary in the type of its field. Raises `UsageError`."""
    if key not in FIELDS:
        raise UsageError("--vary {key}: no such flag; choose from {fields}", key=key, fields=", ".join(sorted(FIELDS)))
    default = getattr(TrainingJob(), key)
    try:
        if isinstance(default, bool) or key in _SWITCHED:
            return {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}[text.lower()]
        if isinstance(default, float):
            return float(text)
        if isinstance(default, int) or key in {"context", "freeze_layers"}:
            return whole(text)
    except (KeyError, ValueError, argparse.ArgumentTypeError):
        raise UsageError("--vary {key}: {text!r} is not a value for it", key=key, text=text) from None
    return text
