import pytest
from preflights import patient, unit

from gpudoctor.model import Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.wrong_values import WrongValues
from gpudoctor_rules.advice import advice

RIGHT, WRONG = "a1b2", "a1b3"


def units(*digests, names=None):
    return tuple(
        unit(index, digests={"bf16 4096": tuple(item)}, **({"name": names[index]} if names else {}))
        for index, item in enumerate(digests)
    )


def test_sick_one_card_of_four_has_other_bits():
    found = patient(units=units([RIGHT] * 3, [RIGHT] * 3, [WRONG] * 3, [RIGHT] * 3))
    [finding] = examine(WrongValues, found)
    assert finding.severity is Severity.ERROR and finding.confidence is Confidence.CONFIRMED
    assert (
        finding.message == "GPU 0 of node02 gives other bits than 3 of 4 equal units for the same product (bf16 4096)."
    )
    remedies = prescribe(advice("node"), finding, found)
    assert [item.id for item in remedies] == ["NODE002-leave-out", "NODE002-replace"]
    assert remedies[0].title == "--exclude=node02"


def test_sick_a_card_that_disagrees_with_itself():
    found = patient(units=units([RIGHT] * 3, [RIGHT, WRONG, RIGHT], [RIGHT] * 3))
    [finding] = examine(WrongValues, found)
    assert finding.message == "GPU 0 of node01 gave 2 different results for one product (bf16 4096) in 3 repetitions."


def test_two_cards_that_differ_name_nobody():
    found = patient(2, units=units([RIGHT], [WRONG]))
    [finding] = examine(WrongValues, found)
    assert finding.confidence is Confidence.PROBABLE and "No majority" in finding.message
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE002-more"]


@pytest.mark.parametrize(
    "found",
    [
        patient(units=units([RIGHT] * 3, [RIGHT] * 3)),
        patient(units=units([RIGHT], [WRONG], names=["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"])),
        patient(units=(unit(0), unit(1))),
    ],
)
def test_healthy_equal_bits_and_other_cards(found):
    assert examine(WrongValues, found) == []
