"""What GPUs can do at most: dense bf16 (fp16 before Ampere) tensor FLOPs a second, for MFU.

Sources: NVIDIA data sheets and architecture white papers of each card, without sparsity; GeForce and RTX cards
with fp32 accumulation, as PyTorch's matrix products have it.
"""

import re

_TERA = 1e12
_PEAKS = (
    (r"\bGB?200\b|\bB200\b", 2250), (r"\bB100\b", 1750),
    (r"\bGH200\b|\bH200\b(?!.*NVL)", 989.4), (r"\bH200 NVL\b", 835.5),
    (r"\bH100 PCIe\b", 756), (r"\bH100 NVL\b", 835.5), (r"\bH100\b", 989.4), (r"\bH800\b", 989.4),
    (r"\bA100\b|\bA800\b", 312), (r"\bA30\b", 165), (r"\bA40\b", 149.7), (r"\bA10G\b", 70), (r"\bA10\b", 125),
    (r"\bL40S\b", 362), (r"\bL40\b", 181), (r"\bL4\b", 121),
    (r"\bV100S?\b", 125), (r"\bT4\b", 65),
    (r"\bRTX 6000 Ada\b", 364.2), (r"\bRTX A6000\b", 154.8),
    (r"\bRTX 5090\b", 209.5), (r"\bRTX 4090\b", 165.2), (r"\bRTX 4080\b", 97.5), (r"\bRTX 3090\b", 71),
)  # fmt: skip


def peak_flops(name: str) -> float | None:
    """FLOPs a second of a card by its driver's name; None for one that is not in the table."""
    for pattern, tera in _PEAKS:
        if re.search(pattern, name, re.IGNORECASE):
            return tera * _TERA
    return None
