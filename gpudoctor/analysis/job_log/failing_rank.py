"""The rank that failed first, by everything that a log of all ranks says beside the first cause.

An exception names its own rank. A timeout is printed by the ranks that waited: the one that they waited for is
the one that printed no error, stood at another line, or ended without one. The launcher's summary says how each
rank ended. What only fits several ranks names nobody.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from signal import Signals

from gpudoctor.analysis.job_log.consequences import ABORTED, PEER
from gpudoctor.analysis.job_log.first_cause import HARD, FirstCause, LogRole, first_cause
from gpudoctor.analysis.memo import once
from gpudoctor.lang import say
from gpudoctor.model import LogLine
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.job_log import JobLog, LogEvent
from gpudoctor.text import capitalised, ranks

_LOST = (PEER, ABORTED)
"""What ranks print that lost another one."""
_FEW = 3
"""One in so many ranks may be the odd ones; more are no odd ones."""
_SHOWN = 100
"""Characters of a last line that a sentence quotes."""
_ENDED_BY_OTHERS = frozenset({-15, -2, -1, 143, 130})
"""Exit codes of ranks that the launcher ended because of another one."""
_OF_ONE = frozenset({"oom-kernel", "oom-slurm", "node-failure"})
"""Kinds of deaths that strike one process or one node of a job."""
_HARD = frozenset({*HARD, -6, 134})
"""Exit codes of a signal that nobody sends to other ranks, and SIGABRT, by which a process ends itself."""


class RankSign(Enum):
    """What shows which rank failed first."""

    OWN = "own"
    """It printed the first cause itself."""
    NAMED = "named"
    """A message of the others names it."""
    KILLED = "killed"
    """Its launcher says how it ended."""
    SILENT = "silent"
    """It printed no error, and the others did."""
    APART = "apart"
    """It waited at another place than the others."""


@frozen(kw_only=False)
class FailingRank:
    """Which ranks failed first, and what shows it."""

    ranks: tuple[int, ...]
    sign: RankSign
    words: str = ""
    """A sentence; "" where the first cause says it itself."""
    evidence: tuple[LogLine, ...] = ()

    @property
    def rank(self) -> int | None:
        """The one rank; None if several may be meant."""
        return self.ranks[0] if len(self.ranks) == 1 else None


@once
def failing_rank(log: JobLog) -> FailingRank | None:
    """The rank that failed first; None for a job that did not die, and where nothing shows it."""
    cause = first_cause(log)
    if cause is None:
        return None
    root = cause.root
    if named := _named(cause):
        return named
    if root is not None and root.rank is not None and not root.waits:
        return FailingRank((root.rank,), RankSign.OWN)
    reporters = _reporters(cause)
    if root is not None and not root.waits:
        found = _of_cause(log, root, reporters)
        if found is not None or root.kind not in _OF_ONE:
            return found
        # Who tells of that death knows no ranks, the rest of the log may.
        rest = tuple(event for event in log.events if event.kind not in _OF_ONE)
        return failing_rank(replace(log, events=rest, memory={}))
    exited = _by_exit(log, reporters, hard=True) or (_by_exit(log, reporters) if root is None else None)
    if exited is not None:
        return exited
    silent = [rank for rank in _members(log, reporters) if rank not in reporters]
    apart = _apart(reporters) if root is not None else None
    if not silent or len(silent) > max(1, len(reporters) // _FEW):
        return apart
    return (apart if len(silent) > 1 else None) or _silent(log, silent, waited=root is not None)


def _reporters(cause: FirstCause) -> dict[int, LogEvent]:
    """The first error of each rank that printed one."""
    found: dict[int, LogEvent] = {}
    for event, role in cause.roles:
        own = event.fatal or event.kind in _LOST
        if own and event.rank is not None and role not in (LogRole.HARMLESS, LogRole.HANDLED):
            found.setdefault(event.rank, event)
    return found


def _members(log: JobLog, reporters: Mapping[int, LogEvent]) -> Sequence[int]:
    """All ranks: as many as the log says, else up to the highest that it names."""
    seen = {*log.ranks, *reporters, *(item.rank for item in log.exits)}
    if len(seen) < 2 and not log.world:
        return ()
    most = max(seen, default=-1) + 1
    if log.world and most <= log.world <= most + max(1, len(seen) // _FEW):
        most = log.world  # more: the log is that of one node
    return range(most)


# What messages say


def _named(cause: FirstCause) -> FailingRank | None:
    """By a message that names ranks: a monitored barrier."""
    dead = [event for event, role in cause.roles if role not in (LogRole.HARMLESS, LogRole.HANDLED)]
    missing = next(filter(None, (dict(event.values).get("missing", "") for event in dead)), "")
    return FailingRank(tuple(map(int, re.findall(r"\d+", missing))), RankSign.NAMED) if missing else None


def _odd(places: Mapping[int, str]) -> tuple[int, ...]:
    """The ranks that differ from most others, all at one place; nobody where there is no clear most."""
    counts = Counter(places.values())
    if len(counts) != 2:
        return ()
    common, times = counts.most_common(1)[0]
    odd = tuple(sorted(rank for rank, place in places.items() if place != common))
    return odd if len(odd) <= max(1, len(places) // _FEW) and times > 1 else ()


def _apart(reporters: Mapping[int, LogEvent]) -> FailingRank | None:
    """Ranks that waited at another line, or in another collective, than most others."""
    places = {
        rank: place
        for rank, event in reporters.items()
        if (event.waits or (event.kind == PEER and event.exception)) and (place := _place(event))
    }
    if not (odd := _odd(places)):
        return None
    common = sorted(set(places).difference(odd))
    words = say(
        "{ranks} waited {places}, and {most} {others}.",
        ranks=capitalised(ranks(odd)),
        places=places[odd[0]],
        most=ranks(common) if len(common) < 2 * _FEW else say("{common} others", common=len(common)),
        others=places[common[0]],
    )
    return FailingRank(odd, RankSign.APART, words)


def _place(event: LogEvent) -> str:
    """Where a rank waited: its line, else the collective and its number."""
    if event.frame is not None:
        name = event.frame.path.replace("\\", "/").rpartition("/")[2]
        return say("at {name}:{line} ({function})", name=name, line=event.frame.line, function=event.frame.function)
    values = dict(event.values)
    number = say(" number {sequence}", sequence=values["sequence"]) if values.get("sequence") else ""
    operation = values.get("operation", "")
    return say("in {operation}{number}", operation=operation, number=number) if operation else ""


# How ranks ended


def _of_cause(log: JobLog, root: LogEvent, reporters: Mapping[int, LogEvent]) -> FailingRank | None:
    """The rank of a cause that names none, by how the launcher says that the ranks ended."""
    if root.exception:
        return _by_exit(log, reporters) if root.kind not in _LOST else None
    # That rank may have printed its fault, too; who waited for others ends by the abort of its own watchdog.
    waited = {rank: event for rank, event in reporters.items() if event.waits or event.kind in _LOST}
    return _by_exit(log, waited, hard=True)


def _by_exit(log: JobLog, reporters: Mapping[int, LogEvent], *, hard: bool = False) -> FailingRank | None:
    """The rank that printed no error and ended first by its launcher; `hard`: by a signal that none sends."""
    ends = [item for item in log.exits if item.code and item.code not in _ENDED_BY_OTHERS]
    ends = [item for item in ends if item.rank not in reporters and (item.code in _HARD or not hard)]
    one = ends[0] if len({item.rank for item in ends}) == 1 else None
    first = one or next((item for item in ends if item.first or item.launcher in ("spawn", "mpirun")), None)
    if first is None:
        return None  # a launcher that lost patience ends all of them
    code = say("with exit code {code}", code=first.code)
    by_signal = first.code < 0 and first.code in _HARD
    how = say("by {killed_by}", killed_by=Signals(-first.code).name) if by_signal else code
    words = say("{launcher} says that rank {rank} ended {how}.", launcher=first.launcher, rank=first.rank, how=how)
    ended = say("rank {rank}: exit code {code}", rank=first.rank, code=first.code)
    line = LogLine(origin=first.path, text=ended, line=first.line)
    return FailingRank((first.rank,), RankSign.KILLED, words, (line,))


def _silent(log: JobLog, silent: Sequence[int], *, waited: bool) -> FailingRank:
    """Ranks that printed no error: a rank that hangs, or one that was ended without a trace."""
    what = say("no timeout") if waited else say("no error")
    words = say("{ranks} reported {what}: look there first.", ranks=capitalised(ranks(silent)), what=what)
    last = [item for item in log.last_words if item.rank in silent[:_FEW]]
    if len(silent) == 1 and last:
        words += say(" Its last line: {text}.", text=last[0].text[:_SHOWN].rstrip(". "))
    lines = [LogLine(origin=item.path, text=item.text, line=item.line, time=item.stamp or None) for item in last]
    return FailingRank(tuple(silent), RankSign.SILENT, words, tuple(lines))


def evidence_needed(log: JobLog, cause: FirstCause) -> tuple[str, ...]:
    """Which evidence would decide where a log shows only consequences: sentences, the most telling first."""
    found: list[str] = []
    who = failing_rank(log)
    if who is not None and who.words:
        whole = "{words} The whole output of {names} would decide: torchrun --log-dir logs --tee 3."
        found.append(say(whole, words=who.words, names=ranks(who.ranks)))
    cascade = cause.of(LogRole.CASCADE)
    if not {item.kind for item in cascade}.isdisjoint(_LOST):
        lost = "A rank lost its connection to another one: the log of the rank that left first would decide."
        found.append(say(lost))
    nodes = {item.node for item in cascade if item.node}
    where = say(" of {nodes}", nodes=min(nodes)) if len(nodes) == 1 else say(" of each node")
    kernel = "The kernel's log{where} would show a kill for memory: dmesg -T | grep -i 'killed process'."
    return (*found, say(kernel, where=where))
