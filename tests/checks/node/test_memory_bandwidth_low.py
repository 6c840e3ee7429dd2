from slow_units import assert_finds_the_slow_one, assert_healthy_fleets_are_silent

from gpudoctor.model.signs.preflight import Quantity
from gpudoctor_checks.node.memory_bandwidth_low import MemoryBandwidthLow


def test_sick_one_of_six_is_slow_and_of_three_it_is_a_suspicion():
    assert_finds_the_slow_one(MemoryBandwidthLow, Quantity.MEMORY_BANDWIDTH, 2.9e12)


def test_healthy_noise_other_cards_and_only_two_units():
    assert_healthy_fleets_are_silent(MemoryBandwidthLow, Quantity.MEMORY_BANDWIDTH, 2.9e12)
