"""Time by stack: what a flame graph is drawn from, of a recording or of a watched process."""

from collections.abc import Mapping
from typing import NamedTuple

from gpudoctor.model.records import frozen


class FlameFrame(NamedTuple):
    """One level of a flame graph."""

    name: str
    path: str = ""
    """The file; "" for a phase, and for what has no file."""
    line: int = 0
    """1-based; 0 where it is not known."""


@frozen
class FlameProfile:
    """One thread's time."""

    name: str
    """`rank 0`."""
    stacks: Mapping[tuple[FlameFrame, ...], float]
    """Seconds by stack, the outermost frame (the phase) first."""
