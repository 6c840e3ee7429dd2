"""What a trace says, and where it differs from the analytic model."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from gpudoctor.estimate.result import Estimate, Instant, Line
from gpudoctor.model import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
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
    libraries: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What it assumed, a sentence each."""

    @property
    def peak(self) -> Instant:
        """The instant that holds the peak."""
        return max(self.instants, key=lambda instant: instant.bytes)

    def to_object(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self) | {
            "instants": [
                {"name": each.name, "title": each.title, "lines": [_plain(line) for line in each.lines]}
                for each in self.instants
            ]
        }


def _plain(line: Line) -> dict[str, Any]:
    return asdict(line) | {"provenance": line.provenance.value}


def from_object(data: dict[str, Any]) -> Traced:
    """What `to_object` wrote."""
    instants = tuple(
        Instant(
            name=each["name"],
            title=each["title"],
            lines=tuple(Line(**{**line, "provenance": Provenance(line["provenance"])}) for line in each["lines"]),
        )
        for each in data["instants"]
    )
    lists = {"depths": tuple(data["depths"]), "notes": tuple(data["notes"])}
    return Traced(**{**data, **lists, "instants": instants})


# Traced beside analytic: instant by instant, and the lines at the traced peak.

GROUPS = {
    "weights": ("weights", "embeddings", "small-weights", "experts", "adapters", "trained-copies"),
    "gradients": ("gradients", "accumulated-gradients", "head-gradient", "matrix-gradient"),
    "optimizer": ("optimizer",),
    "activations": ("activations", "checkpoints", "checkpoints-kept"),
    "loss": ("loss", "final-norm", "embedding-scale", "logits-kept"),
    "block": ("block", "weight-copies"),
    "step temporaries": ("step-temporaries",),
    "workspace and batch": ("workspace", "batch"),
}
"""Lines of both models under common names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantDifference:
    """One instant in both models."""

    name: str
    title: str
    analytic: int | None
    """Bytes by formula; None where the analytic model has no such instant."""
    traced: int | None
    """Bytes that were followed; None where the trace has no such instant."""

    @property
    def share(self) -> float | None:
        """Analytic over traced, minus one."""
        if self.analytic is None or not self.traced:
            return None
        return self.analytic / self.traced - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceComparison:
    """A job's trace beside its estimate."""

    method: str
    """The job's method as the answer calls it: `LoRA r16`."""
    estimate: Estimate
    """The analytic estimate; where none exists, the trace itself in its form."""
    traced: Traced | None
    """The trace; None where this job could not be traced."""
    why: str = ""
    """Why it could not."""
    alone: bool = False
    """Whether the analytic model knows nothing of this model."""

    @property
    def share(self) -> float | None:
        """By how much the analytic peak is above the traced one; None where either is missing."""
        if self.traced is None or self.alone:
            return None
        return self.estimate.total_bytes / max(self.traced.peak.bytes, 1) - 1

    @property
    def instants(self) -> tuple[InstantDifference, ...]:
        """Every instant of either model, in the order of a run."""
        if self.traced is None:
            return ()
        mine = {} if self.alone else {each.name: each for each in self.estimate.instants}
        theirs = {each.name: each for each in self.traced.instants}
        return tuple(_difference(name, mine.get(name), theirs.get(name)) for name in {**theirs, **mine})


def at_peak(comparison: TraceComparison) -> list[tuple[str, int, int]]:
    """At the traced peak: common name, analytic and traced bytes, largest first."""
    if comparison.traced is None:
        return []
    peak = comparison.traced.peak
    same = next((each for each in comparison.estimate.instants if each.name == peak.name), None)
    mine = {} if same is None or comparison.alone else _grouped(same.lines)
    theirs = _grouped(peak.lines)
    rows = [(name, mine.get(name, 0), theirs.get(name, 0)) for name in dict.fromkeys([*theirs, *mine])]
    return sorted(rows, key=lambda row: -max(row[1:]))


def _grouped(lines: Iterable[Line]) -> dict[str, int]:
    """Lines by their common names."""
    names = {kind: name for name, kinds in GROUPS.items() for kind in kinds}
    found: dict[str, int] = {}
    for line in lines:
        name = names.get(line.kind, line.kind)
        found[name] = found.get(name, 0) + line.bytes
    return found


def _difference(name: str, analytic: Instant | None, traced: Instant | None) -> InstantDifference:
    known = traced or analytic
    return InstantDifference(
        name=name, title=known.title if known is not None else name,
        analytic=None if analytic is None else analytic.bytes, traced=None if traced is None else traced.bytes,
    )  # fmt: skip
