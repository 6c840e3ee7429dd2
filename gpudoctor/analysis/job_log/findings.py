"""The finding of a check whose ailment is the first cause of a death, from the log alone."""

import re
from collections.abc import Iterable, Iterator

from gpudoctor.analysis.job_log.beside import guilty_line
from gpudoctor.analysis.job_log.failing_rank import FailingRank, RankSign, failing_rank
from gpudoctor.analysis.job_log.first_cause import FirstCause, LogRole, first_cause
from gpudoctor.analysis.job_log.overcome import done_line
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import (
    Check,
    Confidence,
    Cost,
    Finding,
    LogDetail,
    LogLine,
    LogMessage,
    Patient,
    Severity,
    SourceSpan,
)
from gpudoctor.model.log_message import filled
from gpudoctor.model.signs.job_log import JobLog, LogEvent
from gpudoctor.text import capitalised, count

_LONGEST_SAID, _SHORTEST_SAID = 200, 60
"""Characters of an exception's message that a finding quotes, and those of a sentence that is enough."""
_ASKS = re.compile(
    r"(?:^|(?<=[.!?,:;] )|(?<=\n))(?P<asks>(?:[Pp]lease (?!see|check (?:the|that)|consult|file|find|note|open|"
    r"provide|read|refer|report|request|visit)|Try |Use |Set |Make sure |Consider |Run `|Install |Upgrade |"
    r"You (?:need|should|must) |You can (?!also|find|inspect|see|read))[^\n]{8,240}?)(?:\.(?=\s|$)|\s*(?:\n|$))"
)
"""What the message itself says is to be done."""
_SHOWN = 3
"""Consequences that are shown as evidence beside the cause."""


def log_findings(check: Check, patient: Patient) -> Iterator[Finding]:
    """The finding, where the first cause of the death is one of this check's messages."""
    log = patient.job_log
    cause = first_cause(log)
    if cause is None or cause.root is None or cause.root.code != check.code:
        return
    root = cause.root
    kind = check.log_kind(root.kind, {**dict(root.values), "at": root.frame.text if root.frame is not None else ""})
    message = wording_of(check.all_log_messages(), kind, root)
    line = guilty_line(patient, root)
    rank = failing_rank(log)
    unstarted = root.unstarted and log.last_step is None
    words = say(" {words}", words=rank.words) if rank is not None and rank.words else ""
    complete = done_line(log, root.path)
    done = (
        say(" The program had said before, at line {line:,}, that its training was complete.", line=complete)
        if 0 < complete < root.line
        else ""
    )
    evidence = (*log_evidence(cause, line), *(rank.evidence if rank is not None else ()))
    before = earlier_run(item for item in cause.of(LogRole.HANDLED) if item.path == root.path and item.line < root.line)
    said = (_who(log, cause, rank), _what(message, root), words, done, before)
    asked = [found["asks"] for found in _ASKS.finditer(root.text) if not found["asks"].endswith(":")]
    ends = say("the result is unreliable") if goes_on(log, cause) else say("the run died")
    yield check.finding(
        concatenated("", (*said, followers(cause, rank))),
        evidence=tuple(dict.fromkeys(evidence)),
        confidence=confidence_of(message, root),
        severity=Severity.ERROR,
        cost=Cost(breaks=say("the job does not start") if unstarted else ends),
        subject=root.exception or message.kind,
        detail=LogDetail(kind=kind, values=(*root.values, *(("asks", item) for item in asked[:1]))),
    )


def goes_on(log: JobLog, cause: FirstCause) -> bool:
    """Whether the training made steps with what is wrong in it, and nothing ended it."""
    root = cause.root
    if root is None or not root.lasting or log.last_step is None or cause.of(LogRole.CASCADE):
        return False
    return root.step is None or log.last_step > root.step


def earlier_run(handled: Iterable[LogEvent]) -> str:
    """A sentence on the last of these events that ended a run; "" without one."""
    lines = [item.line for item in handled if item.of_script]
    return say(" The same file shows an earlier failure at line {line:,}.", line=lines[-1]) if lines else ""


def wording_of(messages: Iterable[LogMessage], kind: str, root: LogEvent) -> LogMessage:
    """The wording of a kind that the event's text has; the first one if only the whole exception shows it."""
    of_kind = [item for item in messages if item.kind == kind]
    fitting = (item for item in of_kind if len(of_kind) > 1 and re.search(item.pattern, root.text))
    return next(fitting, of_kind[0])


def confidence_of(message: LogMessage, root: LogEvent) -> Confidence:
    """The message's own; probable at most where the program may have gone on after it."""
    if root.doubtful and message.confidence is Confidence.CONFIRMED:
        return Confidence.PROBABLE
    return message.confidence


def log_evidence(cause: FirstCause, at: SourceSpan | None = None) -> tuple[LogLine | SourceSpan, ...]:
    """The line of the root, the user's line that it came from, and the first consequences."""
    found: list[LogLine | SourceSpan] = []
    root = cause.root
    if root is not None:
        found.append(log_line(root))
        if root.linked is not None:
            behind, text = root.linked
            found.append(LogLine(origin=root.path, text=text[:300], line=root.line + behind))
        if at is not None:
            found.append(at)
    shown = cause.of(LogRole.CASCADE) if root is None else ()
    return (*found, *(log_line(item) for item in shown[:_SHOWN]))


def log_line(event: LogEvent) -> LogLine:
    """An event as evidence."""
    first = event.text.strip().split("\n")[0]
    return LogLine(origin=event.path, text=first[:300], line=event.line, time=event.stamp or None)


def followers(cause: FirstCause, first: FailingRank | None = None) -> str:
    """A sentence that says how many error lines only follow, and of how many ranks; "" where none does."""
    own = {*cause.ranks, *(first.ranks if first is not None else ())}
    cascade = cause.of(LogRole.CASCADE)
    lines = sum(item.count for item in cascade)
    if not lines:
        return ""
    others = [item for item in cascade if item.rank is not None and item.rank not in own]
    ranks = count(len({item.rank for item in others}), "other rank" if own else "rank") if others else ""
    theirs = sum(item.count for item in others)
    some = 0 < theirs < lines
    return say(
        " {lines}{of} only follow{s} from it{among}.",
        lines=count(lines, "later error line"),
        of=say(" of {ranks}", ranks=ranks) if others and theirs == lines else "",
        s=say("s") if lines == 1 else "",
        among=say(", including {theirs:,} from {ranks}", theirs=theirs, ranks=ranks) if some else "",
    )


def _who(log: JobLog, cause: FirstCause, rank: FailingRank | None) -> str:
    """The beginning of the sentence: the rank, the node and the step, as far as the log says them."""
    parts, root = [], cause.root
    assert root is not None
    failed = root.rank
    if failed is None and rank and rank.sign not in (RankSign.SILENT, RankSign.APART):
        failed = rank.rank
    node = root.node or next((item.node for item in log.exits if item.rank == failed and item.node), "")
    if len(cause.ranks) > 1 and root.waits:  # none of those that waited is the first
        parts.append(say("{ranks} ranks", ranks=len(cause.ranks)))
    elif len(cause.ranks) > 1:
        first = cause.ranks[0] if root.rank is None else root.rank
        parts.append(say("{ranks} ranks, first rank {first}", ranks=len(cause.ranks), first=first))
    elif failed is not None:
        parts.append(say("Rank {rank}", rank=failed))
    if node:
        parts.append(say("node {node}", node=node))
    if root.step is not None:
        parts.append(say("after step {step:,}", step=root.step))
    if root.frame is not None:
        where = f"{root.frame.path.replace(chr(92), '/').rpartition('/')[2]}:{root.frame.line}"
        parts.append(where if parts else say("At {where}", where=where))
    words = concatenated(", ", parts)
    return say("{words}: ", words=capitalised(words)) if words else ""


def _what(message: LogMessage, root: LogEvent) -> str:
    """The message's own sentence; the words of the exception where it has none."""
    parts = {name: _cut(value) for name, value in root.values}
    values = {"exception": root.exception, "said": _first_words(root.text), **parts}
    return filled(message.text or "{said}.", values)


def _first_words(text: str) -> str:
    """The first line, and the next one if it only announces that; cut behind a sentence or a word."""
    first, _, rest = text.strip().partition("\n")
    if first.endswith(":") and rest.strip():
        first = f"{first} {rest.strip().partition(chr(10))[0].strip()}"
    return _cut(first).rstrip(".")


def _cut(text: str) -> str:
    """A text that is too long, or that a wording has cut, up to the end of a sentence or a word."""
    if len(text) < _LONGEST_SAID - 1:
        return text
    head = text[:_LONGEST_SAID]
    sentence, word = head.rfind(". "), head.rpartition(" ")[0].rstrip(",;:.")
    return head[:sentence] if sentence > _SHORTEST_SAID else f"{word} [...]"
