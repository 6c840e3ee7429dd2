"""What fits a card: a search over methods, checkpointing, loss, optimizer, sharding, offload and batch.

Candidates are ranked by expected speed, from floating-point operations and bytes moved for a token; the figures
only order them. Where two are as fast, the cheaper change to the training goes first: adapters, precision,
checkpointing, batch, quantisation.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.api import estimate_job
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Device, Estimate, Verdict
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.tables import read_table
from gpudoctor.model.records import frozen, replace

METHODS = ("full", "lora", "qlora")
LARGEST_BATCH = 1024
LONGEST = 1 << 20
CARDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_PRIORITY = ("method", "mixed_precision", "checkpointing", "batch", "loss", "optimizer", "parallel", "offload")
"""Which change is least of a loss: the first is made before the second."""
_CUTS: list[dict[str, Any]] = read_table("names.json")["cuts"]
"""Single changes, in the order in which they are advised."""


@frozen
class Fit:
    """One configuration that fits."""

    estimate: Estimate
    changes: dict[str, Any]
    """Fields that differ from the job that was asked for."""
    speed: float
    """Expected tokens a second, over those of the fastest."""
    gives_back: int
    """Bytes that the changes free at the batch that was asked for; negative where they take more."""


@frozen
class Room:
    """What a job leaves."""

    batch: int | None
    """Largest batch that fits; None where none does."""
    seq: int | None
    """Longest sequence (in whole 256 tokens) that fits; None where none does."""


@frozen
class Search:
    """What `search` found."""

    best: tuple[Fit, ...]
    room: tuple[tuple[str, Room], ...]
    """For each method, at the rest of the job as asked."""
    cards: tuple[tuple[str, int | None], ...]
    """For each method, how many of this card with fully sharded data parallelism; None = more than 256."""


@frozen
class Cut:
    """A change to a job, or several together, and what they give back."""

    changes: dict[str, Any]
    gives_back: int
    """Bytes of the peak."""
    verdict: Verdict | None


def fits(estimate: Estimate) -> bool:
    """Whether it fits with its margin; tight does not count."""
    return estimate.card.verdict is Verdict.FITS


def largest(good: Callable[[int], bool], most: int, step: int = 1) -> int | None:
    """The largest multiple of `step` up to `most` for which `good` holds; what is below one holds too."""
    if not good(step):
        return None
    low = step
    while low * 2 <= most and good(low * 2):
        low *= 2
    high = min(low * 2, most + step)
    while high - low > step:
        middle = (low + high) // 2 // step * step
        low, high = (middle, high) if good(middle) else (low, middle)
    return low


def room(shape: ModelShape, job: TrainingJob, device: Device) -> Room:
    """Largest batch at the job's length, longest sequence at its batch."""
    if job.mode == "inference":
        batch = largest(_fits_with(shape, job, device, "concurrency"), LARGEST_BATCH)
        tokens = "context" if job.context is not None else "seq"
        return Room(batch=batch, seq=largest(_fits_with(shape, job, device, tokens), LONGEST, 256))
    most = shape.max_positions if shape.positions == "learned" and shape.max_positions else LONGEST
    return Room(
        batch=largest(_fits_with(shape, job, device, "batch"), LARGEST_BATCH),
        seq=largest(_fits_with(shape, job, device, "seq"), most, 256) if most >= 256 else None,
    )


def _fits_with(shape: ModelShape, job: TrainingJob, device: Device, name: str) -> Callable[[int], bool]:
    def good(value: int) -> bool:
        changed = replace(job, **{name: value})  # type: ignore[arg-type]
        return fits(estimate_job(shape, changed, device, lean=False))

    return good


def cuts(estimate: Estimate, device: Device) -> tuple[Cut, ...]:
    """Single changes that lower the peak, in the order in which they are advised; last, where none of them is
    enough, the fewest of them that together are."""
    found = []
    for changes in _CUTS:
        changed = _lower(estimate, changes, device)
        if changed is not None:
            found.append(_cut(estimate, changes, changed))
    if not any(cut.verdict is Verdict.FITS for cut in found):
        found += _together(estimate, device)
    return tuple(found)


def _cut(estimate: Estimate, changes: dict[str, Any], changed: Estimate) -> Cut:
    saved = estimate.total_bytes - changed.total_bytes
    return Cut(changes=changes, gives_back=saved, verdict=changed.card.verdict)


def _lower(estimate: Estimate, changes: dict[str, Any], device: Device) -> Estimate | None:
    """The changed job's memory; None where the change is none, is no step down, or lowers nothing."""
    job = estimate.job
    if "method" in changes and (job.method != "full" and changes["method"] != "qlora"):
        return None
    if "optimizer" in changes and not job.optimizer.startswith("adamw"):
        return None
    changed = _tried(estimate.shape, job, changes, device, lean=True)
    return changed if changed is not None and changed.total_bytes < estimate.total_bytes else None


def _together(estimate: Estimate, device: Device) -> list[Cut]:
    """Changes made one after the other until it fits, then without those that were not needed."""
    made: dict[str, Any] = {}
    now = estimate
    for changes in _CUTS:
        now = _lower(now, changes, device) or now
        made = _differences(estimate.job, now.job)
        if fits(now):
            break
    else:
        return []
    for name in list(made):
        fewer = {key: value for key, value in made.items() if key != name}
        without = _tried(estimate.shape, estimate.job, fewer, device)
        if without is not None and fits(without):
            made, now = fewer, without
    return [_cut(estimate, made, now)]


def _tried(
    shape: ModelShape, job: TrainingJob, changes: dict[str, Any], device: Device, *, lean: bool = False
) -> Estimate | None:
    """The changed job's memory; None where the combination cannot be."""
    try:
        return estimate_job(shape, replace(job, **changes), device, lean=lean)
    except UsageError:
        return None


def search(
    shape: ModelShape, job: TrainingJob, device: Device, methods: Sequence[str] = METHODS, *, most: int = 8
) -> Search:
    """The configurations of this job that fit the card, fastest first, and what each method needs."""
    asked = estimate_job(shape, replace(job, method=methods[0]), device)
    found: list[Fit] = []
    for method in methods:
        for changes in _candidates(replace(job, method=method)):
            changes = {"method": method, **changes}
            candidate = _widest(shape, replace(job, **changes), device)
            if candidate is None:
                continue
            differs = _differences(asked.job, candidate.job)
            at_asked = _tried(shape, candidate.job, {"batch": job.batch}, device)
            saved = asked.total_bytes - (at_asked or candidate).total_bytes
            found.append(Fit(estimate=candidate, changes=differs, speed=speed(candidate.job), gives_back=saved))
    top = max((each.speed for each in found), default=1.0)

    def order(fit: Fit) -> tuple[float, ...]:
        """Speed in steps of 2 %, then the fewest and mildest changes."""
        places = [_PRIORITY.index(name) for name in fit.changes]
        return (-step_of(fit.speed), len(places), sum(places), -fit.gives_back)

    found = sorted((replace(each, speed=each.speed / top) for each in found), key=order)
    return Search(
        best=tuple(_spread(found, most)),
        room=tuple((method, room(shape, replace(job, method=method), device)) for method in methods),
        cards=tuple((method, _cards(shape, replace(job, method=method), device)) for method in methods),
    )


def _candidates(job: TrainingJob) -> Iterator[dict[str, Any]]:
    """Every combination that is tried for one method."""
    optimizers = [job.optimizer]
    if job.method in {"full", "freeze"} and job.optimizer.startswith("adamw") and "8bit" not in job.optimizer:
        optimizers.append("adamw-8bit")
    sharding: list[tuple[str, str]] = [(job.parallel, job.offload)]
    if job.data_parallel > 1:
        sharding = [(each, "none") for each in ("ddp", "zero2", "fsdp2")] + [("zero2", "optimizer")]
        sharding.append(("fsdp2", "params"))
    for parallel, offload in dict.fromkeys([(job.parallel, job.offload), *sharding]):
        for optimizer in optimizers:
            for loss in dict.fromkeys((job.loss, "chunked")):
                for kept in ("none", "layer"):
                    yield {
                        "parallel": parallel, "offload": offload, "optimizer": optimizer, "loss": loss,
                        "checkpointing": kept,
                    }  # fmt: skip


def _widest(shape: ModelShape, job: TrainingJob, device: Device) -> Estimate | None:
    """The job with the largest power of two of rows (or the batch asked for) that fits; None when none does."""
    best: Estimate | None = None
    batch = job.batch
    while batch >= 1:
        best = _tried(shape, job, {"batch": batch}, device)
        if best is None:
            return None
        if fits(best):
            break
        batch //= 2
    else:
        return None
    while batch * 2 <= 64:
        wider = _tried(shape, job, {"batch": batch * 2}, device)
        if wider is None or not fits(wider):
            break
        best, batch = wider, batch * 2
    return best


def _differences(asked: TrainingJob, job: TrainingJob) -> dict[str, Any]:
    return {
        name: getattr(job, name) for name in _PRIORITY if getattr(job, name) != getattr(asked, name)
    }  # fmt: skip


def step_of(speed: float) -> float:
    """A share of the fastest, in steps of 2 %: the model of speed is no finer."""
    return round(speed * 50) / 50


def _spread(found: Sequence[Fit], most: int) -> list[Fit]:
    """At most three of each method; none that only adds changes to a better one without a larger batch."""
    kept: list[Fit] = []
    for fit in found:
        same = [each for each in kept if each.estimate.job.method == fit.estimate.job.method]
        needless = any(
            each.changes.keys() <= fit.changes.keys() and each.estimate.job.batch >= fit.estimate.job.batch
            for each in same
        )
        if len(same) < 3 and len(kept) < most and not needless:
            kept.append(fit)
    return kept


def _cards(shape: ModelShape, job: TrainingJob, device: Device) -> int | None:
    """How many of this card, in nodes of eight, a fully sharded job needs at the batch asked for."""
    for count in CARDS:
        gpus = min(count, 8)
        parallel = "none" if count == 1 else "fsdp2"
        changes = {
            "gpus": gpus, "nodes": count // gpus, "parallel": parallel, "offload": "none", "tp": 1, "pp": 1,
            "cp": 1, "ep": 1,
        }  # fmt: skip
        tried = _tried(shape, job, changes, device)
        if tried is not None and fits(tried):
            return count
    return None


_SHARDING: dict[str, float] = read_table("names.json")["sharding_cost"]
_BASE: dict[str, float] = read_table("names.json")["base_cost"]
"""Cost of unpacking a quantized base in every pass."""


def speed(job: TrainingJob) -> float:
    """Expected tokens a second, in forward passes a token: good for an order, not for a number.

    A backward is two passes, one where the base is frozen; recomputing a block is one more. Offloaded state
    moves at 25 GB/s and is stepped at 10^9 parameters a second, beside 2 x 10^14 operations a second.
    """
    tokens = job.batch * job.seq
    passes = 2.1 if job.adapted else 2.0 if job.method == "freeze" else 3.0
    passes += {"none": 0.0, "layer": 1.0, "selective": 0.3, "offloaded": 1.1}[job.checkpointing]
    cost = passes * _BASE[job.method] * _SHARDING[job.parallel]
    cost *= 1.02 if job.loss == "chunked" else 1.0
    cost *= 1.15 if job.attention == "eager" else 1.0
    cost *= 4.0 if job.dtype == "fp32" and job.mixed_precision == "no" else 1.0
    if "8bit" in job.optimizer:
        cost *= 1.01
    if job.offload != "none" and not job.adapted:
        cost += 1e5 / (tokens * job.accumulate * job.shards)
    if job.offload == "params":
        cost *= max(1.2, 8000 / tokens)
    return tokens / (tokens + 512) / cost
