"""From allocated bytes to what the card shows, and whether it holds the job.

Allocated is a sum of tensors; what the driver counts is more: the allocator keeps freed blocks, the CUDA
context and the libraries' kernels lie outside it, and each communicator has buffers. The cache is elastic, so
it is an interval.
"""

from dataclasses import replace

from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import CardReading, Device, Instant, Reach, Verdict, line
from gpudoctor.estimate.tables import stack
from gpudoctor.lang import say
from gpudoctor.text import size

MIB = 1 << 20
CONTEXT = {
    (7, 0): 500 * MIB, (8, 0): 500 * MIB, (8, 6): 420 * MIB, (8, 9): 420 * MIB, (9, 0): 560 * MIB,
    (10, 0): 620 * MIB, (12, 0): 520 * MIB,
}  # fmt: skip
"""CUDA context with the kernels of a training run (lazy loading, CUDA 11.7 and later)."""
LEAST_CONTEXT = 140 * MIB
"""The same where a run uses few kernels: the least that was read on any card."""
COMMUNICATORS = 2200 * MIB
"""NCCL's buffers of a process with two communicators on one node: 4 MiB per channel buffer and protocol, and
the context of its kernels."""
COMMUNICATORS_SPREAD = (500 * MIB, 3072 * MIB)
"""Readings of the same (NCCL 2.20)."""
EAGER_CONTEXT = 1343 * MIB
"""The context before lazy loading: every kernel of the libraries (V100, torch 2022: 1,343 MiB)."""
LOSS = frozenset({"loss", "final-norm", "embedding-scale"})
KEPT = frozenset(
    {"checkpoints", "checkpoints-kept", "activations", "block", "gathered-root", "gathered-layer", "weight-copies"}
)
SPREAD = (0.76, 1.24)
"""What the allocator reserves on one GPU, over the sum of what each instant needs: how much of a freed block
another instant can reuse depends on sizes, which the sum does not know."""
SPREAD_SHARDED = (0.74, 1.28)
STREAMS = (1.06, 500 * MIB)
"""Several GPUs: blocks gathered on the communication stream are not reused by the compute stream at once."""
UNMEASURED = (0.70, 1.35)
"""Allocated bytes, over the formula's, of what no published run has checked: models that are not decoders, and
tensor, pipeline and expert parallelism. Measured rows of other stacks lie between."""
MEASURED = (0.96, 1.0)
"""The same of runs like those that were checked: the most that the formula was above one."""
LOOSE = 1.2
"""How much more of freed blocks the allocator may keep where rows are of many lengths."""
STEP_SHARE = 0.955
"""An optimizer step allocates whole parameter lists of equal size, which fragment little."""
SINGLE_SHARE = 0.90
"""A peak in the loss or in a block on one GPU."""
SHARDED_SHARE = 0.82
"""The same on several GPUs: gathered blocks of other streams are not reused at once."""


def read_card(
    job: TrainingJob, instants: tuple[Instant, ...], peak: Instant, reach: Reach, device: Device | None
) -> CardReading:
    """What a card will show for the peak, and the verdict when the card is named."""
    capability = device.capability if device is not None and device.capability is not None else (8, 0)
    context = CONTEXT.get(capability) or CONTEXT.get((capability[0], 0), 500 * MIB)
    if device is not None and device.context is not None:
        context = device.context
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
    fewest, most_buffers = COMMUNICATORS_SPREAD if communicators else (0, 0)
    least, most = min(context, LEAST_CONTEXT) + fewest, context + most_buffers
    low, middle, high = _reserved(job, instants, peak)
    if not stack(job.stack).checked or reach.high > peak.bytes:
        low, high = min(low, reach.low), round(high * max(reach.high / peak.bytes, LOOSE))
    if device is not None:  # the cache is given back when the card is full
        room, all_of_it = max(device.bytes - beside, peak.bytes), max(device.bytes - least, peak.bytes)
        low, middle, high = min(low, round(0.95 * room)), min(middle, room), min(high, all_of_it)
    source = say("blocks freed after the loss are reused in part by the backward, and the other way round")
    cached = max(0, low - peak.bytes), high - peak.bytes
    text = say("{low:,} to {high:,} B of freed blocks", low=cached[0], high=cached[1])
    lines.append(line("cached", middle - peak.bytes, text, source))
    shown = high + most if device is None else min(high + most, max(device.bytes, high + least))
    reading = CardReading(
        device=device, reserved=(low, high), used=(low + least, shown), expected=middle + beside,
        lines=tuple(lines), limit=None, verdict=None, reason="",
    )  # fmt: skip
    if device is None:
        return reading
    room = device.bytes - beside
    few = job.mode == "inference" or peak.name in {"step", "load"} or stack(job.stack).expandable
    limit = int(room * (STEP_SHARE if few else SHARDED_SHARE if job.world > 1 else SINGLE_SHARE))
    verdict, reason = _verdict(peak, reach, limit, device.bytes - least, device)
    return replace(reading, limit=limit, verdict=verdict, reason=reason)


def _verdict(peak: Instant, reach: Reach, limit: int, room: int, device: Device) -> tuple[Verdict, str]:
    numbers = say(
        "{allocated} allocated at {title}, of {card_bytes}",
        allocated=size(peak.bytes),
        title=peak.title,
        card_bytes=size(device.bytes),
    )
    if reach.least > room:
        return Verdict.DOES_NOT_FIT, say(
            "{numbers} ({room} after the least of context and communicators)", numbers=numbers, room=size(room)
        )
    if peak.bytes > room:
        return Verdict.TIGHT, say(
            "{numbers}; shorter rows and fused kernels would take {least}", numbers=numbers, least=size(reach.least)
        )
    if peak.bytes > limit:
        return Verdict.TIGHT, say("{numbers}; above {limit} fragmentation decides", numbers=numbers, limit=size(limit))
    if reach.high > limit:
        return Verdict.TIGHT, say("{numbers}; no published run has checked a job like this one", numbers=numbers)
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
