"""What one attack came to: the type that every group of attacks yields."""

from __future__ import annotations

import importlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Attempt:
    """One thing that was tried.

    Args:
        group: the row of the table that it counts in.
        name: what was tried, short enough for one line.
        broken: why it broke, in a sentence; None when gpudoctor withstood it.
    """

    group: str
    name: str
    broken: str | None = None


def attack(name: str, seed: int) -> tuple[list[Attempt], float]:
    """Everything that a module's `attempts(seed, scratch)` tries in an empty folder, and the seconds it took."""
    module = importlib.import_module(f"attack.{name}")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix=f"attack-{name}-") as scratch:
        tried = list(module.attempts(seed, Path(scratch)))
    return tried, time.perf_counter() - start
