"""From allocated bytes to what the card shows, and whether it holds the job.

Allocated is a sum of tensors; what the driver counts is more: the allocator keeps freed blocks, the CUDA context and
the libraries' kernels lie outside it, and each communicator has buffers. The cache is elastic, so it is an interval.
"""

from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import CardReading, Device, Instant, Line, Verdict
from gpudoctor.estimate.stack import stack
from gpudoctor.model import Provenance

MIB = 1 << 20
CONTEXT = {
    (7, 0): 500 * MIB,
    (8, 0): 500 * MIB,
    (8, 6): 420 * MIB,
    (8, 9): 420 * MIB,
    (9, 0): 560 * MIB,
    (10, 0): 620 * MIB,
    (12, 0): 520 * MIB,
}
"""CUDA context with the kernels of a training run (lazy loading, CUDA 11.7 and later)."""
COMMUNICATOR = (300 * MIB, 1300 * MIB)
"""NCCL's buffers of one process with two or more communicators on one node: 4 MiB per channel buffer and protocol."""
TRANSIENT = frozenset({"loss", "final-norm", "embedding-scale", "logits-kept"})
STEP_SHARE = 0.955
"""An optimizer step allocates whole parameter lists of equal size, which fragment little."""
SINGLE_SHARE = 0.90
"""A peak in the loss or in a block on one GPU."""
SHARDED_SHARE = 0.82
"""The same on several GPUs: gathered blocks of other streams are not reused at once."""
OVER_SHARE = 1.0
"""Beyond this share of what context and communicators leave, allocated bytes cannot fit."""


def read_card(
    job: TrainingJob, instants: tuple[Instant, ...], peak: Instant, device: Device | None
) -> CardReading:
    """What a card will show for the peak, and the verdict when the card is named."""
    capability = device.capability if device is not None and device.capability is not None else (8, 0)
    context = CONTEXT.get(capability) or CONTEXT.get((capability[0], 0), 500 * MIB)
    lines = [
        _line("context", context, "CUDA context and kernels", "driver readings per architecture, lazy loading")
    ]
    communicators = (0, 0)
    if job.world > 1:
        communicators = COMMUNICATOR
        lines.append(
            _line(
                "nccl",
                sum(COMMUNICATOR) // 2,
                "communicators' buffers, 0.3 to 1.3 GiB",
                "NCCL 2.20: 4 MiB per channel and protocol",
            )
        )
    low, middle, high = _cached(job, instants, peak)
    lines.append(
        _line(
            "cached",
            middle,
            f"freed blocks that the allocator keeps: {low:,} to {high:,} B",
            "blocks of the loss are not reused by the backward, nor the other way round",
        )
    )
    reserved = (peak.bytes + low, peak.bytes + high)
    used = (reserved[0] + context + communicators[0], reserved[1] + context + communicators[1])
    expected = peak.bytes + middle + context + sum(communicators) // 2
    if device is None:
        return CardReading(
            device=None,
            reserved=reserved,
            used=used,
            expected=expected,
            lines=tuple(lines),
            limit=None,
            verdict=None,
            reason="",
        )
    room = device.bytes - context - communicators[0]
    reserved = (min(reserved[0], max(room, peak.bytes)), min(reserved[1], max(room, peak.bytes)))
    used = (min(used[0], max(device.bytes, peak.bytes)), min(used[1], max(device.bytes, peak.bytes)))
    share = _share(job, peak)
    limit = int(room * share)
    verdict, reason = _verdict(peak, limit, int(room * OVER_SHARE), device)
    return CardReading(
        device=device, reserved=reserved, used=used, expected=min(expected, max(used[1], used[0])), lines=tuple(lines), limit=limit, verdict=verdict, reason=reason
    )  # fmt: skip


def _share(job: TrainingJob, peak: Instant) -> float:
    if job.mode == "inference" or peak.name in {"step", "load"} or stack(job.stack).expandable:
        return STEP_SHARE
    return SHARDED_SHARE if job.world > 1 else SINGLE_SHARE


def _verdict(peak: Instant, limit: int, room: int, device: Device) -> tuple[Verdict, str]:
    gib = 1 << 30
    numbers = f"{peak.bytes / gib:.1f} GiB allocated at {peak.title}, of {device.bytes / gib:.1f} GiB"
    if peak.bytes > room:
        return Verdict.DOES_NOT_FIT, f"{numbers} ({room / gib:.1f} after context and communicators)"
    if peak.bytes > limit:
        return Verdict.TIGHT, f"{numbers}; above {limit / gib:.1f} GiB fragmentation decides"
    return Verdict.FITS, f"{numbers}; fits up to {limit / gib:.1f} GiB"


def _cached(job: TrainingJob, instants: tuple[Instant, ...], peak: Instant) -> tuple[int, int, int]:
    """Freed bytes that stay reserved at the peak: lowest, likely, highest."""
    small = max(peak.bytes // 100, 64 * MIB)
    if job.mode == "inference" or stack(job.stack).expandable:
        return small // 4, small, 4 * small
    by_name = {instant.name: instant for instant in instants}
    loss = sum(line.bytes for line in by_name["loss"].lines if line.kind in TRANSIENT)
    block = sum(line.bytes for line in by_name["layer"].lines if line.kind == "block")
    spike = min(loss, block)
    return small, small + spike // 2, small + int(1.2 * spike)


def _line(kind: str, amount: int, formula: str, source: str) -> Line:
    return Line(kind=kind, bytes=amount, formula=formula, source=source, provenance=Provenance.ANALYTIC)
