"""Which rank comes late to its collectives, by the records of NCCL Inspector.

NCCL's kernel waits inside the operation until all ranks have entered it. So the rank that comes last has the
shortest time, and what the others have more is their wait. The records hold only completed operations.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from gpudoctor.lang import say
from gpudoctor.model.signs.nccl_inspector import CommunicatorRank, InspectorRecords
from gpudoctor.text import count, duration
from gpudoctor.text import ranks as named
from gpudoctor.text import size as shown_size

LEAST_PAIRED = 50
"""Collectives with the times of all ranks."""
LEAST_WAITS = 20
"""Of them, with a wait: a save or an evaluation now and then is not a straggler."""
SAME_RANK = 0.8
"""Share of the waits that are for one rank."""
_WAIT_MICROS = 100
_WAIT_SHARE = 0.2
"""Less than this of the operation is the noise of a start."""
_KNOWN_SPAN = 10_000_000
"""Microseconds: records written all at once, at the end, do not show how long the job ran."""
_SLOW_GROUP = 1.5
_LEAST_PEERS = 3
_BEHIND = 2
"""Collectives: each rank may have a last one that is not written yet."""
_TOGETHER = frozenset({"AllReduce", "AllGather", "ReduceScatter"})
"""Every rank waits for all others. In a broadcast or a reduce some ranks are done early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRank:
    """A rank that the others wait for."""

    who: CommunicatorRank
    waits: int
    """Collectives in which the others waited for it, of those that were paired."""
    paired: int
    all_waits: int
    """Collectives in which the others waited for any rank."""
    seconds: float
    """Median wait of the others."""
    kind: str
    bytes: int
    """Of the collective that is shown."""
    own_seconds: float
    others_seconds: float
    """Median times of that collective."""
    lost: float
    """Seconds that each of the others waited, in all."""
    share: float
    """Of the time."""
    of_run: bool
    """Whether it is the time of the records; else that of the collectives alone."""


def communicators(records: InspectorRecords) -> Iterator[tuple[CommunicatorRank, ...]]:
    """The ranks of each communicator of two or more."""
    for _, members in groupby(records.ranks, key=lambda item: item.communicator):
        group = tuple(members)
        if group[0].ranks > 1:
            yield group


def late_ranks(records: InspectorRecords) -> tuple[LateRank, ...]:
    """The ranks that others wait for and that do not wait for another one themselves; the costliest first."""
    worst: dict[tuple[str, int], LateRank] = {}
    found = [late for group in communicators(records) if (late := _late(group)) is not None]
    for late in sorted(found, key=lambda item: -item.lost):
        if not _waits_itself(late, found, records):
            worst.setdefault((late.who.host, late.who.process), late)
    return tuple(worst.values())


def _waits_itself(late: LateRank, found: Sequence[LateRank], records: InspectorRecords) -> bool:
    """Whether its process waits for a late rank of another communicator about as long."""
    who = late.who
    mine = {
        item.communicator
        for item in records.ranks
        if (item.host, item.process) == (who.host, who.process) and item.communicator != who.communicator
    }
    return any(
        other.who.communicator in mine
        and (other.who.host, other.who.process) != (who.host, who.process)
        and other.lost >= late.lost / 2
        for other in found
    )


def paired(group: Sequence[CommunicatorRank]) -> Iterator[tuple[tuple[str, int], tuple[int, ...]]]:
    """Kind and bytes of a collective that all ranks recorded, and the time of each rank."""
    if len(group) != group[0].ranks:
        return
    for key, (size, _) in group[0].times.items():
        values = [item.times.get(key) for item in group]
        if key[0] in _TOGETHER and all(value is not None and value[0] == size for value in values):
            yield (key[0], size), tuple(value[1] for value in values if value is not None)


def _late(group: Sequence[CommunicatorRank]) -> LateRank | None:
    """The rank that comes last in most collectives that are waited in."""
    operations = list(paired(group))
    if len(operations) < LEAST_PAIRED:
        return None
    waits: list[tuple[int, float, tuple[str, int], tuple[int, ...]]] = []
    whole = 0.0
    for what, times in operations:
        least = min(times)
        position = times.index(least)
        others = median((*times[:position], *times[position + 1 :]))
        whole += others
        if others - least >= max(_WAIT_MICROS, _WAIT_SHARE * others):
            waits.append((position, others - least, what, times))
    if len(waits) < LEAST_WAITS:
        return None
    (position, number), *_ = Counter(item[0] for item in waits).most_common(1)
    if number < LEAST_WAITS or number < SAME_RANK * len(waits):
        return None
    who = group[position]
    mine = [item for item in waits if item[0] == position]
    seconds = median(item[1] for item in mine)
    (kind, size), _ = Counter(item[2] for item in mine).most_common(1)[0]
    alike = [item[3] for item in mine if item[2] == (kind, size)]
    scale = max(1.0, who.collectives / len(operations)) / 1e6
    lost = seconds * number * scale
    span = median(item.written[1] - item.written[0] for item in group if item is not who)
    of_run = span >= _KNOWN_SPAN and whole * scale <= span / 1e6
    return LateRank(
        who=who,
        waits=number,
        paired=len(operations),
        all_waits=len(waits),
        seconds=seconds / 1e6,
        kind=kind,
        bytes=size,
        own_seconds=median(times[position] for times in alike) / 1e6,
        others_seconds=median(
            median((*times[:position], *times[position + 1 :])) for times in alike
        ) / 1e6,
        lost=lost,
        share=min(1.0, lost * 1e6 / span if of_run else lost / (whole * scale)),
        of_run=of_run,
    )  # fmt: skip


def why_not_judged(records: InspectorRecords) -> str:
    """Why no rank can be called late or in time; "" if one communicator can be judged."""
    groups = list(communicators(records))
    if not groups:
        return say("no communicator of the records has two ranks")
    most = max(sum(1 for _ in paired(group)) for group in groups)
    if most >= LEAST_PAIRED:
        return ""
    if all(len(group) < group[0].ranks for group in groups):
        return say("every communicator lacks the records of a rank")
    return say(
        "all ranks of a communicator recorded {collectives} in common; {least_paired} are needed",
        collectives=count(most, "collective"),
        least_paired=LEAST_PAIRED,
    )


def read_sentence(records: InspectorRecords) -> str:
    """What was read, in one sentence."""
    groups = {item.communicator for item in records.ranks}
    number = sum(item.collectives for item in records.ranks)
    processes = {(item.host, item.process) for item in records.ranks}
    return say(
        "{records} of collectives, from {processes:,} process{plural} and {communicators}",
        records=count(number, "record"),
        processes=len(processes),
        plural="" if len(processes) == 1 else say("es"),
        communicators=count(len(groups), "communicator"),
    )


def remarks(records: InspectorRecords) -> tuple[str, ...]:
    """Sentences about what the records lack, and about a slow communicator."""
    told = list(records.remarks)
    for group in communicators(records):
        missing = sorted(set(range(group[0].ranks)) - {item.rank for item in group}) if len(group) < 4096 else []
        if missing:
            told.append(
                say(
                    "{called}: no record of {named} of {ranks} was read",
                    called=called(group[0]),
                    named=named(missing),
                    ranks=group[0].ranks,
                )
            )
        told += _endings(group)
    told += _slow_groups(records)
    return (
        tuple(told[:8])
        if len(told) <= 8
        else (*told[:7], say("{more} more communicators have such gaps", more=len(told) - 7))
    )


def _endings(group: Sequence[CommunicatorRank]) -> Iterator[str]:
    """Ranks whose records end before those of the others: they entered what the others completed."""
    for kind in sorted(_TOGETHER):
        last = [item.last.get(kind, 0) for item in group]
        furthest = max(last)
        behind = [item.rank for item, number in zip(group, last, strict=True) if furthest - number > _BEHIND]
        if furthest and behind and len(behind) <= len(group) / 2:
            lowest = min(last)
            numbers = (
                say("{kind} number {lowest:,}", kind=kind, lowest=lowest)
                if len(behind) == 1
                else say("{kind} number {lowest:,} at the earliest", kind=kind, lowest=lowest)
            )
            yield (
                say(
                    "{called}: the records of {named} end at {numbers}, those of the others at {furthest:,}. "
                    "The later ones were not written: a process that is killed loses them",
                    called=called(group[0]),
                    named=named(behind),
                    numbers=numbers,
                    furthest=furthest,
                )
            )
            return


def _slow_groups(records: InspectorRecords) -> Iterator[str]:
    """Communicators that take longer than their like for the same collective, whoever comes late."""
    alike: dict[tuple[int, int, str, int], list[tuple[float, CommunicatorRank]]] = {}
    for group in communicators(records):
        least: dict[tuple[str, int], list[int]] = {}
        for what, times in paired(group):
            least.setdefault(what, []).append(min(times))
        for (kind, size), micros in least.items():
            if len(micros) >= LEAST_WAITS:
                shape = (group[0].ranks, group[0].nodes, kind, size)
                alike.setdefault(shape, []).append((median(micros), group[0]))
    said: set[str] = set()
    for (_, _, kind, size), members in sorted(alike.items(), key=lambda item: -item[0][3]):
        if len(members) <= _LEAST_PEERS:
            continue
        taken, who = max(members, key=lambda item: item[0])
        peers = sorted(item[0] for item in members if item[1] is not who)
        usual = median(peers)
        steady = peers[-1] <= usual * (1 + _WAIT_SHARE)
        if steady and taken >= _SLOW_GROUP * usual + _WAIT_MICROS and who.communicator not in said:
            said.add(who.communicator)
            yield (
                say(
                    "{called} is slow: {kind} of {shown_size} takes {taken} there, and {usual} in {peers} "
                    "communicators of its shape, both without waits",
                    called=called(who),
                    kind=kind,
                    shown_size=shown_size(size),
                    taken=duration(taken / 1000000.0),
                    usual=duration(usual / 1000000.0),
                    peers=len(peers),
                )
            )


def called(item: CommunicatorRank) -> str:
    """A communicator in words."""
    name = say(" ({name})", name=item.name) if item.name else ""
    return say("communicator {communicator}{name}", communicator=item.communicator, name=name)


def located(item: CommunicatorRank) -> str:
    """A rank's process in words."""
    return say("process {process} on {host}", process=item.process, host=item.host)
