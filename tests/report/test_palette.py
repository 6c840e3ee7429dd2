"""The palette: every phase has a colour, and readers who see fewer colours tell neighbours apart."""

import math
from itertools import combinations, pairwise

import pytest

from gpudoctor.report.palette import CURVES, PHASES, SEVERITIES

SIGHTS = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
"""Machado, Oliveira and Fernandes, 2009, of linear RGB at severity 1."""
PAPERS = {"light": "#ffffff", "dark": "#0f1318"}
COMMON = ("forward", "backward", "optimizer", "data_wait", "transfer", "collective", "sync")


def linear(colour):
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]


def seen(colour, sight):
    rgb = linear(colour)
    return [min(1.0, max(0.0, sum(a * b for a, b in zip(row, rgb, strict=True)))) for row in SIGHTS[sight]]


def lab(rgb):
    r, g, b = rgb
    xyz = ((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047, 0.2126 * r + 0.7152 * g + 0.0722 * b,
           (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883)  # fmt: skip
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def apart(one, two, sight):
    """CIE 1976; 2.3 is a just noticeable difference."""
    return math.dist(lab(seen(one, sight)), lab(seen(two, sight)))


def contrast(one, two):
    low, high = sorted(sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(c), strict=True)) for c in (one, two))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", PAPERS)
def test_phases_are_told_apart(theme, sight):
    colours = {name: getattr(colour, theme) for name, colour in PHASES.items()}
    near = {pair: apart(colours[pair[0]], colours[pair[1]], sight) for pair in combinations(colours, 2)}
    for pair in pairwise(colours):
        assert near[pair] > 10, (pair, near[pair])  # they touch in a stack
    for pair in combinations(COMMON, 2):
        assert near[pair] > 15, (pair, near[pair])
    assert min(near.values()) > 6, min(near, key=near.get)


@pytest.mark.parametrize("theme", PAPERS)
def test_lines_and_words_stand_out_from_the_paper(theme):
    for colour in CURVES:
        assert contrast(getattr(colour, theme), PAPERS[theme]) > 3
    for colour in SEVERITIES.values():
        assert contrast(getattr(colour, theme), PAPERS[theme]) > 4.5
