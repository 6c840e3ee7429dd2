"""Peak arithmetic of cards, by name: what model FLOPs are held against."""

import re

from gpudoctor.model.signs.recording import Recording

_PEAKS = (
    (r"B200|GB200", 2250e12), (r"H100 (NVL|PCIe)|H100 PCIE", 756e12), (r"H100|H200|GH200", 989e12),
    (r"L40S", 362e12), (r"L40\b", 181e12), (r"\bL4\b", 121e12), (r"A100|A800", 312e12), (r"\bA40\b", 150e12),
    (r"\bA30\b", 165e12), (r"\bA10G?\b", 125e12), (r"RTX 4090", 165e12), (r"RTX 3090", 71e12),
    (r"RTX A6000", 155e12), (r"RTX 6000 Ada", 364e12), (r"V100", 125e12), (r"\bT4\b", 65e12),
)  # fmt: skip
"""Dense bf16 (fp16 before Ampere) tensor-core FLOP/s without sparsity, from NVIDIA's data sheets."""


def peak_of(name: str) -> float | None:
    """FLOP/s of a card by its name; None for one that is not in the table."""
    return next((peak for pattern, peak in _PEAKS if re.search(pattern, name, re.IGNORECASE)), None)


def peak_flops(recording: Recording) -> float | None:
    """FLOP/s of the devices of all ranks together; None where one of them is not known."""
    names = []
    for process in recording.ranks:
        torch = process.first("torch")
        names.append(str(torch.get("device") or "") if torch is not None else "")
    peaks = [peak_of(name) for name in names]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if known and len(known) == len(peaks) else None
