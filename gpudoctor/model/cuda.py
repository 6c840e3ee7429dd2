"""CUDA's rules of compatibility, shared by checks and rules: versions, and which binary runs on which card."""

import re
from collections.abc import Iterable

Capability = tuple[int, int]
"""Compute capability, major and minor: (8, 9)."""


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: `570.86.15` and `12.8` as tuples; empty for what has none."""
    match = re.match(r"\s*v?(\d{1,9}(?:\.\d{1,9})*)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def dotted(version: Iterable[int]) -> str:
    """`12.8` of (12, 8)."""
    return ".".join(str(part) for part in version)


def architecture(name: str) -> tuple[str, Capability, str] | None:
    """Kind (`sm` or `compute`), capability and suffix of `sm_90a`; None for another name (`gfx942`)."""
    match = re.fullmatch(r"(sm|compute)_(\d{1,3})(\d)([af]?)", name)
    return (match[1], (int(match[2]), int(match[3])), match[4]) if match else None


def runs_on(built: Iterable[str], card: Capability) -> str | None:
    """Which of the architectures lets a build run on a card; None when none does.

    Machine code (`sm_`) runs on cards of the same major and at least its minor; with the suffix `a` on exactly
    its own, with `f` within its family. Intermediate code (`compute_`) is compiled by the driver for every
    newer card (CUDA programming guide, "Binary Compatibility" and "PTX Compatibility").
    """
    compiled: str | None = None
    for name in built:
        parts = architecture(name)
        if parts is None:
            continue
        kind, target, suffix = parts
        if kind == "sm":
            fits = target == card if suffix == "a" else target[0] == card[0] and target[1] <= card[1]
            if fits:
                return name
        elif suffix == "" and target <= card:
            compiled = name
    return compiled


_JETSON = re.compile(r"orin|xavier|thor|tegra|jetson|\bnano\b", re.IGNORECASE)


def is_jetson(name: str) -> bool:
    """Whether a card is a Jetson board's: drivers and binaries there follow their own rules."""
    return _JETSON.search(name) is not None
