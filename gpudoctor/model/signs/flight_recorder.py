"""Flight-recorder dumps: what each rank had asked of its process groups when the job was stuck or died.

torch keeps a ring of the last operations (`TORCH_FR_BUFFER_SIZE`) and writes it, one file a rank, when a
collective times out.
"""

from collections.abc import Hashable
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.records import field, frozen

_MOST_PROBLEMS = 8


@frozen
class CollectiveCall:
    """One collective that a rank entered."""

    number: int
    """Its sequence number in the group."""
    operation: str
    """Without the backend: `all_reduce`."""
    payload: str
    """`16 elements of Float`; "" where ranks may give different sizes."""
    path: str
    """The innermost line of the user's; "" where the dump has no stack or only a library's."""
    line: int
    function: str
    state: str
    """`scheduled` (waits for the device), `started`, `completed`; gloo does not go beyond `scheduled`."""
    done: bool
    timed_out: bool
    """Whether its wait ended without the operation; of gloo it may also have completed."""
    created: int
    """Nanoseconds since 1970; 0 where unknown."""
    timeout: float
    """Seconds; 0 where unknown."""


@frozen
class GroupPosition:
    """How far one rank came in one process group."""

    name: str
    description: str
    members: tuple[int, ...]
    """Ranks of the whole job; empty where the dump does not say them (gloo)."""
    newest: CollectiveCall
    """The last collective that it entered."""
    open: CollectiveCall | None
    """The oldest one that has not completed."""


@frozen
class RankDump:
    """One file."""

    rank: int
    path: str
    wrapped: bool
    """Whether older entries were overwritten."""
    groups: tuple[GroupPosition, ...]
    latest: tuple[str, CollectiveCall] | None
    """The last entry of any group, with the group's description; of a send or receive, too."""
    written: int
    """When the file was written, as far as the file system knows: nanoseconds since 1970."""


@frozen
class UnreadDump:
    """A file that should hold a rank's dump and does not."""

    rank: int | None
    path: str
    reason: str
    """A clause: `it is empty`."""


@frozen
class FlightRecords:
    """The dumps of one job."""

    ranks: tuple[RankDump, ...]
    """By rank."""
    unread: tuple[UnreadDump, ...] = ()
    memory: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    """Answers about it that were worked out once (`gpudoctor.analysis.memo`)."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, a sentence each; many in one."""
        said = [
            say("{path}: cannot be read as a flight-recorder dump: {reason}", path=item.path, reason=item.reason)
            for item in self.unread
        ]
        if len(said) <= _MOST_PROBLEMS:
            return tuple(said)
        return (*said[:_MOST_PROBLEMS], say("{said:,} more dumps cannot be read", said=len(said) - _MOST_PROBLEMS))
