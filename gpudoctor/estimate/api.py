"""The public function: the flags' names in, an `Estimate` out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.analytic import inference_instants, training_instants
from gpudoctor.estimate.card import MEASURED, UNMEASURED, read_card
from gpudoctor.estimate.find import find_path, is_path
from gpudoctor.estimate.gpus import device as find_device
from gpudoctor.estimate.job import FIELDS as JOB_FIELDS
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.presets import lookup
from gpudoctor.estimate.result import Device, Estimate, Instant, Reach
from gpudoctor.estimate.shapes import FIELDS as SHAPE_FIELDS
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.text import size

_LEANEST = "unsloth"
"""The stack that keeps least of those that `hf` may stand for: `hf` is taken where nothing was said."""
_LEAN = {"adamw": "adamw-fused"}
"""What the same name may mean: the Trainer's default is the fused kernel since transformers 5."""
_SHORTER = 4
"""Rows that are padded to the longest of their batch are shorter than the limit: real ones went to a quarter."""


def estimate_job(
    shape: ModelShape,
    job: TrainingJob,
    device: Device | None = None,
    *,
    assumptions: tuple[str, ...] = (),
    lean: bool = True,
) -> Estimate:
    """The memory of one job on its fullest GPU; a search that asks only whether it fits needs no `lean`.

    Raises `UsageError` for what this model cannot do.
    """
    job.check(shape)
    if shape.family == "gemma2" and job.attention == "sdpa" and job.mode == "train" and job.stack == "hf":
        job = replace(job, attention="eager")
        said = say("transformers has no SDPA for Gemma 2, whose scores are soft-capped: eager attention is taken")
        assumptions += (said,)
    most = 0
    if job.loss == "fused" and job.adapted and job.stack == "hf" and job.mode == "train":
        most, job = _most(shape, job), replace(job, stack=_LEANEST)
        said = say("fused loss with adapters: kernels of Unsloth or axolotl; without them {most}", most=size(most))
        assumptions += (said,)
    capability = device.capability if device is not None else None
    analyse = training_instants if job.mode == "train" else inference_instants
    instants, static, notes = analyse(shape, job, capability)
    peak = max(instants, key=lambda instant: instant.bytes)
    if shape.rough or shape.tower is not None:
        assumptions += (say("activations of plain blocks, one image a row, no encoder that prepares inputs"),)
    reach = _reach(shape, job, peak, most, lean=lean)
    card = read_card(job, instants, peak, reach, device)
    return Estimate(
        shape=shape, job=job, instants=instants, peak=peak, static=static, reach=reach, card=card,
        assumptions=assumptions, notes=tuple(notes) )  # fmt: skip


def _reach(shape: ModelShape, job: TrainingJob, peak: Instant, most: int, *, lean: bool) -> Reach:
    """Between which bytes the peak lies: how far measured runs of such jobs were from the formulas, and what the
    leanest kernels would take where nothing says whose run."""
    other = shape.kind != "decoder" or shape.rough or shape.tower is not None
    unmeasured = other or job.tp * job.pp * job.ep > 1 or job.stack == "megatron"
    low, high = (round(share * peak.bytes) for share in (UNMEASURED if unmeasured else MEASURED))
    high = max(high, most)
    if not lean or job.mode != "train" or job.stack not in {"hf", _LEANEST}:
        return Reach(low=low, high=high, least=low)
    lean_job = replace(
        job, stack=_LEANEST if job.adapted else job.stack, optimizer=_LEAN.get(job.optimizer, job.optimizer)
    )
    low = min(low, _most(shape, lean_job))
    return Reach(low=low, high=high, least=min(low, _most(shape, replace(lean_job, seq=-(-job.seq // _SHORTER)))))


def _most(shape: ModelShape, job: TrainingJob) -> int:
    return max(instant.bytes for instant in training_instants(shape, job)[0])


def estimate(
    model: str | ModelShape | None = None, *, gpu: str | int | Device | None = None,
    **options: Any,
) -> Estimate:  # fmt: skip
    """Estimate the GPU memory of a training or inference job; names are those of `gpudoctor estimate`'s flags.

    `model` is a name, a size, a config.json or its folder, or a `ModelShape`; without it the shape's numbers
    are given (`hidden=4096, layers=32, ...`). `checkpointing` may also be a bool. Raises `UsageError` with
    the field and the allowed values.
    """
    named = {key: value for key, value in options.items() if value is not None}
    if "intermediate" in named:
        named["mlp"] = named.pop("intermediate")
    unknown = sorted(set(named) - JOB_FIELDS - SHAPE_FIELDS)
    if unknown:
        raise UsageError(
            "estimate() has no option {unknown!r}; it has {job_fields}",
            unknown=unknown[0],
            job_fields=", ".join(sorted(JOB_FIELDS | {"model", "gpu"})),
        )
    if isinstance(named.get("checkpointing"), bool):
        named["checkpointing"] = "layer" if named["checkpointing"] else "none"
    shape, assumption = _shape(model, {key: value for key, value in named.items() if key in SHAPE_FIELDS})
    job = TrainingJob(**{key: value for key, value in named.items() if key in JOB_FIELDS})
    card = gpu if isinstance(gpu, Device) or gpu is None else find_device(gpu)
    return estimate_job(shape, job, card, assumptions=(assumption,) if assumption else ())


def _shape(model: str | ModelShape | None, numbers: Mapping[str, Any]) -> tuple[ModelShape, str]:
    """The shape that was asked for and what was assumed about it."""
    if isinstance(model, ModelShape):
        return model, ""
    if model is not None:
        if numbers:
            raise UsageError(
                "model and {numbers} are both given; give a model's name or its numbers", numbers=sorted(numbers)[0]
            )
        if is_path(model):
            read = find_path(model)
            return read.shape, concatenated("; ", read.assumptions)
        found = lookup(model)
        return found.preset.shape, found.assumption
    return from_numbers(numbers)


def from_numbers(numbers: Mapping[str, Any]) -> tuple[ModelShape, str]:
    """A Llama-like shape from `hidden`, `layers` and what else is known. Raises `UsageError` when these two
    are missing."""
    for needed in ("hidden", "layers"):
        if needed not in numbers:
            raise UsageError(
                "no model: give one by name (7b, llama-3-8b) or by its numbers; {needed} is missing", needed=needed
            )
    for name in ("hidden", "head_dim", "heads"):
        value = numbers.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError("{name} is {value!r}; it must be a whole number of at least 1", name=name, value=value)
    hidden = numbers["hidden"]
    most = min(max(hidden // numbers.get("head_dim", 128), 1), 4096)  # as many as divide the model's width
    heads = numbers.get("heads") or next(count for count in range(most, 0, -1) if hidden % count == 0)
    if hidden % heads and "head_dim" not in numbers:
        raise UsageError("heads {heads} must divide hidden {hidden}, or head_dim be given", heads=heads, hidden=hidden)
    given = {
        "name": say("given by numbers"), "heads": heads, "kv_heads": heads, "head_dim": max(hidden // heads, 1),
        "mlp": -(-8 * hidden // 3 // 256) * 256, "vocab": 32000, **numbers,
    }  # fmt: skip
    guessed = [key for key in ("heads", "kv_heads", "mlp", "vocab") if key not in numbers]
    told = [say("{key} {given:,}", key=key.replace("_", " "), given=given[key]) for key in guessed]
    if "gated" not in numbers:
        told.append(say("an MLP of three matrices (--set gated=false: two)"))
    said = concatenated(", ", told)
    return ModelShape(**given), say("not given and taken as in Llama: {said}", said=said) if told else ""
