from slow_units import assert_finds_the_slow_one, assert_healthy_fleets_are_silent

from gpudoctor.model.signs.preflight import Quantity
from gpudoctor_checks.node.host_transfer_slow import HostTransferSlow


def test_sick_one_of_six_is_slow_and_of_three_it_is_a_suspicion():
    assert_finds_the_slow_one(HostTransferSlow, Quantity.HOST_TO_DEVICE, 55e9)


def test_healthy_noise_other_cards_and_only_two_units():
    assert_healthy_fleets_are_silent(HostTransferSlow, Quantity.HOST_TO_DEVICE, 55e9)
