"""What the verdict on an examination says of links that no test has used."""

import pytest
from preflights import every_pair, pair, patient

from gpudoctor.engine.preflight_verdict import pronounce_preflight


def test_links_that_no_test_has_used_are_counted():
    said = pronounce_preflight(patient(6, tests=(pair(0, 1), pair(2, 3), pair(4, 5), pair(0, 1, at=1))), ())
    assert said.endswith("3 of 15 links between two nodes were tested; --deep tests more of them.")


@pytest.mark.parametrize("tests", [every_pair(4), ()])
def test_where_all_links_or_none_were_tested_nothing_is_said_of_it(tests):
    assert "links" not in pronounce_preflight(patient(4, tests=tests), ())


def test_deep_mode_is_not_advised_to_itself():
    said = pronounce_preflight(patient(6, mode="deep", tests=(pair(0, 1),)), ())
    assert said.endswith("1 of 15 links between two nodes were tested.")
