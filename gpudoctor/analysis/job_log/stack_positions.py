"""Where the ranks stood by stack dumps that a job left behind, and who stood elsewhere than the others."""

from collections.abc import Sequence

from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.analysis.live.rank_positions import WAITS
from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.analysis.run.rank_positions import WAITING, RankPosition, odd_ones
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import LogLine, SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.job_log import JobLog, RankStack
from gpudoctor.text import ranks

_WAITS = WAITING | frozenset(WAITS)
_SHOWN = 4
"""Groups that a sentence names."""

_BY_A_PERSON = frozenset({"cancelled", "interrupted"})
"""Kinds of ends by a person, who may have seen that the job hung."""


@frozen(kw_only=False)
class Standing:
    """Processes at one place."""

    stacks: tuple[RankStack, ...]
    waits: bool
    """Whether they wait for other ranks there."""
    odd: bool
    """Whether they are the ones that stand elsewhere."""

    @property
    def who(self) -> str:
        """`rank 3`, `ranks 0-2`; processes where no rank is known."""
        numbers = [item.thread.rank for item in self.stacks if item.thread.rank is not None]
        if len(numbers) == len(self.stacks):
            return ranks(numbers)
        few = ", ".join(item.title for item in self.stacks[:_SHOWN])
        return (
            few
            if len(self.stacks) <= _SHOWN
            else say("{few} and {stacks} more", few=few, stacks=len(self.stacks) - _SHOWN)
        )

    @property
    def where(self) -> str:
        """`in distributed_c10d.all_reduce at train.py:30`."""
        stack = self.stacks[0]
        called = (
            say("in {via}", via=stack.via)
            if stack.via
            else say("in {phase}", phase=stack.phase)
            if stack.phase != "other"
            else ""
        )
        user = stack.user or stack.thread.frames[0]
        line = say(
            "at {file}:{line} ({function})",
            file=user.path.rpartition("/")[2],
            line=user.line,
            function=user.name.rpartition(".")[2],
        )
        return concatenated(" ", filter(None, (called, line)))


@once
def standings(log: JobLog) -> tuple[Standing, ...]:
    """The ranks of the stack dumps by place, those that stand elsewhere first, then the most."""
    positions = [_position(number, stack) for number, stack in enumerate(log.stacks)]
    odd = {item.rank for item in odd_ones(positions)}
    groups: dict[tuple[bool, str, str, int], list[int]] = {}
    for item, stack in zip(positions, log.stacks, strict=True):
        place = (item.place.path, item.place.line) if item.place else ("", 0)
        groups.setdefault((item.rank in odd, stack.via or stack.phase, *place), []).append(item.rank)
    found = [
        Standing(stacks=tuple(log.stacks[number] for number in numbers), waits=positions[numbers[0]].waits, odd=key[0])
        for key, numbers in groups.items()
    ]
    return tuple(sorted(found, key=lambda item: (not item.odd, -len(item.stacks))))


def odd_rank(log: JobLog) -> int:
    """The one rank that stands elsewhere; -1 where none or several do."""
    odd = [stack for group in standings(log) if group.odd for stack in group.stacks]
    rank = odd[0].thread.rank if len(odd) == 1 else None
    return rank if rank is not None else -1


def told(groups: Sequence[Standing]) -> str:
    """One sentence without its full stop: who stood where, the odd ones first."""
    clauses = []
    for group in groups[:_SHOWN]:
        many = len(group.stacks) > 1
        verb = say("waited") if group.waits else (say("were") if many else say("was"))
        elsewhere = say(" at a different place,") if group.odd and not group.waits else ""
        clauses.append(
            say("{who} {verb}{elsewhere} {where}", who=group.who, verb=verb, elsewhere=elsewhere, where=group.where)
        )
    more = len(groups) - _SHOWN
    return concatenated("; ", clauses) + (say("; {more} more places", more=more) if more > 0 else "")


def shown(groups: Sequence[Standing]) -> tuple[LogLine | SourceSpan, ...]:
    """The line of each group, and the dump that shows it."""
    found: list[LogLine | SourceSpan] = []
    for group in groups[:_SHOWN]:
        stack = group.stacks[0]
        if stack.user is not None:
            found.append(SourceSpan(path=stack.user.path, line=stack.user.line))
        top = stack.thread.frames[0]
        words = say("{title}, thread {thread}: {label}", title=stack.title, thread=stack.thread.thread, label=top.label)
        found.append(LogLine(origin=stack.thread.path, text=words, line=stack.thread.line))
    return tuple(found)


def stands_still(log: JobLog) -> bool:
    """Whether stack dumps alone tell of an end: no log names a cause but a person's, and none a good end."""
    cause = first_cause(log)
    ended = cause is not None and cause.root is not None and cause.root.kind not in _BY_A_PERSON
    return len(log.stacks) > 1 and not log.finished and not ended


def _position(number: int, stack: RankStack) -> RankPosition:
    user = stack.user
    return RankPosition(
        rank=number,
        step=0,
        phase=stack.phase,
        silent=0.0,
        place=LinePlace(path=user.path, line=user.line, function=user.name) if user else None,
        waits=stack.phase in _WAITS,
        communicates=stack.phase == "collective",
    )
