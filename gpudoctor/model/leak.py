"""What the search of a leak found: which line or container holds what grows, shown by growth that stops."""

from dataclasses import dataclass, field
from enum import Enum

from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import SourceSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakTry:
    """One run with something kept less, or let go."""

    change: str
    """What: `without train.py:41`, `loss.item() at train.py:41`, `gc.collect() every 10 steps`."""
    place: SourceSpan | None = None
    bytes_per_step: float | None = None
    """Growth with it; None where the run failed or did not tell."""
    p: float | None = None
    """Two-sided probability of so clear a trend by chance (Mann and Kendall)."""
    outcome: str
    """`gone`, `less`, `as before`, `failed`, `no place to edit`."""
    reason: str = ""
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakSearch:
    """The search."""

    code: str
    """Of the finding: `MEM001`, `MEM002`."""
    bytes_per_step: float
    """Of the command as it is."""
    steps: int
    """Of every run."""
    tries: tuple[LeakTry, ...] = field(default=())
    place: SourceSpan | None = None
    """The line that keeps it; None where none was found."""
    holder: str = ""
    """What holds it: `losses`, `model.seen`, reference cycles."""
    keep: str = ""
    """What the smallest change of the line that stops the growth still keeps: `detached`, `number`, `last`,
    `nothing`; "" for none."""
    words: str = ""
    """What was found, one or two sentences."""
    seconds: float = 0.0


class LeakKind(Enum):
    """What grows."""

    WORKERS = "workers"
    """What the loader's workers retain."""
    PROFILER = "profiler"
    """A profiler's events."""
    GRAPHS = "graphs"
    """Tensors with their autograd graph."""
    TENSORS = "tensors"
    """Tensors without a graph."""
    CONTAINER = "container"
    """A container without tensors."""
    OBJECTS = "objects"
    """Nobody knows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakDetail(Detail):
    """What a check with one of the traits `GROWTH` knows of the memory, and what a search added."""

    kind: LeakKind = LeakKind.OBJECTS
    target: str = ""
    """What retains it, as far as the check knows: `losses`."""
    search: LeakSearch | None = None
    """The search that found something to say; None where nobody searched."""

    @property
    def place(self) -> SourceSpan | None:
        """The line that the search found to retain it."""
        return self.search.place if self.search is not None else None
