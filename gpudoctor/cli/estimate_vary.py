"""`gpudoctor estimate --vary seq=1k,2k,4k`: the same jobs over values of one field."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpudoctor.cli.estimate_flags import whole
from gpudoctor.errors import UsageError
from gpudoctor.estimate import Device, ModelShape, TrainingJob, estimate_job
from gpudoctor.estimate.answer import Variation
from gpudoctor.estimate.job import FIELDS

_MOST_VALUES = 40
_SWITCHED = frozenset({"experts_quantized", "outputs_kept"})
"""Switches whose third state, unsaid, is the library's own way."""
_PLOTTED = ("batch", ("1", "2", "4", "8", "16", "32"))


def vary(
    shape: ModelShape, jobs: Sequence[TrainingJob], card: Device | None, asked: str | None, *, plot: bool
) -> tuple[str, tuple[Variation, ...]] | None:
    """The table of --vary; for --plot alone, one over the batch. Raises `UsageError`."""
    if asked is None and not plot:
        return None
    key, values = _PLOTTED if asked is None else split_values(asked)
    rows = []
    for text in values:
        value = value_of(key, text)
        changed = jobs[:1] if key == "method" else jobs
        done = tuple(estimate_job(shape, replace(job, **{key: value}), card) for job in changed)
        rows.append(Variation(value=text, estimates=done))
    return key, tuple(rows)


def split_values(text: str) -> tuple[str, tuple[str, ...]]:
    """Field and values of `KEY=V1,V2`. Raises `UsageError`."""
    key, sign, listed = text.partition("=")
    key = key.strip().removeprefix("--").replace("-", "_")
    values = tuple(dict.fromkeys(part.strip() for part in listed.split(",") if part.strip()))
    if not sign or not values:
        raise UsageError(f"--vary {text!r}: give a flag and its values, such as seq=1k,2k,4k")
    if len(values) > _MOST_VALUES:
        raise UsageError(f"--vary {key} has {len(values)} values; give at most {_MOST_VALUES}")
    return key, values


def value_of(key: str, text: str) -> Any:
    """One value of --vary in the type of its field. Raises `UsageError`."""
    if key not in FIELDS:
        raise UsageError(f"--vary {key}: no such flag; choose from {', '.join(sorted(FIELDS))}")
    default = getattr(TrainingJob(), key)
    try:
        if isinstance(default, bool) or key in _SWITCHED:
            return {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}[
                text.lower()
            ]
        if isinstance(default, float):
            return float(text)
        if isinstance(default, int) or key in {"context", "freeze_layers"}:
            return whole(text)
    except (KeyError, ValueError, argparse.ArgumentTypeError):
        raise UsageError(f"--vary {key}: {text!r} is not a value for it") from None
    return text
