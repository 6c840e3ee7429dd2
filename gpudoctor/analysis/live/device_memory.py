"""Device memory of a watched job that is nearly full or in fragments: MEM005, MEM006."""

from collections.abc import Iterator

from gpudoctor.analysis.live.stack_shares import job_gpus
from gpudoctor.model.check import Check
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Cost, Finding, Resource
from gpudoctor.model.severity import Confidence, Severity
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent, size


def near_limit(check: Check, window: ProcessWindow) -> Iterator[Finding]:
    """MEM005: the most that the driver has counted on a card of the job's in the window."""
    cards = [gpu for gpu in job_gpus(window) if gpu.memory_total and gpu.memory.known()]
    if not cards:
        raise Unavailable("no GPU of the job reports its memory")
    shares = {gpu.index: max(gpu.memory.known()) / float(gpu.memory_total or 1) for gpu in cards}
    index = max(shares, key=shares.__getitem__)
    share, total = shares[index], next(gpu.memory_total or 0 for gpu in cards if gpu.index == index)
    if share < check.limit("share_noted"):
        return
    yield check.finding(
        f"GPU {index} has had {percent(share)} of its {size(total)} in use.",
        evidence=(
            Measurement(
                name="memory_peak_share", value=round(share, 4), unit="1",
                reproduce="nvidia-smi --query-gpu=memory.used,memory.total --format=csv",
            ),
        ),
        confidence=Confidence.CONFIRMED,
        severity=Severity.WARNING if share >= check.limit("share_warned") else Severity.NOTE,
        subject=f"GPU {index}",
        scarce=frozenset({Resource.DEVICE_MEMORY}),
    )  # fmt: skip


def fragmented(check: Check, window: ProcessWindow) -> Iterator[Finding]:
    """MEM006: what torch's allocator holds against what is in use, of ranks that `gpudoctor run` records."""
    told = [rank for rank in window.ranks if rank.steps is not None and rank.steps.reserved > 0]
    if not told:
        raise Unavailable("the allocator is seen only where `gpudoctor run` records the job on a GPU")
    totals = {gpu.index: gpu.memory_total for gpu in job_gpus(window) if gpu.memory_total}
    for rank in told:
        assert rank.steps is not None
        reserved, used = rank.steps.reserved, rank.steps.peak
        total = max((totals[index] or 0 for index in rank.gpus if index in totals), default=0)
        if not total or not used > 0:
            continue
        if reserved < check.limit("ratio") * used or reserved < check.limit("reserved_share") * total:
            continue
        yield check.finding(
            f"{rank.title.capitalize()}: {size(reserved)} is reserved for {size(used)} at the peak of a step.",
            evidence=(
                Measurement(name="memory_reserved", value=int(reserved), unit="B"),
                Measurement(name="memory_peak", value=int(used), unit="B"),
            ),
            confidence=Confidence.CONFIRMED,
            cost=Cost(bytes=int(reserved - used)),
            subject=rank.title,
            scarce=frozenset({Resource.DEVICE_MEMORY}),
        )
        return
