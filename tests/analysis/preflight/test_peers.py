"""Who stands out from its peers: the floor on the spread, small samples, several kinds of card."""

from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.analysis.preflight.peers import outliers, unit_outliers
from gpudoctor.model.finding import Confidence
from gpudoctor.model.signs.preflight import Figure, Quantity, Unit

LIMITS = {"share": 0.9, "deviations": 5.0}


def units(rates, name="NVIDIA H100 80GB HBM3", node=0):
    return [
        Unit(
            node=node, local=index, device="cuda", name=name,
            figures=(Figure(quantity=Quantity.MATMUL, value=rate, dtype="bf16"),),
        )
        for index, rate in enumerate(rates)
    ]  # fmt: skip


def test_one_slow_card_of_eight_equal_ones_is_named_with_its_share():
    (found,) = unit_outliers(units([700e12] * 7 + [560e12]), Quantity.MATMUL, dtype="bf16", **LIMITS)
    assert found.key == (0, 7) and found.share == 0.8 and found.peers == 700e12
    assert found.confidence is Confidence.CONFIRMED


def test_of_two_nobody_stands_out_and_of_three_only_weakly():
    assert not outliers({"a": 1.0, "b": 0.2}, **LIMITS)
    (found,) = outliers({"a": 1.0, "b": 1.0, "c": 0.5}, **LIMITS)
    assert found.key == "c" and found.confidence is Confidence.SUSPECTED
    (found,) = outliers({"a": 1.0, "b": 1.0, "c": 0.5, "d": 1.0}, **LIMITS)
    assert found.confidence is Confidence.PROBABLE


def test_a_fleet_of_two_cards_is_compared_within_each_name():
    fleet = units([700e12] * 4) + units([260e12] * 3 + [200e12], name="NVIDIA A100-SXM4-80GB", node=1)
    (found,) = unit_outliers(fleet, Quantity.MATMUL, dtype="bf16", **LIMITS)
    assert found.key == (1, 3) and found.count == 4


@given(st.lists(st.floats(0.98, 1.02), min_size=3, max_size=64))
def test_two_percent_either_way_is_never_an_outlier(values):
    assert not outliers(dict(enumerate(values)), **LIMITS)
