"""Cards and processors that are slower than their peers."""

import pytest
from preflights import figure, patient, unit
from slow_units import assert_finds_the_slow_one, assert_healthy_fleets_are_silent, fleet

from gpudoctor.model import Confidence, Unavailable
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.card_slow import CardSlow
from gpudoctor_checks.node.cpu_slow import CpuSlow
from gpudoctor_checks.node.host_transfer_slow import HostTransferSlow
from gpudoctor_checks.node.memory_bandwidth_low import MemoryBandwidthLow
from gpudoctor_rules.advice import advice
from gpudoctor_rules.node import leave_out

CPU = {"dtype": "fp32", "device": "cpu", "name": "AMD EPYC 9654"}
FLEETS = [
    (CardSlow, Quantity.MATMUL, 650e12, {"dtype": "bf16"}),
    (CpuSlow, Quantity.MATMUL, 2e12, CPU),
    (HostTransferSlow, Quantity.HOST_TO_DEVICE, 55e9, {}),
    (MemoryBandwidthLow, Quantity.MEMORY_BANDWIDTH, 2.9e12, {}),
]


@pytest.mark.parametrize(("check", "quantity", "usual", "more"), FLEETS)
def test_sick_one_of_six_is_slow_and_of_three_it_is_a_suspicion(check, quantity, usual, more):
    assert_finds_the_slow_one(check, quantity, usual, **more)


@pytest.mark.parametrize(("check", "quantity", "usual", "more"), FLEETS)
def test_healthy_noise_other_cards_and_only_two_units(check, quantity, usual, more):
    assert_healthy_fleets_are_silent(check, quantity, usual, **more)


def test_sick_all_cards_are_far_below_what_the_card_reaches_elsewhere():
    found = fleet(Quantity.MATMUL, 650e12, 0.5, 0.5, 0.5, 0.5, dtype="bf16")
    [finding] = examine(CardSlow, found)
    assert "was measured elsewhere at" in finding.message and finding.confidence is Confidence.PROBABLE
    assert "--exclude" not in str([item.title for item in prescribe((leave_out, *advice("node")), finding, found)])


def test_without_a_card_it_says_so():
    with pytest.raises(Unavailable, match="no card was measured"):
        examine(CardSlow, patient(2, units=(unit(0, device="cpu", name="AMD EPYC 9654"),)))


def test_sick_each_number_type_is_compared_with_its_own_reference():
    figures = tuple(figure(Quantity.MATMUL, speed, dtype=dtype) for dtype, speed in (("bf16", 200e12), ("fp32", 40e12)))
    found = patient(3, units=tuple(unit(at, figures=figures) for at in range(3)))
    [finding] = examine(CardSlow, found)
    assert (
        finding.message.startswith("3 NVIDIA H100 80GB HBM3")
        and "reached at least 200 TFLOP/s in bf16 products" in finding.message
    )
