"""The story of a death as a report carries it: every message that matters, with its role and place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMoment:
    """One message of the time line."""

    role: str
    """`root`, `same` (the same cause on another rank), `cascade`, `handled` (the training went on)."""
    code: str
    """The check's code; "" for a consequence."""
    kind: str
    path: str
    line: int
    """1-based."""
    last_line: int
    """Where it came last."""
    count: int
    rank: int | None
    node: str
    time: str
    """As the log has it; "" without one."""
    step: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """What was read and what it says."""

    files: tuple[str, ...]
    lines: int
    bytes: int
    ranks: tuple[int, ...]
    """Ranks that printed something under their number."""
    world: int | None
    """Number of ranks, where the log says it."""
    last_step: int | None
    finished: bool
    """Whether the program said that its training was complete."""
    died: bool
    moments: tuple[LogMoment, ...]
    """In their order; harmless ones are left out."""
