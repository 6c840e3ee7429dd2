"""What a trace says, as plain data between the child and us."""

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from gpudoctor.estimate.result import Instant
from gpudoctor.model.plain_data import from_plain
from gpudoctor.model.records import frozen


@frozen
class Traced:
    """The memory of a job as its own code allocates it."""

    instants: tuple[Instant, ...]
    """In the order of a step; their names are those of the analytic instants."""
    static: int
    """Bytes that stay between two steps."""
    parameters: int
    """Parameters, packed ones as elements of their bytes."""
    layers: int
    depths: tuple[int, ...]
    """How many blocks were traced; the rest is extrapolated."""
    seconds: float
    """How long the trace took, without imports."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What it assumed, a sentence each."""

    @property
    def peak(self) -> Instant:
        """The instant that holds the peak."""
        return max(self.instants, key=lambda instant: instant.bytes)

    def to_object(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self) | {"instants": [_plain(each) for each in self.instants]}


def _plain(instant: Instant) -> dict[str, Any]:
    lines = [asdict(line) | {"provenance": line.provenance.value} for line in instant.lines]
    return {"name": instant.name, "title": instant.title, "lines": lines}


def from_object(data: dict[str, Any]) -> Traced:
    """What `to_object` wrote."""
    return from_plain(Traced, data)
