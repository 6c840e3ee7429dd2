"""The table of references: every row has a source and a place, and a figure meets rows of its own card only."""

import pytest

from gpudoctor.analysis.preflight.references import all_references, cards_named, references_for
from gpudoctor.model.peaks import peak
from gpudoctor.model.signs.preflight import Figure, Quantity


def figure(quantity, **more):
    return Figure(quantity=quantity, value=1.0, **more)


@pytest.mark.parametrize(
    "name, card",
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA GB200", "GB200"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_a_drivers_name_finds_its_card(name, card):
    assert cards_named(name)[0] == card


@pytest.mark.parametrize("name", ["", "NVIDIA Z900", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Intel(R) Xeon(R)"])
def test_an_unknown_card_has_no_reference(name):
    assert cards_named(name) == ()
    for quantity in Quantity:
        assert references_for(name, figure(quantity, dtype="bf16")) == ()


def test_every_row_names_its_source_and_what_it_measured():
    for row in all_references():
        assert len(row.source) > 20 and row.value > 0
        if row.quantity is Quantity.MATMUL:
            assert row.dtype in ("bf16", "fp8")
    rows = [(r.card, r.quantity, r.kind, r.dtype, r.source) for r in all_references()]
    assert len(rows) == len(set(rows)) > 60


def test_nothing_measured_exceeds_the_peak_of_its_card():
    names = {
        "H100 SXM": "H100 HBM3",
        "H100 PCIe": "H100 PCIe",
        "A100 SXM": "A100",
        "A100 PCIe": "A100",
        "H200 SXM": "H200",
        "B200 SXM": "B200",
    }
    measured = [r for r in all_references() if r.quantity is Quantity.MATMUL and r.dtype == "bf16"]
    for row in measured:
        sheet = peak(names.get(row.card, row.card.split()[0]))
        assert sheet is not None and row.value < sheet.dense
