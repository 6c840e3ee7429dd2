"""Plain data as dataclasses of the model: what fits comes back, what does not says where it is wrong."""

import pytest

from gpudoctor.model.plain_data import from_plain
from gpudoctor.model.signs.preflight import Figure, LinkTest, PreflightNode, Quantity, Stage

TEST = {"stage": "pairs", "round": 1, "nodes": [0, 1], "units": [[0, 0], [1, 0]]}


def test_enums_tuples_and_whole_numbers_of_a_float_come_back():
    figure = {"quantity": "latency", "value": 2, "later": True}
    assert from_plain(LinkTest, {**TEST, "figures": [figure]}) == LinkTest(
        stage=Stage.PAIRS, round=1, nodes=(0, 1), units=((0, 0), (1, 0)),
        figures=(Figure(quantity=Quantity.LATENCY, value=2.0),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (LinkTest, [], "[] is not LinkTest"),
        (LinkTest, {**TEST, "stage": "nap"}, "stage: 'nap' is not a valid Stage"),
        (LinkTest, {**TEST, "nodes": [0, "1"]}, "nodes.1: '1' is not int"),
        (LinkTest, {**TEST, "nodes": [True]}, "nodes.0: True is not int"),
        (LinkTest, {**TEST, "nodes": 3}, "nodes: 3 is not a list"),
        (LinkTest, {**TEST, "units": [[0]]}, "units.0: [0] is not a list of 2"),
        (LinkTest, {**TEST, "figures": [{"quantity": "latency", "value": float("nan")}]}, "figures.0.value: nan is not finite"),
        (PreflightNode, {"index": 0, "name": "a", "ranks": [], "facts": {"torch": 2}}, "facts.torch: 2 is not str"),
        (PreflightNode, {"index": 0, "name": "a", "ranks": [], "clock_offset": "late"}, "clock_offset: 'late' is not float"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_where_it_is_wrong(kind, given, words):
    with pytest.raises((TypeError, ValueError)) as raised:
        from_plain(kind, given)
    assert str(raised.value) == words
