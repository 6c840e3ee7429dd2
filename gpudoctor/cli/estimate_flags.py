"""What `gpudoctor estimate` is told of a job: the usual fields as flags, every other one by `--set KEY=VALUE`."""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from gpudoctor.cli.argument_parser import BadValue
from gpudoctor.errors import UsageError
from gpudoctor.estimate import TrainingJob
from gpudoctor.estimate.job import CHOICES, FIELDS, meant
from gpudoctor.lang import say, template
from gpudoctor.report.estimate_words import FLAGS

SHAPE = ("hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "gated")
"""Numbers of a model that no name is known for; `intermediate` is the shape's `mlp`."""
_HELP = {
    "method": template("training method and base (default: full, LoRA and QLoRA)"),
    "lora_rank": template("rank of the adapters"),
    "seq": template("tokens per sequence, k for 1,024"),
    "batch": template("rows in a micro batch on one GPU"),
    "gpus": template("GPUs in a node"),
    "parallel": template("data parallelism"),
    "dtype": template("type of the weights"),
    "optimizer": template("the optimizer; adamw is torch's, foreach on a GPU"),
    "attention": template("attention implementation"),
    "loss": template("cross entropy: stock, one fused kernel, or in chunks with the head"),
    "mode": template("train, or serve with a cache of keys and values"),
}
_MOST_VALUES = 40
_LISTED = 48
"""Characters of choices that the help shows; more are shown in the sentence of a wrong one."""


def add_job_flags(parser: argparse.ArgumentParser, title: str) -> None:
    """The flags of a job. All default to None: only what was said is passed on."""
    group = parser.add_argument_group(title)
    for name, text in _HELP.items():
        allowed = CHOICES.get(name)
        listed = "|".join(allowed or ())
        group.add_argument(
            flag(name), choices=allowed, type=partial(meant, name) if allowed else whole,
            metavar="N" if not allowed else listed if len(listed) <= _LISTED else name.upper(), help=text,
        )  # fmt: skip
    keep = group.add_mutually_exclusive_group()
    keep.add_argument(
        "--checkpointing", action="store_const", const="layer", help="gradient checkpointing (the default)"
    )
    keep.add_argument("--no-checkpointing", dest="checkpointing", action="store_const", const="none")
    group.add_argument("--qlora", dest="method", action="store_const", const="qlora", help=argparse.SUPPRESS)
    group.add_argument("--bits", dest="method", type=_on_bits, help=argparse.SUPPRESS)
    rest = template("another field of the job or the model, such as tp=2 (a wrong key lists all)")
    group.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help=rest)


def _on_bits(text: str) -> str:
    """Adapters on a base of so many bits."""
    try:
        return {"4": "qlora", "8": "int8-lora", "16": "lora"}[text]
    except KeyError:
        raise BadValue(say("{text!r} is not 4, 8 or 16", text=text)) from None


def job_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command line said of the job, under the job's names. Raises `UsageError`."""
    given = {name: getattr(arguments, name) for name in FLAGS}
    said = {name: value for name, value in given.items() if value is not None}
    return said | {key: value for key, value in _sets(arguments).items() if key in FIELDS}


def shape_numbers(arguments: argparse.Namespace) -> dict[str, int]:
    """What the command line said of the model, under the shape's names. Raises `UsageError`."""
    return {"mlp" if key == "intermediate" else key: n for key, n in _sets(arguments).items() if key in SHAPE}


def _sets(arguments: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in arguments.sets:
        key, sign, value = text.partition("=")
        if not sign or not value.strip():
            raise UsageError("--set {text}: give a key and its value, such as tp=2", text=text)
        found[key_of(key)] = value_of(key_of(key), value.strip(), "--set")
    return found


def flag(name: str) -> str:
    """A field as a flag: lora_rank -> --lora-rank."""
    return "--" + name.replace("_", "-")


def key_of(text: str) -> str:
    """A key as it may be typed, `--lora-rank`, as a field."""
    return text.strip().removeprefix("--").replace("-", "_")


def whole(text: str) -> int:
    """A whole number; `4k` is 4,096."""
    digits = text.strip().lower().replace("_", "")
    times = 1024 if digits.endswith("k") else 1
    try:
        return int(digits.removesuffix("k")) * times
    except ValueError:
        raise BadValue(say("{text!r} is not a whole number (2048, 4k)", text=text)) from None


def split_values(text: str) -> tuple[str, tuple[str, ...]]:
    """Field and values of `--vary KEY=V1,V2`. Raises `UsageError`."""
    key, sign, listed = text.partition("=")
    values = tuple(dict.fromkeys(part.strip() for part in listed.split(",") if part.strip()))
    if not sign or not values:
        raise UsageError("--vary {text!r}: give a flag and its values, such as seq=1k,2k,4k", text=text)
    if len(values) > _MOST_VALUES:
        raise UsageError(
            "--vary {key} has {number} values; give at most {most_values}",
            key=key, number=len(values), most_values=_MOST_VALUES,
        )  # fmt: skip
    return key_of(key), values


_SWITCHED: Mapping[str, bool] = dict.fromkeys(("yes", "true", "on"), True) | dict.fromkeys(
    ("no", "false", "off"), False
)


def value_of(key: str, text: str, of: str = "--vary") -> Any:
    """One value in the type of its field, for the flag `of`. Raises `UsageError`."""
    if key not in FIELDS and key not in SHAPE:
        fields = ", ".join(sorted((*FIELDS, *SHAPE)))
        raise UsageError("{flag} {key}: no such key; choose from {fields}", flag=of, key=key, fields=fields)
    default = getattr(TrainingJob(), key, 0)
    try:
        if isinstance(default, bool) or key in ("experts_quantized", "outputs_kept", "gated"):
            return _SWITCHED[text.lower()]
        if isinstance(default, float):
            return float(text)
        if isinstance(default, int) or key in ("context", "freeze_layers"):
            return whole(text)
    except (KeyError, ValueError, argparse.ArgumentTypeError):
        raise UsageError("{flag} {key}: {text!r} is not a value for it", flag=of, key=key, text=text) from None
    return meant(key, text) if key in CHOICES else text
