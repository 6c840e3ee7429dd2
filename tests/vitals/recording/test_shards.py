"""Norms of gradients that are spread over ranks."""

import math

import pytest
from recordings import make_process, make_steps, record

from gpudoctor.analysis.run.curves import norm_curve
from gpudoctor.vitals.recording.reader import whole_norms


def rank(number, norms, shards=2):
    told = [record("numeric", 1.0, kind="norms", step=0, norm=norms[0], **({"shards": shards} if shards > 1 else {}))]
    table = make_steps(len(norms), grad_norm=lambda i: norms[i])
    return make_process(table, records=told, rank=number, world=4)


def curve(ranks, number=0):
    return norm_curve(whole_norms(ranks)[number])


def test_the_parts_of_all_ranks_make_the_norm():
    found = curve([rank(0, [3.0, 6.0, math.nan]), rank(1, [4.0, 8.0, 8.0])])
    assert found.steps == (0, 1) and found.values == pytest.approx((5.0, 10.0))


def test_groups_that_have_the_same_gradient_count_once():
    parts = [3.0, 4.0, 3.0, 4.0]
    assert curve([rank(i, [part]) for i, part in enumerate(parts)]).values == pytest.approx((5.0,))


def test_without_all_parts_there_is_no_norm():
    assert len(curve([rank(0, [3.0, 6.0])])) == 0
    assert len(curve([rank(0, [3.0, math.nan]), rank(1, [math.nan, 4.0])])) == 0


def test_gradients_that_every_rank_has_are_left_alone():
    ranks = [rank(0, [3.0], shards=1), rank(1, [4.0], shards=1)]
    assert whole_norms(ranks) == tuple(ranks)
