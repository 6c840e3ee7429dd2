"""From allocated bytes to what the card shows, and whether it holds the job.

Allocated is a sum of tensors; what the driver counts is more: the allocator keeps freed blocks, the CUDA
context and the libraries' kernels lie outside it, and each communicator has buffers. The cache is elastic, so
it is an interval.
"""

from dataclasses import replace

from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import CardReading, Device, Instant, Verdict, line
from gpudoctor.estimate.tables import stack
from gpudoctor.lang import say
from gpudoctor.text import size

MIB = 1 << 20
CONTEXT = {
    (7, 0): 500 * MIB, (8, 0): 500 * MIB, (8, 6): 420 * MIB, (8, 9): 420 * MIB, (9, 0): 560 * MIB,
    (10, 0): 620 * MIB, (12, 0): 520 * MIB,
}  # fmt: skip
"""CUDA context with the kernels of a training run (lazy loading, CUDA 11.7 and later)."""
COMMUNICATORS = 2200 * MIB
"""NCCL's buffers of a process with two communicators on one node: 4 MiB per channel buffer and protocol, and
the context of its kernels; readings go from 0.5 to 3 GiB (NCCL 2.20)."""
EAGER_CONTEXT = 1343 * MIB
"""The context before lazy loading: every kernel of the libraries (V100, torch 2022: 1,343 MiB)."""
LOSS = frozenset({"loss", "final-norm", "embedding-scale"})
KEPT = frozenset(
    {"checkpoints", "checkpoints-kept", "activations", "block", "gathered-root", "gathered-layer", "weight-copies"}
)
SPREAD = (0.82, 1.20)
"""What the allocator reserves on one GPU, over the sum of what each instant needs: how much of a freed block
another instant can reuse depends on sizes, which the sum does not know."""
SPREAD_SHARDED = (0.82, 1.19)
STREAMS = (1.06, 500 * MIB)
"""Several GPUs: blocks gathered on the communication stream are not reused by the compute stream at once."""
STEP_SHARE = 0.955
"""An optimizer step allocates whole parameter lists of equal size, which fragment little."""
SINGLE_SHARE = 0.90
"""A peak in the loss or in a block on one GPU."""
SHARDED_SHARE = 0.82
"""The same on several GPUs: gathered blocks of other streams are not reused at once."""


def read_card(job: TrainingJob, instants: tuple[Instant, ...], peak: Instant, device: Device | None) -> CardReading:
    """What a card will show for the peak, and the verdict when the card is named."""
    capability = device.capability if device is not None and device.capability is not None else (8, 0)
    context = CONTEXT.get(capability) or CONTEXT.get((capability[0], 0), 500 * MIB)
    if not stack(job.stack).lazy_loading:
        context = EAGER_CONTEXT
    lines = [
        line("context", context, say("CUDA context and kernels"), say("driver readings per architecture, lazy loading"))
    ]
    communicators = COMMUNICATORS if job.world > 1 else 0
    if communicators:
        source = say("NCCL 2.20: 4 MiB per channel and protocol")
        lines.append(line("nccl", communicators, say("buffers of two communicators"), source))
    beside = context + communicators
    low, middle, high = _reserved(job, instants, peak)
    if device is not None:  # the cache is given back when the card is full
        room = max(device.bytes - beside, peak.bytes)
        low, middle, high = (peak.bytes if low > room else low), min(middle, room), min(high, room)
    source = say("blocks freed after the loss are reused in part by the backward, and the other way round")
    text = say("{low:,} to {high:,} B of freed blocks", low=low - peak.bytes, high=high - peak.bytes)
    lines.append(line("cached", middle - peak.bytes, text, source))
    reading = CardReading(
        device=device, reserved=(low, high), used=(low + beside, high + beside), expected=middle + beside,
        lines=tuple(lines), limit=None, verdict=None, reason="",
    )  # fmt: skip
    if device is None:
        return reading
    room = device.bytes - beside
    few = job.mode == "inference" or peak.name in {"step", "load"} or stack(job.stack).expandable
    limit = int(room * (STEP_SHARE if few else SHARDED_SHARE if job.world > 1 else SINGLE_SHARE))
    verdict, reason = _verdict(peak, limit, room, device)
    return replace(reading, limit=limit, verdict=verdict, reason=reason)


def _verdict(peak: Instant, limit: int, room: int, device: Device) -> tuple[Verdict, str]:
    numbers = say(
        "{allocated} allocated at {title}, of {card_bytes}",
        allocated=size(peak.bytes),
        title=peak.title,
        card_bytes=size(device.bytes),
    )
    if peak.bytes > room:
        return Verdict.DOES_NOT_FIT, say(
            "{numbers} ({room} after context and communicators)", numbers=numbers, room=size(room)
        )
    if peak.bytes > limit:
        return Verdict.TIGHT, say("{numbers}; above {limit} fragmentation decides", numbers=numbers, limit=size(limit))
    return Verdict.FITS, say("{numbers}; fits up to {limit}", numbers=numbers, limit=size(limit))


def _reserved(job: TrainingJob, instants: tuple[Instant, ...], peak: Instant) -> tuple[int, int, int]:
    """What the allocator holds at the peak: lowest, likely, highest."""
    least = peak.bytes + max(peak.bytes // 100, 64 * MIB)
    if job.mode == "inference" or stack(job.stack).expandable:
        return least, round(1.03 * least), round(1.15 * least)
    by_name = {instant.name: instant for instant in instants}
    layer, loss_lines = (by_name[name].lines if name in by_name else () for name in ("layer", "loss"))
    needs = by_name["step"].bytes + sum(line.bytes for line in layer if line.kind in KEPT)
    twice = sum(line.bytes for line in layer if line.kind == "checkpoints-kept")
    loss = sum(line.bytes for line in loss_lines if line.kind in LOSS)
    needs += max(loss - twice, 0)
    spread = SPREAD
    if job.parallel == "fsdp2":  # no recordStream: freed gathered blocks are reused at once
        needs += STREAMS[1]
    elif job.world > 1:
        needs, spread = round(STREAMS[0] * needs + STREAMS[1]), SPREAD_SHARDED
    middle = max(needs, least)
    return max(round(spread[0] * needs), least), middle, max(round(spread[1] * needs), round(1.04 * middle))
