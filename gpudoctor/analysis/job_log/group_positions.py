"""Where the ranks of each process group were by their flight-recorder dumps: in a collective, or not yet.

Each rank numbers the collectives of a group by itself. A rank whose last number is smaller did not enter the
next one; ranks that have different operations under one number do not agree. A difference of a moment is usual,
as ranks enqueue ahead of their devices: only what has waited long counts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.flight_recorder import CollectiveEntry, FlightRecords, GroupTrace

STUCK_SECONDS = 10.0
"""Seconds in one operation that are a wait: a collective takes seconds at most."""
_LONGEST_DUMP = 900.0
"""Seconds after a timeout within which a dump is written: by the watchdog at once, by its monitor in 8 min."""
_USUAL_TIMEOUT = 1800.0
"""Seconds: torch's timeout of gloo, and the longer one of its two defaults."""
_NEARLY = 0.9
"""Share of its timeout after which an operation counts as timed out: a dump may be written a little before."""


@frozen(kw_only=False, eq=False)
class ProcessGroup:
    """A process group over the dumps of all its ranks."""

    name: str
    description: str
    members: tuple[int, ...]
    traces: Mapping[int, GroupTrace]
    """By rank; a rank that entered nothing has none."""
    idle: frozenset[int]
    """Members with a whole dump and no collective in it."""

    @property
    def dumped(self) -> frozenset[int]:
        """Members whose position is known."""
        return self.idle | {rank for rank, trace in self.traces.items() if trace.last}

    @property
    def default(self) -> bool:
        """Whether it is the group of all ranks."""
        return self.description == "default_pg"


@frozen
class Wait:
    """A collective, send or receive of a group that does not complete."""

    group: ProcessGroup
    launch: CollectiveEntry
    """Of the rank that has waited longest."""
    waiting: tuple[int, ...]
    """Ranks that are in it, or in a later one that it holds up."""
    missing: tuple[int, ...]
    """Ranks that have not entered it, by their own dumps."""
    unseen: tuple[int, ...]
    """Members whose position no dump shows."""
    completed: tuple[int, ...] = ()
    not_started: tuple[int, ...] = ()
    """Ranks whose device has not begun it, where it has begun on others."""
    started: bool = False
    """Whether it began on the device of all that wait."""
    proven: bool = False
    """Whether it waited as long as its timeout."""
    dated: bool = True
    """Whether the dumps show for how long; a file that was copied without its time does not."""

    @property
    def number(self) -> int:
        """Its sequence number."""
        return self.launch.sequence


@frozen
class CollectiveMismatch:
    """Ranks of a group that have different operations under one number."""

    group: ProcessGroup
    sequence: int
    by_operation: tuple[tuple[int, tuple[int, ...]], ...]
    """Key of the operation, and the ranks that called it, most first."""


@once
def process_groups(records: FlightRecords) -> tuple[ProcessGroup, ...]:
    """All process groups that a dump names."""
    entries: dict[tuple[str, str, int], dict[int, GroupTrace]] = defaultdict(dict)
    for dump in records.ranks:
        for trace in dump.groups:
            loose = trace.description if not trace.members else ""
            entries[trace.name, loose, id(trace.members)][dump.rank] = trace  # equal members are one object
    everyone = {dump.rank for dump in records.ranks} | {item.rank for item in records.unread if item.rank is not None}
    found = []
    for traces in entries.values():
        first = next(iter(traces.values()))
        members = first.members or tuple(sorted(everyone if first.description == "default_pg" else traces))
        inside = set(members).difference(traces)
        idle = (dump.rank for dump in records.ranks if dump.rank in inside and not dump.wrapped)
        found.append(ProcessGroup(first.name, first.description, members, traces, frozenset(idle)))
    return tuple(found)


class _Written:
    """When each rank's dump was written, as far as that can be known."""

    def __init__(self, records: FlightRecords) -> None:
        self._files = {dump.rank: dump.written for dump in records.ranks}
        traces = [trace for dump in records.ranks for trace in dump.groups]
        ends = (entry for trace in traces for entry in (*trace.pending, *trace.peers, trace.newest) if entry)
        self.latest = max((entry.created for entry in ends), default=0)
        """When a rank entered an operation last, of all that the dumps show."""

    def __contains__(self, rank: int) -> bool:
        return rank in self._files

    def after(self, rank: int, launch: CollectiveEntry) -> float | None:
        """Seconds from the begin of an operation to the dump; None if the file's time is not the dump's."""
        written = self._files.get(rank, 0)
        age = (written - launch.created) / 1e9
        longest = 2 * (launch.timeout or _USUAL_TIMEOUT) + _LONGEST_DUMP
        return None if age > longest or written < self.latest else age


@once
def waits(records: FlightRecords, seconds: float) -> tuple[Wait, ...]:
    """What does not complete in any group: collectives first. `seconds`: how long it must have waited."""
    written = _Written(records)
    found: list[Wait] = []
    for group in process_groups(records):
        wait = _collective(group, written, seconds)
        if wait is not None:
            found.append(wait)
        found += _peers(group, written, seconds)
    return tuple(found)


def _collective(group: ProcessGroup, written: _Written, seconds: float) -> Wait | None:
    """The first collective of a group that does not complete."""
    lasts = dict.fromkeys(group.idle, 0) | {rank: trace.last for rank, trace in group.traces.items() if trace.last}
    if not lasts or max(lasts.values()) == 0:
        return None
    low, high = min(lasts.values()), max(lasts.values())
    pending = {rank: trace.pending[0] for rank, trace in group.traces.items() if trace.pending}
    oldest = min((launch.sequence for launch in pending.values()), default=None)
    number = low + 1
    if low < high and (oldest is None or oldest >= number):
        missing = tuple(sorted(rank for rank, last in lasts.items() if last == low))
        inside = {rank: launch for rank in lasts if (launch := _waits_at(group.traces.get(rank), number))}
    elif oldest is not None:
        number, missing = oldest, ()
        inside = {rank: launch for rank, launch in pending.items() if launch.sequence == number}
    else:
        return None
    if not inside:
        return None
    first = min(inside.values(), key=lambda launch: (launch.sequence, launch.created))
    proven, dated = _waited(inside, written, seconds)
    if proven is None:
        return None
    at = _at(group, inside, number) or first
    here = {rank: launch for rank, launch in inside.items() if launch.sequence == number}
    running = {rank for rank, launch in here.items() if launch.state == "started"}
    return Wait(
        group=group,
        launch=at,
        waiting=tuple(sorted(inside)),
        missing=missing,
        unseen=tuple(sorted(set(group.members) - group.dumped)),
        completed=tuple(sorted(set(lasts) - set(inside) - set(missing))),
        not_started=tuple(sorted(set(here) - running)) if running else (),
        started=len(running) == len(inside),
        proven=proven,
        dated=dated,
    )


def _waits_at(trace: GroupTrace | None, number: int) -> CollectiveEntry | None:
    """The launch that keeps a rank, of those from a number on; of gloo one that ended may have timed out."""
    if trace is None or trace.last < number:
        return None
    if trace.pending:
        return trace.pending[0]
    return trace.newest if trace.newest is not None and trace.newest.timed_out else None


def _at(group: ProcessGroup, inside: Mapping[int, CollectiveEntry], number: int) -> CollectiveEntry | None:
    """A launch with this number: one that waits, else what the ring of one still says of it."""
    here = next((launch for launch in inside.values() if launch.sequence == number), None)
    rings = ((launch, group.traces[rank]) for rank, launch in inside.items())
    known = ((launch, ring) for launch, ring in rings if ring.operation(number))
    for launch, ring in known if here is None else ():
        return replace(
            launch,
            sequence=number,
            operation=ring.operation(number),
            site=ring.site(number),
            done=False,
            created=0,
            peer=None,
        )
    return here


def _waited(inside: Mapping[int, CollectiveEntry], written: _Written, seconds: float) -> tuple[bool | None, bool]:
    """Whether somebody waited as long as the timeout, and whether the dumps show for how long.

    None for a wait of a moment, as in a job that runs.
    """
    young = old = undated = False
    for rank, launch in inside.items():
        if launch.timed_out and not launch.done:
            return True, True
        if not launch.created:
            continue
        age = written.after(rank, launch)
        if age is None:
            # Other ranks went on meanwhile: so long it has waited at least.
            age = (written.latest - launch.created) / 1e9
            undated = undated or age < seconds
            old = old or age >= seconds
            continue
        if launch.timeout and age >= _NEARLY * launch.timeout:
            return True, True
        young, old = young or 0 <= age < seconds, old or age >= seconds
    return (None if young and not old else False), old or not undated


def _peers(group: ProcessGroup, written: _Written, seconds: float) -> Iterator[Wait]:
    """Sends and receives of a group that wait for the other side."""
    ends: dict[tuple[int, int], tuple[list[tuple[int, CollectiveEntry]], list[tuple[int, CollectiveEntry]]]] = {}
    for rank, trace in group.traces.items():
        place = group.members.index(rank) if trace.peers and rank in group.members else -1
        for launch in trace.peers:
            if launch.peer is not None and place in launch.peer:
                sides = ends.setdefault(launch.peer, ([], []))
                sides[0 if launch.peer[0] == place else 1].append((rank, launch))
    for (source, target), (sends, receives) in ends.items():
        if len(sends) == len(receives) or max(source, target) >= len(group.members):
            continue  # both sides are there: what keeps them is not the program
        longer = sends if len(sends) > len(receives) else receives
        rank, launch = longer[min(len(sends), len(receives))]
        absent = group.members[target if longer is sends else source]
        proven, dated = _waited({rank: launch}, written, seconds)
        if proven is None or absent == rank:
            continue
        seen = absent in written
        yield Wait(
            group=group,
            launch=launch,
            waiting=(rank,),
            missing=(absent,) if seen else (),
            unseen=() if seen else (absent,),
            proven=proven,
            dated=dated,
        )


@once
def first_mismatch(records: FlightRecords, group: ProcessGroup) -> CollectiveMismatch | None:  # noqa: ARG001  # its memory is used
    """The first number under which the ranks of a group have different operations, by what the rings hold."""
    traces = [trace for trace in group.traces.values() if trace.last]
    if len(traces) < 2:
        return None
    longest = max(traces, key=lambda trace: trace.last)
    rings = {(trace.first, trace.last, trace.operations.tobytes()): trace for trace in traces}
    differing = [number for trace in rings.values() if (number := _first_difference(longest, trace)) is not None]
    if not differing:
        return None
    earliest = min(differing)
    callers: dict[int, list[int]] = defaultdict(list)
    for rank, trace in sorted(group.traces.items()):
        operation = trace.operation(earliest)
        if operation:
            callers[operation].append(rank)
    by_operation = sorted(callers.items(), key=lambda item: (-len(item[1]), item[1][0]))
    return CollectiveMismatch(
        group=group,
        sequence=earliest,
        by_operation=tuple((operation, tuple(found)) for operation, found in by_operation),
    )


def _first_difference(one: GroupTrace, other: GroupTrace) -> int | None:
    """The first number under which two rings differ."""
    begin, end = max(one.first, other.first), min(one.last, other.last)
    left = one.operations[begin - one.first : max(begin, end + 1) - one.first]
    right = other.operations[begin - other.first : max(begin, end + 1) - other.first]
    pairs = enumerate(zip(left, right, strict=True), begin) if left != right else ()
    return next((number for number, (mine, its) in pairs if mine != its and mine and its), None)


def oldest_common(group: ProcessGroup) -> int:
    """The first number that all rings of a group still have."""
    return max((trace.first for trace in group.traces.values() if trace.last), default=1)
