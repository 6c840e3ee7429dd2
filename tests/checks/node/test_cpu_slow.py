from slow_units import assert_finds_the_slow_one, assert_healthy_fleets_are_silent

from gpudoctor.model.signs.preflight import Quantity
from gpudoctor_checks.node.cpu_slow import CpuSlow


def test_sick_one_of_six_is_slow_and_of_three_it_is_a_suspicion():
    assert_finds_the_slow_one(CpuSlow, Quantity.MATMUL, 2e12, dtype="fp32", device="cpu", name="AMD EPYC 9654")


def test_healthy_noise_other_cards_and_only_two_units():
    assert_healthy_fleets_are_silent(
        CpuSlow, Quantity.MATMUL, 2e12, dtype="fp32", device="cpu", name="AMD EPYC 9654"
    )
