"""Flight-recorder dumps: what each rank had asked of its process groups when the job was stuck or died.

torch keeps a ring of the last operations (`TORCH_FR_BUFFER_SIZE`) and writes it, one file a rank, when a
collective times out. A dump is kept as numbers: an operation and a call site for each sequence number.
"""

from array import array
from collections.abc import Hashable, Mapping
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.records import field, frozen

_MOST_PROBLEMS = 8


@frozen(kw_only=False)
class CallSite:
    """Where an operation was called."""

    path: str = ""
    """The innermost line of the user's; "" where the dump has no stack or only a library's."""
    line: int = 0
    function: str = ""
    via: str = ""
    """The innermost function of all: `all_reduce`."""


@frozen(kw_only=False)
class GroupOperation:
    """What all ranks of a group must agree about, of one operation."""

    name: str
    """Without the backend: `all_reduce`."""
    elements: int | None = None
    """Elements that a rank gives or takes; None where ranks may differ (all_to_all, gather, scatter)."""
    dtypes: tuple[str, ...] = ()
    sizes: tuple[tuple[int, ...], ...] = ()
    """Shapes of the first rank that showed it; they are not compared."""


@frozen(kw_only=False)
class CollectiveEntry:
    """One operation that a rank entered."""

    sequence: int
    operation: int
    """Key of `FlightRecords.operations`."""
    site: int
    """Key of `FlightRecords.sites`."""
    state: str
    """`scheduled` (waits for the device), `started`, `completed`; gloo does not go beyond `scheduled`."""
    done: bool
    timed_out: bool
    """Whether its wait ended without the operation; of gloo it may also have completed."""
    created: int
    """Nanoseconds since 1970; 0 where unknown."""
    timeout: float
    """Seconds; 0 where unknown."""
    peer: tuple[int, int] | None = None
    """Of send and recv: source and destination, as positions in the group."""


@frozen
class GroupTrace:
    """What one rank did in one process group."""

    name: str
    description: str
    members: tuple[int, ...]
    """Ranks of the whole job; empty where the dump does not say them (gloo)."""
    first: int
    """Sequence number of the oldest collective in the ring; 1 and `last` 0 without one."""
    last: int
    operations: "array[int]"
    """By sequence number from `first` on; 0 where it is not in the ring."""
    sites: "array[int]"
    pending: tuple[CollectiveEntry, ...]
    """Collectives that have not completed: the oldest ones."""
    newest: CollectiveEntry | None
    """The last collective."""
    peers: tuple[CollectiveEntry, ...] = ()
    """Sends and receives that have not completed: the oldest ones."""

    def operation(self, sequence: int) -> int:
        """The key of an operation; 0 where it is not in the ring."""
        return self.operations[sequence - self.first] if self.first <= sequence <= self.last else 0

    def site(self, sequence: int) -> int:
        """The key of a call site; 0 where it is not in the ring."""
        return self.sites[sequence - self.first] if self.first <= sequence <= self.last else 0


@frozen
class RankDump:
    """One file."""

    rank: int
    path: str
    version: str
    entries: int
    wrapped: bool
    """Whether older entries were overwritten."""
    groups: tuple[GroupTrace, ...]
    latest: tuple[str, CollectiveEntry] | None
    """The last entry of the ring, of any group, with the group's name."""
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
    operations: Mapping[int, GroupOperation] = field(default_factory=dict)
    sites: Mapping[int, CallSite] = field(default_factory=dict)
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
