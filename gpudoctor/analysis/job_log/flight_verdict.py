"""Who kept the job waiting, by the flight-recorder dumps of its ranks.

Ranks wait for ranks that wait for others: the verdict is about those that wait for nobody. A rank is waited for
if it has not entered an operation that others are in, or has another one under the same number.
"""

from collections.abc import Sequence
from enum import Enum

from gpudoctor.analysis.job_log.group_positions import (
    CollectiveMismatch,
    ProcessGroup,
    Wait,
    first_mismatch,
    oldest_common,
    process_groups,
    waits,
)
from gpudoctor.analysis.memo import once
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Confidence, LogLine, SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.flight_recorder import CallSite, FlightRecords, GroupOperation, GroupTrace, RankDump
from gpudoctor.text import capitalised, count, ranks

_NO_OPERATION = GroupOperation(name=say("an operation"))
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
    PEER = "peer"
    """A send or receive without the other side."""
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


@once
def flight_verdict(records: FlightRecords, seconds: float, died: bool = False) -> FlightVerdict | None:
    """The verdict; None where nothing waits for longer than so many seconds.

    Where the files' times do not show for how long, a wait counts only if the job `died` of it by its log.
    """
    every = waits(records, seconds)
    found = tuple(wait for wait in every if wait.dated or died)
    words = _Words(records)
    different = [
        (wait, mismatch)
        for wait in every
        if wait.launch.peer is None and (mismatch := first_mismatch(records, wait.group)) is not None
    ]
    if different:
        wait, mismatch = min(different, key=lambda item: _age(item[0]))
        return words.mismatch(wait, mismatch, found)
    if not found:
        return None
    blocked = {rank for wait in found for rank in wait.waiting}
    roots = {rank for wait in found for rank in wait.missing} - blocked
    if roots:
        # the group that others wait for comes first: of those that wait in it, others wait for most
        first = min(
            (item for item in found if roots & set(item.missing)),
            key=lambda item: (
                not roots.issuperset(item.missing),
                -sum(not {*item.waiting}.isdisjoint(other.missing) for other in found),
                _age(item),
            ),
        )
        return words.missing(first, found, tuple(rank for rank in first.missing if rank in roots))
    ends = [wait for wait in found if not wait.missing]
    unseen = [wait for wait in ends if wait.unseen]
    if unseen:
        return words.unseen(min(unseen, key=_age), found)
    if ends:
        return words.stalled(min(ends, key=_age), found)
    first = min(found, key=_age)  # a circle: groups that are used in different orders
    return words.missing(first, found, first.missing)


def undated(records: FlightRecords, seconds: float) -> str:
    """Sentences about operations that had not completed, nobody knows for how long; "" without any."""
    verdict = flight_verdict(records, seconds, True)
    if verdict is None or any(wait.dated for wait in waits(records, seconds)):
        return ""
    return say(
        "{sentences} The times of the files are not those of the dumps, so gpudoctor cannot tell "
        "a wait from a moment. Copy the dumps with their times: `cp -p`, `scp -p`, `rsync -t`.",
        sentences=verdict.sentences[0],
    )


def _age(wait: Wait) -> tuple[bool, int]:
    """By when it began; unknown times come last."""
    return wait.launch.created == 0, wait.launch.created


class _Words:
    """Sentences and evidence about the dumps of one job."""

    def __init__(self, records: FlightRecords) -> None:
        self._records = records
        self._dumps = {dump.rank: dump for dump in records.ranks}
        self._many = len(process_groups(records)) > 1

    def missing(self, wait: Wait, found: Sequence[Wait], absent: tuple[int, ...]) -> FlightVerdict:
        """Ranks that did not enter what others wait in."""
        peer = wait.launch.peer is not None
        few = not peer and len(wait.waiting) < len(absent)
        parts = {"ranks": ranks(wait.waiting), "named": self._named(wait), "site": self._at(wait), "who": ranks(absent)}
        capitals = {**parts, "ranks": capitalised(parts["ranks"])}
        if peer:
            said = [say("{ranks} waited in {named}{site}, and {who} did not call the other side.", **capitals)]
        elif few:
            said = [say("Only {ranks} entered {named}{site}; {who} did not.", **parts)]
        else:
            who = capitalised(parts["who"])
            said = [
                say("{who} did not enter {named}.", who=who, named=parts["named"]),
                say("{ranks} waited in it{site}.", ranks=capitals["ranks"], site=parts["site"]),
            ]
        return FlightVerdict(
            kind=FlightKind.PEER if peer else FlightKind.ALONE if few else FlightKind.MISSING,
            ranks=wait.waiting if few else absent,
            sentences=_said(*said, self._last(absent), self._followers(wait, found)),
            evidence=self._evidence([*absent[:_SHOWN], *wait.waiting[:_SHOWN]], wait),
            confidence=_sure(wait),
        )

    def unseen(self, wait: Wait, found: Sequence[Wait]) -> FlightVerdict:
        """Everybody whose dump could be read is in it, and somebody's could not."""
        absent = tuple(rank for rank in wait.unseen if rank not in self._dumps)
        known = sorted({item.reason for item in self._records.unread if item.rank in absent})
        end = say("the ring of {ranks} no longer shows this group (TORCH_FR_BUFFER_SIZE)", ranks=ranks(wait.unseen))
        if absent:
            why = say(" ({known})", known=known[0]) if len(known) == 1 else ""
            readable = say("readable ") if known else ""
            end = say("{ranks} left no {readable}dump{why}", ranks=ranks(absent), readable=readable, why=why)
        who = capitalised(ranks(wait.waiting))
        return FlightVerdict(
            kind=FlightKind.UNSEEN,
            ranks=absent or wait.unseen,
            sentences=_said(
                say("{ranks} waited in {named}{at}.", ranks=who, named=self._named(wait), at=self._at(wait)),
                say("All ranks whose dumps show it entered it; {end}.", end=end),
                self._followers(wait, found),
            ),
            evidence=self._evidence(wait.waiting[:_SHOWN], wait),
            confidence=Confidence.PROBABLE,
        )

    def stalled(self, wait: Wait, found: Sequence[Wait]) -> FlightVerdict:
        """Everybody entered, and it does not complete."""
        suspects = wait.not_started or (wait.waiting if wait.completed else ())
        end = ""
        if wait.completed:
            completed, others = ranks(wait.completed), ranks(wait.waiting)
            end = say("It completed on {ranks} and not on {others}.", ranks=completed, others=others)
        elif wait.not_started:
            words = "It did not begin on the GPU of {ranks}: earlier work there has not ended."
            end = say(words, ranks=ranks(wait.not_started))
        elif wait.started:
            end = say("It began on every GPU: a link, a network or a GPU failed, and not the program.")
        entered = say(
            "All {ranks} entered {named}{at}, and {completed} completed it.",
            ranks=count(len(wait.group.dumped), "rank"),
            named=self._named(wait),
            at=self._at(wait),
            completed=say("not all") if wait.completed else say("none"),
        )
        return FlightVerdict(
            kind=FlightKind.STALLED,
            ranks=suspects,
            sentences=_said(entered, end, self._ring(wait.group), self._followers(wait, found)),
            evidence=self._evidence((*suspects[:_SHOWN], *wait.waiting[:_SHOWN]), wait),
            confidence=_sure(wait),
        )

    def mismatch(self, wait: Wait, mismatch: CollectiveMismatch, found: Sequence[Wait]) -> FlightVerdict:
        """Ranks that have different operations under one number."""
        group, number = mismatch.group, mismatch.sequence
        differing = [self._records.operations.get(key, _NO_OPERATION) for key, _ in mismatch.by_operation]
        clauses = [
            say(
                "{ranks} called {described}{place}",
                ranks=ranks(found),
                described=_described(operation, differing),
                place=self._place(group, found[0], number),
            )
            for operation, (_, found) in zip(differing[:_SHOWN], mismatch.by_operation, strict=False)
        ]
        most, *odd = mismatch.by_operation
        if len(most[1]) <= sum(len(found) for _, found in odd):
            odd = [most, *odd]
        suspects = tuple(sorted(rank for _, found in odd for rank in found))
        shown = [found[0] for _, found in reversed(mismatch.by_operation[:_SHOWN])]
        return FlightVerdict(
            kind=FlightKind.MISMATCH,
            ranks=suspects,
            sentences=_said(
                say(
                    "The ranks disagree about collective number {number:,}{of}: {clauses}.",
                    number=number,
                    of=self._of(group),
                    clauses=concatenated("; ", clauses),
                ),
                self._followers(wait, found, group.members),
            ),
            evidence=self._evidence(shown, wait, number),
            confidence=_sure(wait),
        )

    def _named(self, wait: Wait) -> str:
        """`all_reduce number 58 of group tp (ranks 4-7)`, `recv from rank 2`."""
        operation = self._records.operations.get(wait.launch.operation)
        name, of = operation.name if operation else say("collective"), self._of(wait.group)
        if wait.launch.peer is None:
            return say("{name} number {number:,}{of}", name=name, number=wait.number, of=of)
        source, target = (wait.group.members[place] for place in wait.launch.peer)
        sends = wait.waiting == (source,)
        side = say("to rank {places}", places=target) if sends else say("from rank {places}", places=source)
        return say("{name} {side}{of}", name=name, side=side, of=of)

    def _of(self, group: ProcessGroup) -> str:
        return say(" of {group_name}", group_name=_group_name(group)) if self._many else ""

    def _at(self, wait: Wait) -> str:
        return _site(self._records.sites.get(wait.launch.site))

    def _place(self, group: ProcessGroup, rank: int, number: int) -> str:
        return _site(self._records.sites.get(group.traces[rank].site(number)))

    def _last(self, people: Sequence[int]) -> str:
        """What the missing ranks did last, where it is the same for all."""
        latest = {self._latest(rank) for rank in people}
        if len(latest) != 1:
            return ""
        last, who = latest.pop(), capitalised(ranks(people))
        if not last:
            return say("{who} entered no operation at all.", who=who)
        whose = f"{who}'s" if len(people) == 1 else say("Of {ranks} the", ranks=ranks(people))
        return say("{whose} last operation was {last}.", whose=whose, last=last)

    def _latest(self, rank: int) -> str:
        dump = self._dumps.get(rank)
        if dump is None or dump.latest is None:
            return ""
        name, launch = dump.latest
        groups = (item for item in process_groups(self._records) if item.name == name and rank in item.traces)
        group = next(groups, None)
        return say(
            "{name} number {sequence:,}{of}{site}",
            name=self._records.operations.get(launch.operation, _NO_OPERATION).name,
            sequence=launch.sequence,
            of=self._of(group) if group else "",
            site=_site(self._records.sites.get(launch.site)),
        )

    def _followers(self, wait: Wait, found: Sequence[Wait], known: Sequence[int] = ()) -> str:
        """How many other ranks wait in other groups for these."""
        others = {rank for item in found for rank in item.waiting} - {*wait.waiting, *wait.missing, *known}
        if not others:
            return ""
        verb = say("waits") if len(others) == 1 else say("wait")
        return say("{ranks} of other groups only {verb} for them.", ranks=count(len(others), "other rank"), verb=verb)

    def _ring(self, group: ProcessGroup) -> str:
        """That an earlier difference is no longer to be seen."""
        first = oldest_common(group)
        if first <= 1 or not any(self._dumps[rank].wrapped for rank in group.traces if rank in self._dumps):
            return ""
        return say("The rings begin at number {first:,}: they do not show an earlier difference.", first=first)

    def _evidence(self, people: Sequence[int], wait: Wait, number: int = 0) -> tuple[LogLine | SourceSpan, ...]:
        """The line and the dump of each of these ranks: where it was in the group, else its last operation."""
        spans: list[SourceSpan] = []
        lines: list[LogLine] = []
        for rank in dict.fromkeys(people):
            dump, trace = self._dumps.get(rank), wait.group.traces.get(rank)
            if dump is None:
                continue
            text = say("rank {rank}: no operation", rank=rank)
            if where := self._where(dump, trace, wait, number):
                key, place, which, state = where
                text = say(
                    "rank {rank}: {name} number {which}{state}",
                    rank=rank,
                    name=self._records.operations.get(key, _NO_OPERATION).name,
                    which=which,
                    state=say(", {state}", state=state) if state else "",
                )
                site = self._records.sites.get(place)
                spans += [SourceSpan(path=site.path, line=site.line)] if site is not None and site.path else []
            lines.append(LogLine(origin=dump.path, text=text))
        return (*dict.fromkeys(spans), *lines[: 2 * _SHOWN])

    def _where(
        self, dump: RankDump, trace: GroupTrace | None, wait: Wait, number: int
    ) -> tuple[int, int, int, str] | None:
        """Keys of a rank's operation and its site, its number and state; None for a rank that entered none."""
        if trace and number and trace.operation(number):
            return trace.operation(number), trace.site(number), number, ""
        launch = trace.pending[0] if trace and trace.pending else dump.latest[1] if dump.latest else None
        if wait.launch.peer is not None and dump.rank in wait.waiting:
            launch = wait.launch
        return (launch.operation, launch.site, number or launch.sequence, launch.state) if launch else None


def _said(*sentences: str) -> tuple[str, ...]:
    return tuple(filter(None, sentences))


def _sure(wait: Wait) -> Confidence:
    return Confidence.CONFIRMED if wait.proven else Confidence.PROBABLE


def _group_name(group: ProcessGroup) -> str:
    """`the default group`, `group tp (ranks 4-7)`."""
    if group.default:
        return say("the default group")
    name = group.description if group.description not in ("", "undefined") else group.name
    whose = say("group {name} ({ranks})", name=name, ranks=ranks(group.members))
    return whose if group.members else say("group {name}", name=name)


def _site(site: CallSite | None) -> str:
    """` at train.py:31 (train_step)`."""
    if site is None or not site.path:
        return ""
    function = "" if site.function in ("", "<module>") else f" ({site.function.rpartition('.')[2]})"
    file = site.path.replace(chr(92), "/").rpartition("/")[2]
    return say(" at {file}:{line}{function}", file=file, line=site.line, function=function)


def _described(operation: GroupOperation, among: Sequence[GroupOperation]) -> str:
    """An operation by what tells it from the others: its name, else its elements or types too."""
    if len({item.name for item in among}) == len(among):
        return operation.name
    sizes = ", ".join("x".join(map(str, size)) or "scalar" for size in operation.sizes[:2])
    shape = say(" ({shape})", shape=sizes) if sizes else ""
    if len({(item.name, item.elements) for item in among}) == len(among) and operation.elements is not None:
        elements = count(operation.elements, "element")
        return say("{name} of {elements}{shape}", name=operation.name, elements=elements, shape=shape)
    dtypes = " and ".join(operation.dtypes) or say("no tensor")
    return say("{name} of {dtypes}{shape}", name=operation.name, dtypes=dtypes, shape=shape)
