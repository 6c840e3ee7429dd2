"""What the verdict on an examination says of links that no test has used."""

from dataclasses import replace

import pytest
from preflights import every_pair, pair, patient

from gpudoctor.engine.preflight_verdict import pronounce_preflight


def test_links_that_no_test_has_used_are_counted():
    said = pronounce_preflight(patient(6, tests=(pair(0, 1), pair(2, 3), pair(4, 5), pair(0, 1, at=1))), ())
    assert said.endswith("3 of 15 links between two nodes were tested; --deep tests more of them.")


@pytest.mark.parametrize("tests", [every_pair(4), ()])
def test_where_all_links_or_none_were_tested_nothing_is_said_of_it(tests):
    assert "links" not in pronounce_preflight(patient(4, tests=tests), ())


def test_tests_that_vary_by_factors_are_said_to_show_no_slow_node():
    speeds = iter((46e9, 9e9, 30e9, 12e9, 50e9, 4e9) * 3)
    tests = every_pair(6, speed=lambda _a, _b: next(speeds))
    wide = tuple(replace(test, figures=tuple(replace(item, spread=0.5) for item in test.figures)) for test in tests)
    assert "a node at half the speed of the others would not show" in pronounce_preflight(patient(6, tests=wide), ())


def test_deep_mode_is_not_advised_to_itself():
    said = pronounce_preflight(patient(6, mode="deep", tests=(pair(0, 1),)), ())
    assert "1 of 15 links between two nodes were tested. " in said
