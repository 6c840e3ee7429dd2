"""From a told job and a card to its forecast: the estimator asked for the job and for its changes."""

from collections.abc import Mapping
from typing import Any

from gpudoctor.analysis.memory_forecasts import UNSHARDED
from gpudoctor.errors import UsageError
from gpudoctor.estimate import Device, Estimate, ModelShape, TrainingJob, Verdict, estimate_job
from gpudoctor.estimate.fit import cuts
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.memory import Choice, Holds, JobMemory, Projection
from gpudoctor.vitals.memory.from_config import settle
from gpudoctor.vitals.memory.jobs import ToldJob

SHORTEST = 256
"""Tokens of a row where nobody says: less than any training of a language model uses."""
_HOLDS = {Verdict.FITS: Holds.FITS, Verdict.TIGHT: Holds.TIGHT, Verdict.DOES_NOT_FIT: Holds.NOT}
_LAYOUTS: tuple[tuple[str, str], ...] = (
    ("zero1", "none"), ("zero2", "none"), ("zero3", "none"), ("zero2", "optimizer"),
    ("zero3", "optimizer"), ("zero3", "params"),
)  # fmt: skip
"""DeepSpeed's ways to shard, from the fastest to the one that needs least: stages 1 and 2 communicate as much
as data parallelism, stage 3 half as much again (ZeRO, arXiv 1910.02054, section 7), and offloading crosses PCIe
at every step."""
_SHOWN = (
    "method", "dtype", "mixed_precision", "optimizer", "seq", "batch", "accumulate", "checkpointing",
    "attention", "loss", "parallel", "offload", "gpus", "nodes", "lora_rank",
)  # fmt: skip
_LARGEST = 1024
_NODE = 8
"""GPUs that a job is sharded over where nobody says: as many as the largest common node has."""


@frozen
class TargetGpu:
    """The GPU that the job is meant for."""

    device: Device
    origin: str
    count: int
    """How many of it a node of the job has."""
    counted: bool = False
    """Whether somebody says so: the user, the scheduler, or the machine that a launcher takes whole."""


def forecast(job: ToldJob, shape: ModelShape, card: TargetGpu) -> JobMemory:
    """The memory of one job. Raises `UsageError` for a combination that cannot be."""
    taken = _take(job, shape, card)
    estimate = estimate_job(shape, taken, card.device)
    now = _projection(estimate, {})
    assert estimate.card.limit is not None  # a card was given
    return JobMemory(
        title=job.title, model=shape.name,
        values={name: getattr(taken, name) for name in _SHOWN},
        guessed=frozenset(job.told.guessed), places=job.told.places,
        assumptions=tuple(job.told.assumptions),
        device=card.device.name, device_origin=card.origin, device_bytes=card.device.bytes,
        room=card.device.bytes - sum(line.bytes for line in estimate.card.lines if line.kind != "cached"),
        limit=estimate.card.limit, now=now, instant=estimate.peak.title,
        cuts=_cuts(estimate, card.device) if now.holds is Holds.NOT else (),
        unchecked=None if taken.checkpointing == "none" else _tried(estimate, {"checkpointing": "none"}, card.device),
        batches=_batches(estimate, card.device),
        layouts=_layouts(estimate, card.device) if taken.data_parallel > 1 else (),
    )  # fmt: skip


def _take(job: ToldJob, shape: ModelShape, card: TargetGpu) -> TrainingJob:
    """The job with what nobody wrote taken at what needs least."""
    told = job.told
    fields = dict(told.fields)
    _lengths(fields, shape, told.guessed)
    if "checkpointing" in told.guessed or "checkpointing" not in fields:
        told.guessed.add("checkpointing")
        fields["checkpointing"] = "layer"
    mixed = fields.get("mixed_precision", "no")
    if "dtype" in told.guessed or "dtype" not in fields:
        told.guessed.add("dtype")
        fields["dtype"] = mixed if mixed != "no" else "bf16"
    if fields.get("method", "full") == "full" and fields["dtype"] not in {"fp32", mixed}:
        fields["mixed_precision"] = "no"  # weights of 16 bits: autocast to the other type changes little
    _sharding(fields, told.guessed, card, engine=job.engine)
    told.fields = fields
    return TrainingJob(**settle({}, told))


def _lengths(fields: dict[str, Any], shape: ModelShape, guessed: set[str]) -> None:
    if "seq" not in fields:
        fields["seq"] = SHORTEST
        if shape.kind != "vision":
            guessed.add("seq")
    if shape.positions == "learned" and shape.max_positions:
        fields["seq"] = min(fields["seq"], shape.max_positions)
    if "batch" in guessed or "batch" not in fields:
        guessed.add("batch")
        fields["batch"] = 1


def _sharding(fields: dict[str, Any], guessed: set[str], card: TargetGpu, *, engine: bool) -> None:
    """Sharded over as many GPUs as the node has, where nobody says over how many."""
    parallel = fields.get("parallel", "none")
    if parallel == "none" and "gpus" not in fields and not (card.counted and card.count == 1):
        guessed.add(UNSHARDED)
    if "gpus" not in fields and parallel != "none":
        if not card.counted:
            guessed.add("gpus")
        fields["gpus"] = max(card.count, 1) if card.counted else _NODE
    if parallel.startswith("zero") and engine and fields.get("method", "full") == "full":
        fields["mixed_precision"] = "no"  # the engine casts the weights and keeps its own master copy


def _projection(estimate: Estimate, changes: Mapping[str, Choice]) -> Projection:
    verdict = estimate.card.verdict
    if verdict is None:  # a card was given
        raise AssertionError("no verdict")
    return Projection(changes=dict(changes), peak=estimate.total_bytes, holds=_HOLDS[verdict])


def _tried(estimate: Estimate, changes: Mapping[str, Any], device: Device) -> Projection | None:
    try:
        changed = estimate_job(estimate.shape, replace(estimate.job, **changes), device)
    except UsageError:
        return None
    return _projection(changed, changes)


def _cuts(estimate: Estimate, device: Device) -> tuple[Projection, ...]:
    found = [_tried(estimate, cut.changes, device) for cut in cuts(estimate, device)]
    job = estimate.job
    if job.data_parallel > 1:
        found += [
            _tried(estimate, {"parallel": parallel, "offload": offload}, device)
            for parallel, offload in _LAYOUTS
            if parallel == "zero3" and (job.parallel, job.offload) != (parallel, offload)
        ]
    return tuple(item for item in found if item is not None and item.peak < estimate.total_bytes)


def _batches(estimate: Estimate, device: Device) -> tuple[Projection, ...]:
    """Micro batches of 2, 4, 8... times as many rows, as long as they fit."""
    found: list[Projection] = []
    batch = estimate.job.batch * 2
    while batch <= _LARGEST:
        projection = _tried(estimate, {"batch": batch}, device)
        if projection is None or projection.holds is not Holds.FITS:
            break
        found.append(projection)
        batch *= 2
    return tuple(found)


def _layouts(estimate: Estimate, device: Device) -> tuple[Projection, ...]:
    if not estimate.job.parallel.startswith(("zero", "ddp")):
        return ()
    found = (_tried(estimate, {"parallel": parallel, "offload": offload}, device) for parallel, offload in _LAYOUTS)
    return tuple(item for item in found if item is not None)
