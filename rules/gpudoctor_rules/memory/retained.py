"""What helps against memory that each step leaves behind, on the device or on the host."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, LeakDetail, LeakKind, Remedy


def remedies(code: Code, inspection: str, finding: Finding) -> Iterator[Remedy]:
    """Keep numbers, bound collections, and see who holds the memory.

    `inspection` is the way to see that by hand.
    """
    leak = finding.detail_of(LeakDetail)
    if leak.kind not in (LeakKind.TENSORS, LeakKind.CONTAINER):  # these have no graph
        yield Remedy(
            id=f"{code}-detach",
            title="keep numbers, not tensors with their graph",
            steps=(
                "losses.append(loss.item()) or loss.detach(), at the period at which it is read",
                "outputs = outputs.detach().cpu() for what must be kept; del what is not",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
        )
    yield Remedy(
        id=f"{code}-bound",
        title=say("limit what {container} keeps", container=leak.target) if leak.target else "limit what is collected",
        steps=(
            "use collections.deque(maxlen=1000) instead of a list, or a cache with a maxsize instead of "
            "a dict. Write to disk what must be complete",
            inspection,
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )
