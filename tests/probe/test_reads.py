"""Reads of tensors: an optimizer's own are left alone, and quickly."""

from types import SimpleNamespace

import pytest

from gpudoctor.probe.clock import FORWARD, OPTIMIZER
from gpudoctor.probe.hooks.reads import Read
from gpudoctor.probe.table import OTHER


class Number(int):
    """Something with a method to be replaced."""

    plain = int.bit_length


@pytest.mark.parametrize(
    ("phase", "scaling", "asked"), [(OTHER, False, 1), (FORWARD, False, 1), (OPTIMIZER, False, 0), (OPTIMIZER, True, 1)]
)
def test_what_an_optimizer_asks_is_not_looked_at(phase, scaling, asked):
    """What a scaler asks before its optimizer's step is."""
    seen = []
    clock = SimpleNamespace(phase=phase, scaling=scaling)
    read = Read(Number.plain, lambda number, original: seen.append(number), clock)
    assert read.__get__(Number(5))() == 3 and len(seen) == asked
    assert read.__get__(None, Number) is Number.plain
