"""What GPUs can compute at most, in FLOPs a second: the one table, for model FLOPs utilisation (MFU).

A figure is for matrix products of 16-bit numbers with 32-bit sums, as PyTorch makes them: bf16, or fp16 on
cards before Ampere. Data sheets often print only the figure for 2:4 sparse matrices, which training does not
use. It is twice the dense one, and is listed apart.
"""

import re
from dataclasses import dataclass
from functools import cache

_TERA = 1e12

_AMPERE_GEFORCE = "NVIDIA Ampere GA102 white paper, FP16 tensor with FP32 accumulate"
_ADA_GEFORCE = "NVIDIA Ada architecture white paper, FP16 tensor with FP32 accumulate"
_BLACKWELL_GEFORCE = "NVIDIA RTX Blackwell architecture white paper, BF16 tensor with FP32 accumulate"
_HOPPER = "NVIDIA H100 data sheet, BFLOAT16 tensor core (printed with sparsity)"
_BLACKWELL = "NVIDIA Blackwell data sheet, FP16/BF16 tensor core (printed with sparsity)"


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that a card computes, in FLOPs a second."""

    card: str
    """The words of the card's name that tell it apart: the driver's name holds all of them."""
    dense: float
    """For dense matrices: the figure that training is measured against."""
    sparse: float | None
    """For 2:4 sparse matrices; None on a card that has no such mode."""
    source: str


def _row(card: str, dense: float, sparse: float | None, source: str) -> Peak:
    return Peak(card, dense * _TERA, sparse * _TERA if sparse is not None else None, source)


PEAKS = (
    _row("GB300", 2500, 5000, _BLACKWELL),
    _row("GB200", 2500, 5000, _BLACKWELL),
    _row("B300", 2250, 4500, _BLACKWELL),
    _row("B200", 2250, 4500, _BLACKWELL),
    _row("B100", 1750, 3500, _BLACKWELL),
    _row("GH200", 989.4, 1979, "NVIDIA GH200 data sheet, BFLOAT16 tensor core (printed with sparsity)"),
    _row("H200", 989.4, 1979, "NVIDIA H200 data sheet, SXM, BFLOAT16 tensor core (printed with sparsity)"),
    _row("H200 NVL", 835.5, 1671, "NVIDIA H200 data sheet, NVL, BFLOAT16 tensor core (printed with sparsity)"),
    _row("H100", 989.4, 1979, _HOPPER),
    _row("H100 PCIe", 756.5, 1513, _HOPPER),
    _row("H100 NVL", 835.5, 1671, _HOPPER),
    _row("H800", 989.4, 1979, "NVIDIA H800 data sheet, SXM, BFLOAT16 tensor core (printed with sparsity)"),
    _row("H800 PCIe", 756.5, 1513, "NVIDIA H800 data sheet, PCIe, BFLOAT16 tensor core (printed with sparsity)"),
    _row("H20", 148, 296, "NVIDIA H20 data sheet, BFLOAT16 tensor core"),
    _row("A100", 312, 624, "NVIDIA A100 data sheet, BFLOAT16 tensor core"),
    _row("A800", 312, 624, "NVIDIA A800 data sheet, BFLOAT16 tensor core"),
    _row("A40", 149.7, 299.4, "NVIDIA A40 data sheet, BF16 tensor with FP32 accumulate"),
    _row("A30", 165, 330, "NVIDIA A30 data sheet, BFLOAT16 tensor core"),
    _row("A16", 17.9, 35.9, "NVIDIA A16 data sheet, FP16 tensor core, one of its four GPUs"),
    _row("A10", 125, 250, "NVIDIA A10 data sheet, BFLOAT16 tensor core"),
    _row("A10G", 70, 140, "NVIDIA A10G data sheet, FP16 tensor core"),
    _row("L40S", 362.05, 733, "NVIDIA L40S data sheet, BFLOAT16 tensor core"),
    _row("L40", 181.05, 362.1, "NVIDIA L40 data sheet, BFLOAT16 tensor core"),
    _row("L4", 121, 242, "NVIDIA L4 data sheet, BFLOAT16 tensor core (printed with sparsity)"),
    _row("T4", 65, None, "NVIDIA T4 data sheet, mixed precision"),
    _row("V100", 125, None, "NVIDIA V100 data sheet, SXM2, deep learning"),
    _row("V100 PCIE", 112, None, "NVIDIA V100 data sheet, PCIe, deep learning"),
    _row("V100S", 130, None, "NVIDIA V100S data sheet, deep learning"),
    _row("TITAN V", 110, None, "NVIDIA TITAN V product page, deep learning"),
    _row("P100", 21.2, None, "NVIDIA P100 data sheet, SXM2, half precision (no tensor cores)"),
    _row("P100 PCIE", 18.7, None, "NVIDIA P100 data sheet, PCIe, half precision (no tensor cores)"),
    _row("RTX PRO 6000", 503.8, 1007.6, "NVIDIA RTX Blackwell PRO white paper, BF16 tensor"),
    _row("RTX 6000 Ada", 364.2, 728.5, "NVIDIA RTX 6000 Ada data sheet, a quarter of the sparse FP8 figure"),
    _row("RTX A6000", 154.8, 309.7, "NVIDIA RTX A6000 data sheet, tensor performance (printed with sparsity)"),
    _row("RTX A5000", 111.1, 222.2, "NVIDIA RTX A5000 data sheet, tensor performance (printed with sparsity)"),
    _row("RTX A4000", 76.7, 153.4, "NVIDIA RTX A4000 data sheet, tensor performance (printed with sparsity)"),
    _row("Quadro RTX 8000", 130.5, None, "NVIDIA Quadro RTX 8000 data sheet, FP16 tensor performance"),
    _row("RTX 5090", 209.5, 419, _BLACKWELL_GEFORCE),
    _row("RTX 5080", 112.6, 225.1, _BLACKWELL_GEFORCE),
    _row("RTX 5070 Ti", 87.9, 175.8, _BLACKWELL_GEFORCE),
    _row("RTX 4090", 165.2, 330.4, _ADA_GEFORCE),
    _row("RTX 4080", 97.5, 194.9, _ADA_GEFORCE),
    _row("RTX 4070 Ti SUPER", 88.2, 176.4, _ADA_GEFORCE),
    _row("RTX 4070", 58.3, 116.6, _ADA_GEFORCE),
    _row("RTX 4060 Ti", 44.1, 88.2, _ADA_GEFORCE),
    _row("RTX 3090 Ti", 80, 160, _AMPERE_GEFORCE),
    _row("RTX 3090", 71, 142, _AMPERE_GEFORCE),
    _row("RTX 3080", 59.5, 119, _AMPERE_GEFORCE),
    _row("RTX 3060", 25.5, 51, _AMPERE_GEFORCE),
    _row("RTX 2080 Ti", 53.8, None, "NVIDIA Turing white paper, FP16 tensor with FP32 accumulate"),
    _row("MI355X", 2516.6, 5033.2, "AMD Instinct MI355X data sheet, bfloat16 matrix"),
    _row("MI325X", 1307.4, 2614.9, "AMD Instinct MI325X data sheet, bfloat16 matrix"),
    _row("MI300X", 1307.4, 2614.9, "AMD Instinct MI300X data sheet, bfloat16 matrix"),
    _row("MI250X", 191.5, None, "AMD Instinct MI250X data sheet, bfloat16 matrix, one of its two dies"),
    _row("MI210", 181, None, "AMD Instinct MI210 data sheet, bfloat16 matrix"),
)
"""Every card by name, with its source. Where a sheet prints the sparse figure alone, the dense one is half."""

_VARIANTS = frozenset({"ti", "super", "d", "laptop", "mobile", "max", "mig"})
"""Words of a name that make it another card, or a part of one: a figure without the word is not theirs."""


@cache  # each figure of each card of a fleet asks for it
def peak(name: str) -> Peak | None:
    """The peak of a card by its driver's name; None if it is not in the table, a laptop's or a MIG slice."""
    fits = [row for row in PEAKS if names_card(row.card, name)]
    return max(fits, key=lambda row: len(_words(row.card)), default=None)


def names_card(card: str, name: str) -> bool:
    """Whether a driver's name holds all words of a card's, and none more that makes it another card."""
    words, said = _words(card), _words(name)
    return words <= said and not (said - words) & _VARIANTS


def peak_flops(name: str) -> float | None:
    """FLOPs a second of a card by its driver's name, for dense matrices; None for one that is not known."""
    found = peak(name)
    return found.dense if found is not None else None


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower()))
