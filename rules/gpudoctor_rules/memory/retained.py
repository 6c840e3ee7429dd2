"""What helps against memory that each step leaves behind, on the device or on the host."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Remedy


def remedies(code: Code, inspection: str) -> Iterator[Remedy]:
    """Keep numbers, bound collections; `inspection` is the way to see who holds the memory."""
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
        title="bound what is collected",
        steps=(
            "collections.deque(maxlen=1000) instead of a list; write to disk what must be whole",
            inspection,
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )
