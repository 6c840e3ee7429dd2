"""Which rank did not join which collective, by the flight-recorder dumps of a job's ranks.

Each rank numbers the collectives of a process group by itself: a rank whose last number is smaller did not enter
the next one. Ranks wait for ranks that wait for others: the verdict is about those that wait for nobody. Ranks
enqueue ahead of their devices, so a difference of a moment is usual: only what has waited long counts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Confidence, LogLine, SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.flight_recorder import CollectiveCall, FlightRecords, GroupPosition, RankDump
from gpudoctor.text import capitalised, ranks

STUCK_SECONDS = 10.0
"""Seconds in one operation that are a wait: a collective takes seconds at most."""
_NEARLY = 0.9
"""Share of its timeout after which an operation counts as timed out: a dump may be written a little before."""
_COPIED = 3
"""Timeouts after which the time of a file is not that of the dump: somebody has copied it."""
_SHOWN = 4
"""Places and ranks that evidence and sentences name."""


class FlightKind(Enum):
    """What the dumps show."""

    MISSING = "missing"
    """Ranks did not enter a collective."""
    ALONE = "alone"
    """A few ranks entered a collective, and most did not."""
    MISMATCH = "mismatch"
    """Ranks have different operations under one number."""
    UNSEEN = "unseen"
    """Everybody with a dump entered; others left no dump."""
    STALLED = "stalled"
    """Everybody entered, and it does not complete."""


@frozen
class FlightVerdict:
    """What the dumps prove of a job that stood still."""

    kind: FlightKind
    ranks: tuple[int, ...]
    """Those to look at first."""
    sentences: tuple[str, ...]
    evidence: tuple[LogLine | SourceSpan, ...]
    confidence: Confidence

    @property
    def text(self) -> str:
        """All sentences."""
        return concatenated(" ", self.sentences)


@frozen
class _Wait:
    """A collective of a process group that does not complete."""

    group: str
    """`group tp (ranks 4-7)`; "" in a job with one group."""
    inside: Mapping[int, CollectiveCall]
    """By rank: what it waits in."""
    missing: tuple[int, ...]
    """Ranks that have not entered it, by their own dumps."""
    unseen: tuple[int, ...]
    """Members whose position no dump shows."""
    confidence: Confidence

    @property
    def call(self) -> CollectiveCall:
        """The one that the first rank waits in."""
        return min(self.inside.values(), key=lambda call: (call.number, call.created))

    @property
    def named(self) -> str:
        """`all_reduce number 58 of group tp (ranks 4-7)`."""
        return _named(self.call, self.group)


@once
def flight_verdict(records: FlightRecords, seconds: float) -> FlightVerdict | None:
    """The verdict; None where nothing waits for longer than so many seconds."""
    found = _waits(records, seconds)
    if not found:
        return None
    different = [wait for wait in found if len(_by_operation(wait)) > 1]
    blocked = {rank for wait in found for rank in wait.inside}
    roots = {rank for wait in found for rank in wait.missing} - blocked
    if different:
        kind, wait, (who, sentences) = FlightKind.MISMATCH, different[0], _disagreement(different[0])
    elif roots:
        wait = min(
            (item for item in found if roots & set(item.missing)), key=lambda item: not roots.issuperset(item.missing)
        )
        who = tuple(rank for rank in wait.missing if rank in roots)
        alone = len(wait.inside) < len(who)
        kind, sentences = FlightKind.ALONE if alone else FlightKind.MISSING, _absence(wait, who, records)
        who = tuple(wait.inside) if alone else who
    elif unseen := [wait for wait in found if wait.unseen and not wait.missing]:
        kind, wait, who = FlightKind.UNSEEN, unseen[0], unseen[0].unseen
        sentences = _unseen(wait, records)
    else:
        wait = next((wait for wait in found if not wait.missing), found[0])
        running = {rank for rank, call in wait.inside.items() if call.state == "started"}
        who = tuple(rank for rank in wait.inside if rank not in running) if running else ()
        kind, sentences = FlightKind.STALLED, _stall(wait, who, began=len(running) == len(wait.inside))
    return FlightVerdict(
        kind=kind,
        ranks=who,
        sentences=tuple(filter(None, sentences)),
        evidence=_evidence(records, wait, who),
        confidence=Confidence.PROBABLE if kind is FlightKind.UNSEEN else wait.confidence,
    )


def _waits(records: FlightRecords, seconds: float) -> list[_Wait]:
    """What does not complete in any process group."""
    groups: dict[tuple[object, ...], dict[int, GroupPosition]] = defaultdict(dict)
    for dump in records.ranks:
        for position in dump.groups:
            groups[position.name, position.description, position.members][dump.rank] = position
    found = (_wait(positions, records, seconds, alone=len(groups) == 1) for positions in groups.values())
    return [wait for wait in found if wait is not None]


def _wait(
    positions: Mapping[int, GroupPosition], records: FlightRecords, seconds: float, *, alone: bool
) -> _Wait | None:
    group, dumps = next(iter(positions.values())), {dump.rank: dump for dump in records.ranks}
    unread = {item.rank for item in records.unread if item.rank is not None}
    everyone = {*dumps, *unread} if group.description == "default_pg" else set(positions)
    members = group.members or tuple(sorted(everyone))
    entered = {rank: position.newest.number for rank, position in positions.items()}
    # A whole ring without the group: this rank entered nothing of it.
    entered |= {rank: 0 for rank in members if rank in dumps and rank not in entered and not dumps[rank].wrapped}
    least, most = min(entered.values()), max(entered.values())
    keeps = {rank: call for rank, position in positions.items() if (call := _keeping(position, least))}
    oldest = min((call.number for call in keeps.values()), default=0)
    if not oldest:
        return None
    late = least < most and oldest > least
    inside = {rank: call for rank, call in sorted(keeps.items()) if late or call.number == oldest}
    sure = [_waited(call, dumps[rank], seconds) for rank, call in inside.items()]
    if not any(sure):
        return None
    name = group.description if group.description not in ("", "undefined") else group.name
    named = say("the default group")
    if group.description != "default_pg":
        whose = say(" ({ranks})", ranks=ranks(members)) if group.members else ""
        named = say("group {name}{whose}", name=name, whose=whose)
    return _Wait(
        group="" if alone else named,
        inside=inside,
        missing=tuple(sorted(rank for rank, last in entered.items() if last == least)) if late else (),
        unseen=tuple(sorted(set(members) - set(entered))),
        confidence=Confidence.CONFIRMED if Confidence.CONFIRMED in sure else Confidence.PROBABLE,
    )


def _keeping(position: GroupPosition, least: int) -> CollectiveCall | None:
    """The call that keeps a rank; of gloo one that ended may have timed out, if another rank did not enter it."""
    late = position.newest.timed_out and position.newest.number > least
    return position.open or (position.newest if late else None)


def _waited(call: CollectiveCall, dump: RankDump, seconds: float) -> Confidence | None:
    """How surely a call has waited, by the time of its file; None for a wait of a moment, as in a job that runs."""
    age = (dump.written - call.created) / 1e9
    if call.timed_out and not call.done:
        return Confidence.CONFIRMED
    if call.timeout and _NEARLY * call.timeout <= age <= _COPIED * call.timeout:
        return Confidence.CONFIRMED
    return Confidence.PROBABLE if age >= seconds else None


# Sentences


def _named(call: CollectiveCall, group: str) -> str:
    of = say(" of {group_name}", group_name=group) if group else ""
    return say("{name} number {number:,}{of}", name=call.operation, number=call.number, of=of)


def _at(call: CollectiveCall) -> str:
    """` at train.py:31 (train_step)`."""
    file, function = call.path.rpartition("/")[2], call.function.rpartition(".")[2]
    return say(" at {file}:{line} ({function})", file=file, line=call.line, function=function) if file else ""


def _absence(wait: _Wait, absent: tuple[int, ...], records: FlightRecords) -> tuple[str, ...]:
    """Ranks that did not enter what others wait in, and what they did last, where it is the same for all."""
    inside, who, at = ranks(list(wait.inside)), ranks(absent), _at(wait.call)
    if len(wait.inside) < len(absent):
        return (
            say("Only {ranks} entered {named}{site}; {who} did not.", ranks=inside, named=wait.named, site=at, who=who),
        )
    latest = {dump.latest for dump in records.ranks if dump.rank in absent}
    newest = {_named(last[1], "") + _at(last[1]) if last else "" for last in latest}
    last = next(iter(newest)) if len(newest) == 1 else None
    end = say("{who} entered no operation at all.", who=capitalised(who)) if last == "" else ""
    if last:
        end = say("The last operation of {who} was {last}.", who=who, last=last)
    return (
        say("{who} did not enter {named}.", who=capitalised(who), named=wait.named),
        say("{ranks} waited in it{site}.", ranks=capitalised(inside), site=at),
        end,
    )


def _unseen(wait: _Wait, records: FlightRecords) -> tuple[str, ...]:
    """Everybody whose dump shows the group is in it, and somebody's does not show it."""
    reasons = {item.reason for item in records.unread if item.rank in wait.unseen}
    why = say(" ({known})", known=reasons.pop()) if len(reasons) == 1 else ""
    return (
        say(
            "{ranks} waited in {named}{at}.",
            ranks=capitalised(ranks(list(wait.inside))),
            named=wait.named,
            at=_at(wait.call),
        ),
        say(
            "All ranks whose dumps show it entered it; {who} left no dump that shows it{why}.",
            who=ranks(wait.unseen),
            why=why,
        ),
    )


def _stall(wait: _Wait, late: tuple[int, ...], *, began: bool) -> tuple[str, ...]:
    """Everybody entered, and it does not complete."""
    end = ""
    if late:
        end = say("It did not begin on the GPU of {ranks}: earlier work there has not ended.", ranks=ranks(late))
    elif began:
        end = say("It began on every GPU: a link, a network or a GPU failed, and not the program.")
    who = ranks(list(wait.inside))
    entered = say(
        "All ranks entered {named}{at}, and {who} did not complete it.", named=wait.named, at=_at(wait.call), who=who
    )
    return entered, end


def _by_operation(wait: _Wait) -> list[tuple[str, list[int]]]:
    """What the ranks called under the first number, and who did, the most first."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, call in wait.inside.items():
        if call.number == wait.call.number:
            found[call.operation, call.payload].append(rank)
    named = [
        (say("{name} of {payload}", name=name, payload=size) if size else name, who)
        for (name, size), who in found.items()
    ]
    return sorted(named, key=lambda item: (-len(item[1]), item[1][0]))


def _disagreement(wait: _Wait) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The ranks that have another operation than most under one number, and a sentence."""
    calls = _by_operation(wait)
    clauses = [
        say("{ranks} called {described}{place}", ranks=ranks(who), described=name, place=_at(wait.inside[who[0]]))
        for name, who in calls[:_SHOWN]
    ]
    words = "The ranks disagree about collective number {number:,}{of}: {clauses}."
    of = say(" of {group_name}", group_name=wait.group) if wait.group else ""
    odd = calls[1:] if len(calls[0][1]) > sum(len(who) for _, who in calls[1:]) else calls
    sentence = say(words, number=wait.call.number, of=of, clauses=concatenated("; ", clauses))
    return tuple(sorted(rank for _, who in odd for rank in who)), (sentence,)


def _evidence(records: FlightRecords, wait: _Wait, who: Sequence[int]) -> tuple[LogLine | SourceSpan, ...]:
    """The line and the dump of each of these ranks: what it waits in, else its last operation."""
    spans: list[SourceSpan] = []
    lines: list[LogLine] = []
    dumps = {dump.rank: dump for dump in records.ranks}
    for rank in dict.fromkeys((*who[:_SHOWN], *list(wait.inside)[:_SHOWN])):
        dump = dumps.get(rank)
        call = wait.inside.get(rank) or (dump.latest[1] if dump is not None and dump.latest else None)
        if dump is None or call is None:
            continue
        spans += [SourceSpan(path=call.path, line=call.line)] if call.path else []
        words = say("rank {rank}: {name}, {state}", rank=rank, name=_named(call, ""), state=call.state)
        lines.append(LogLine(origin=dump.path, text=words))
    return (*dict.fromkeys(spans), *lines)
