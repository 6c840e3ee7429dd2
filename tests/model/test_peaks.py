"""Peaks of cards: one table, each figure with its source."""

import pytest

from gpudoctor.estimate.gpus import devices
from gpudoctor.model.peaks import peak, peak_flops

NAMES = [
    ("NVIDIA A10G", 70), ("NVIDIA A10", 125), ("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA A100 80GB PCIe", 312),
    ("NVIDIA H100 80GB HBM3", 989.4), ("NVIDIA H100 PCIe", 756.5), ("NVIDIA H100 NVL", 835.5),
    ("NVIDIA H200", 989.4), ("NVIDIA H200 NVL", 835.5), ("NVIDIA GH200 480GB", 989.4), ("NVIDIA B200", 2250),
    ("NVIDIA GB200", 2500), ("NVIDIA L40S", 362.05), ("NVIDIA L40", 181.05), ("NVIDIA L4", 121),
    ("Tesla V100-SXM2-16GB", 125), ("Tesla V100-PCIE-16GB", 112), ("Tesla V100S-PCIE-32GB", 130), ("Tesla T4", 65),
    ("NVIDIA GeForce RTX 3090", 71), ("NVIDIA GeForce RTX 3090 Ti", 80), ("NVIDIA GeForce RTX 4090", 165.2),
    ("NVIDIA GeForce RTX 4070 Ti SUPER", 88.2), ("NVIDIA RTX 6000 Ada Generation", 364.2), ("NVIDIA RTX A6000", 154.8),
    ("AMD Instinct MI300X", 1307.4), ("AMD Instinct MI250X/MI250", 191.5),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tera"), NAMES)
def test_the_dense_peak_of_a_drivers_name(name, tera):
    assert peak_flops(name) == pytest.approx(tera * 1e12)


def test_every_card_that_an_estimate_knows_has_a_peak():
    assert len(devices()) >= 40
    assert [name for name in devices() if peak(name) is None] == []
