"""The plot of an estimate: round ticks, names that do not touch, no line where values have no order."""

import itertools
import re

import pytest

from gpudoctor.estimate import device, estimate
from gpudoctor.estimate.answer import Answer, Variation
from gpudoctor.report.estimate_plot import draw_svg, write_png


def answer(key, values, methods=("full", "lora", "qlora"), card="24GiB"):
    found = device(card) if card else None
    rows = tuple(
        Variation(
            value=str(value),
            estimates=tuple(estimate("7b", method=method, gpu=found, **{key: value}) for method in methods),
        )
        for value in values
    )
    first = rows[0].estimates
    return Answer(shape=first[0].shape, estimates=first, device=found, own=False, varied=(key, rows))


def test_ticks_are_round_and_the_card_is_inside():
    drawn = draw_svg(answer("seq", (1024, 2048, 4096)))
    ticks = [float(text) for text in re.findall(r'text-anchor="end"[^>]*>([\d.,]+)<', drawn)]
    assert ticks == [0, 20, 40, 60, 80]
    assert "24 GiB: the card ends here" in drawn
    assert drawn.count("<polyline") == 3


def test_names_do_not_touch():
    drawn = draw_svg(answer("batch", (1, 16), methods=("lora", "qlora", "int8-lora")))
    heights = sorted(
        float(y) for y, name in re.findall(r'y="([\d.]+)"[^>]*>([^<]+)<', drawn) if name.endswith("LoRA r16")
    )
    assert len(heights) == 3
    assert all(after - before >= 15.9 for before, after in itertools.pairwise(heights))


def test_optimizers_are_points_and_their_names_slant():
    drawn = draw_svg(
        answer(
            "optimizer", ("adamw", "paged-adamw-8bit", "sgd", "adafactor", "lion-8bit", "adamw-8bit"), methods=("lora",)
        )
    )
    assert "<polyline" not in drawn
    assert drawn.count("rotate(-30") == 6


def test_a_png(tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "memory.png"
    write_png(answer("seq", (1024, 2048)), str(target))
    assert target.read_bytes().startswith(b"\x89PNG")
