"""What the search of a leak found: which line or container holds what grows, shown by growth that stops."""

from dataclasses import dataclass, field

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
