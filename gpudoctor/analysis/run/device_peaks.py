"""What the devices of a recording can compute at most: what model FLOPs are divided by."""

from gpudoctor.model.peaks import peak_flops
from gpudoctor.model.signs.recording import Recording


def peak_of_ranks(recording: Recording) -> float | None:
    """FLOPs a second of the devices of all ranks together; None if one of them is not in the table."""
    names = []
    for process in recording.ranks:
        torch = process.first("torch")
        names.append(str(torch.get("device") or "") if torch is not None else "")
    peaks = [peak_flops(name) for name in names]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if known and len(known) == len(peaks) else None
