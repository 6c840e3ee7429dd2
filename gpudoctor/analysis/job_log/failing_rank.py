"""The rank that failed first, by everything that a log of all ranks says beside the first cause.

An exception names its own rank. A timeout is printed by the ranks that waited: the one that they waited for is
the one that printed no error, stood at another line, or ended without one. The launcher's summary says how each
rank ended. What only fits several ranks names nobody.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from gpudoctor.analysis.job_log.consequences import ABORTED, PEER, UNHEEDED
from gpudoctor.analysis.job_log.first_cause import FirstCause, LogRole, first_cause
from gpudoctor.analysis.memo import once
from gpudoctor.lang import say
from gpudoctor.model import LogLine
from gpudoctor.model.signs.job_log import JobLog, LogEvent, RankExit
from gpudoctor.text import capitalised, ranks

_FEW = 3
"""One in so many ranks may be the odd ones; more are no odd ones."""
_SHOWN = 100
"""Characters of a last line that a sentence quotes."""
_STOPPED = re.compile(
    r"(?i)early[- ]stopp|\b(?:is|are|was|training|epochs?|loop|all|run|work|rank|worker) (?:is )?"
    r"(?:done|finished|completed?|exhausted|over)\b|out of (?:data|batches|samples)|stopiteration|"
    r"end of (?:the )?(?:epoch|data|training|file)|no more (?:data|batches|samples)|exhausted|\bgoodbye\b"
)
"""Last words of a rank that left by itself."""
_FINGERPRINT = re.compile(r"Rank (\d{1,6}) is running collective: CollectiveFingerPrint\((.{1,200}?)\)")
_ENDED_BY_OTHERS = frozenset({-15, -2, -1, 143, 130})
"""Exit codes of ranks that the launcher ended because of another one."""
_KILLED_BY = {-9: "SIGKILL", -11: "SIGSEGV", -6: "SIGABRT", -7: "SIGBUS", -4: "SIGILL", -8: "SIGFPE"}


class RankSign(Enum):
    """What shows which rank failed first."""

    OWN = "own"
    """It printed the first cause itself."""
    NAMED = "named"
    """A message of the others names it."""
    KILLED = "killed"
    """Its launcher says that a signal ended it."""
    ENDED = "ended"
    """It ended without an error before the others."""
    SILENT = "silent"
    """It printed no error, and the others did."""
    APART = "apart"
    """It waited at another place than the others."""


@dataclass(frozen=True, slots=True)
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
    named = _named(cause)
    if named is not None:
        return named
    if root is not None and root.rank is not None and not root.waits:
        return FailingRank((root.rank,), RankSign.OWN)
    reporters = _reporters(cause)
    if root is not None and not root.waits:
        return _by_launcher(log, root, reporters)
    killed = _killed(log, reporters) or (_exited_first(log, reporters) if root is None else None)
    if killed is not None:
        return killed
    members = _members(log, reporters)
    silent = tuple(rank for rank in members if rank not in reporters)
    waited = root is not None
    apart = _apart(reporters) if root is not None else None
    if not silent or len(silent) > max(1, len(reporters) // _FEW):
        return apart
    ended = _ended(log, silent, waited=waited)
    if ended is not None:
        return ended
    if len(silent) > 1 and apart is not None:
        return apart
    return _silent(log, silent, waited=waited)


def left_early(log: JobLog) -> FailingRank | None:
    """The ranks that ended without an error while the others trained, where the log names no cause."""
    cause = first_cause(log)
    if cause is None or cause.root is not None:
        return None
    rank = failing_rank(log)
    return rank if rank is not None and rank.sign is RankSign.ENDED else None


def _reporters(cause: FirstCause) -> dict[int, LogEvent]:
    """The first error of each rank that printed one."""
    found: dict[int, LogEvent] = {}
    for event, role in cause.roles:
        own = event.exception or event.fatal or event.kind in (PEER, ABORTED)
        if (
            role not in (LogRole.HARMLESS, LogRole.HANDLED)
            and event.rank is not None
            and own
            and event.kind != UNHEEDED
        ):
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


def _named(cause: FirstCause) -> FailingRank | None:
    """By a message that names ranks: a monitored barrier, or the check of collectives in debug mode."""
    for event, role in cause.roles:
        missing = dict(event.values).get("missing", "")
        if missing and role in (LogRole.ROOT, LogRole.SAME, LogRole.CASCADE):
            return FailingRank(tuple(int(item) for item in re.findall(r"\d+", missing)), RankSign.NAMED)
    calls: dict[int, str] = {}
    for event, role in cause.roles:
        if role in (LogRole.ROOT, LogRole.SAME):
            calls.update((int(rank), call) for rank, call in _FINGERPRINT.findall(event.text))
    odd = _odd(calls)
    if not odd:
        return None
    others = next(call for rank, call in calls.items() if rank not in odd)
    words = say(
        "{ranks} called {operation}, and the others {other}.",
        ranks=capitalised(ranks(odd)),
        operation=_operation(calls[odd[0]]),
        other=_operation(others),
    )
    return FailingRank(odd, RankSign.NAMED, words)


def _operation(fingerprint: str) -> str:
    found = re.search(r"OpType=(\w+)(?:, TensorShape=(\[[^\]]*\]))?", fingerprint)
    return (
        say("{found}{of}", found=found[1], of=say(" of {found}", found=found[2]) if found[2] else "")
        if found
        else say("something else")
    )


def _odd(places: Mapping[int, str]) -> tuple[int, ...]:
    """The ranks that differ from most others, all at one place; nobody where there is no clear most."""
    counts = Counter(places.values())
    if len(counts) < 2:
        return ()
    common, times = counts.most_common(1)[0]
    odd = tuple(sorted(rank for rank, place in places.items() if place != common))
    few = len(counts) == 2 and len(odd) <= max(1, len(places) // _FEW) and times > 1
    return odd if few else ()


def _by_launcher(log: JobLog, root: LogEvent, reporters: Mapping[int, LogEvent]) -> FailingRank | None:
    """The rank of a cause that names none, by how the launcher says that the ranks ended."""
    killed = _killed(log, {})  # that rank may have printed its fault, too
    if killed is not None and not root.exception:
        return killed
    local = dict(root.values).get("local_rank", "")
    raised = [
        item for item in log.exits if item.code not in _ENDED_BY_OTHERS and item.code and item.rank not in reporters
    ]
    if not root.exception or root.kind in (PEER, ABORTED):
        raised = []
    first = next((item for item in raised if item.first or item.launcher in ("spawn", "mpirun")), None)
    alone = raised[0] if len({item.rank for item in raised}) == 1 else first
    if alone is not None:
        return FailingRank((alone.rank,), RankSign.KILLED, _exit_words(alone), (_exit_line(alone),))
    if local and not log.exits and (log.world is None or max(log.ranks, default=0) < log.world):
        return FailingRank((int(local),), RankSign.OWN)
    return None


def _killed(log: JobLog, reporters: Mapping[int, LogEvent]) -> FailingRank | None:
    """The rank that a signal ended which no launcher sends to the others."""
    hard = [item for item in log.exits if item.code in _KILLED_BY or item.code - 128 in (9, 11, 6, 7, 4, 8)]
    hard = [item for item in hard if item.rank not in reporters]
    if not hard:
        return None
    first = next((item for item in hard if item.first), hard[0])
    if len({item.rank for item in hard}) > 1 and not first.first:
        return None  # a launcher that lost patience ends all of them so
    return FailingRank((first.rank,), RankSign.KILLED, _exit_words(first), (_exit_line(first),))


def _exited_first(log: JobLog, reporters: Mapping[int, LogEvent]) -> FailingRank | None:
    """The rank whose end the launcher saw first, if it printed no error itself."""
    first = next((item for item in log.exits if item.first and item.code not in _ENDED_BY_OTHERS), None)
    if first is None or not first.code or first.rank in reporters:
        return None
    return FailingRank((first.rank,), RankSign.KILLED, _exit_words(first), (_exit_line(first),))


def _exit_words(item: RankExit) -> str:
    how = (
        say("by {killed_by}", killed_by=_KILLED_BY[item.code])
        if item.code in _KILLED_BY
        else say("with exit code {code}", code=item.code)
    )
    return say("{launcher} says that rank {rank} ended {how}.", launcher=item.launcher, rank=item.rank, how=how)


def _exit_line(item: RankExit) -> LogLine:
    return LogLine(
        origin=item.path, text=say("rank {rank}: exit code {code}", rank=item.rank, code=item.code), line=item.line
    )


def _ended(log: JobLog, silent: Sequence[int], *, waited: bool) -> FailingRank | None:
    """Ranks without an error that the launcher does not list among those that failed, or that said goodbye.

    Others wait for a rank that hangs until they time out; of one that has ended they lose the connection.
    """
    listed = {item.rank for item in log.exits}
    ended = tuple(rank for rank in silent if rank not in listed) if len(listed) > 1 and not waited else ()
    if not ended:
        said = {item.rank: item.text for item in log.last_words}
        ended = tuple(rank for rank in silent if rank not in listed and _STOPPED.search(said.get(rank, "")))
    if not ended:
        return None
    words = say("{ranks} ended without an error before the others did.", ranks=capitalised(ranks(ended)))
    return FailingRank(ended, RankSign.ENDED, words + _last(log, ended), _last_lines(log, ended))


def _silent(log: JobLog, silent: Sequence[int], *, waited: bool) -> FailingRank:
    """Ranks that printed no error: a rank that hangs, or one that was ended without a trace."""
    left = silent
    if not waited:  # those that the launcher ended had no time to print one
        stopped = {item.rank for item in log.exits if item.code in _ENDED_BY_OTHERS}
        left = tuple(rank for rank in silent if rank not in stopped) or silent
    left = _odd_words(log, left) or left
    codes = [item for item in log.exits if item.rank in left and item.code not in _ENDED_BY_OTHERS]
    what = say("no timeout") if waited else say("no error")
    words = say("{ranks} reported {what}: look there first.", ranks=capitalised(ranks(left)), what=what)
    if len(left) == 1 and codes:
        words = say("Rank {left} ended with exit code {code} and printed no error.", left=left[0], code=codes[0].code)
    return FailingRank(tuple(left), RankSign.SILENT, words + _last(log, left), _last_lines(log, left))


def _odd_words(log: JobLog, left: Sequence[int]) -> tuple[int, ...]:
    """The one of several whose last line is like that of no other rank: it was busy with something else."""
    alike = {item.rank: re.sub(r"\d[\d.,:e+-]*", "0", item.text) for item in log.last_words}
    counts = Counter(alike.values())
    common = counts.most_common(1)[0] if counts else ("", 0)
    odd = tuple(rank for rank in left if rank in alike and counts[alike[rank]] == 1)
    others = all(alike.get(rank) == common[0] for rank in left if rank not in odd)
    return odd if len(odd) == 1 < len(left) and others and common[1] > len(alike) // 2 else ()


def _last(log: JobLog, who: Sequence[int]) -> str:
    """A sentence with the last line of the one rank; "" where it is not known."""
    if len(who) != 1:
        return ""
    said = next((item for item in log.last_words if item.rank == who[0]), None)
    return (
        say(" Its last line: {text}.", text=said.text[:_SHOWN].rstrip(". ")) if said is not None and said.text else ""
    )


def _last_lines(log: JobLog, who: Sequence[int]) -> tuple[LogLine, ...]:
    return tuple(
        LogLine(origin=item.path, text=item.text, line=item.line, time=item.stamp or None)
        for item in log.last_words
        if item.rank in who[:_FEW]
    )


def _apart(reporters: Mapping[int, LogEvent]) -> FailingRank | None:
    """Ranks that waited at another line, or in another collective, than most others."""
    waiting = {
        rank: event for rank, event in reporters.items() if event.waits or (event.kind == PEER and event.exception)
    }
    places = {rank: place for rank, event in waiting.items() if (place := _place(event))}
    odd = _odd(places)
    if not odd:
        return None
    groups: dict[str, list[int]] = defaultdict(list)
    for rank, place in sorted(places.items()):
        groups[place].append(rank)
    common = max(groups.values(), key=len)
    words = say(
        "{ranks} waited {places}, and {most} {others}.",
        ranks=capitalised(ranks(odd)),
        places=places[odd[0]],
        most=_most(common),
        others=places[common[0]],
    )
    return FailingRank(odd, RankSign.APART, words)


def _most(common: Sequence[int]) -> str:
    return ranks(common) if len(common) < 2 * _FEW else say("{common} others", common=len(common))


def _place(event: LogEvent) -> str:
    """Where a rank waited: its line, else the collective and its number."""
    if event.frame is not None:
        name = event.frame.path.replace("\\", "/").rpartition("/")[2]
        return say("at {name}:{line} ({function})", name=name, line=event.frame.line, function=event.frame.function)
    values = dict(event.values)
    number = say(" number {sequence}", sequence=values["sequence"]) if values.get("sequence") else ""
    return (
        say("in {operation}{number}", operation=values["operation"], number=number) if values.get("operation") else ""
    )
