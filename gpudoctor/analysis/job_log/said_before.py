"""What a program mentioned, or caught and printed, before a death that nothing else explains."""

import re
from collections import Counter
from collections.abc import Sequence

from gpudoctor.analysis.job_log.consequences import UNHEEDED
from gpudoctor.analysis.job_log.event_order import earliest, may_be_together
from gpudoctor.analysis.job_log.handled import NOT_THERE, WENT_ON, WHILE_IMPORTING, same_failure
from gpudoctor.model.log_message import PLAIN, Bearing
from gpudoctor.model.signs.job_log import JobLog, LogEvent

_SOON = 10
"""Ordinary lines between a failure that the program caught, and its death of no known kind."""
_OF_OTHER_RANKS = frozenset(
    {"unreachable", "rendezvous-timeout", "store-barrier", "heartbeat", "stalled", "ib-peer", "socket", "ib"}
    | {"system-error", "warned", "mpi-unreachable"}
)
"""Kinds of symptoms between ranks, beside those of a rank that waited."""
_OPTIONAL = frozenset(
    {"cannot-import", "missing-package", "no-module", "required", "requires", "removed-attribute", "operator"}
    | {"unknown-model", "401", "403", "404", "rate-limit", "offline", "tracker", "permission"}
    | {"parse", "encoding", "empty", "image"}
)
"""Kinds of what a program often does without: a package, the hub, a tracker, a row of the data."""
_GAVE_UP = re.compile(
    r"^\[?(?:ERROR|FATAL|CRITICAL|error|fatal)\b|(?i:\b(?:abort|g[ai]v\w{1,3} up|stopp(?:ed|ing)|leaving)\b)"
)
"""Words of a program that ends by what failed."""
_OFTEN_SAID = 3
_WORDS, _STEM = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])"), 5
"""Words within names, and the letters by which two are alike."""
_OF_ALL_ERRORS = frozenset(
    {"error", "excep", "runti", "value", "index", "tenso", "devic", "objec", "modul", "train", "model", "batch"}
    | {"attri", "faile", "expec", "argum", "messa", "torch", "found", "input", "state", "loadi", "loade", "which"}
)
_WRITES = re.compile(r"(?i)writ|sav(?:e|ing)|checkpoint|ckpt|snapshot|flush|upload|persist")
"""Words of a death while something is written."""


def of_absent_ranks(root: LogEvent, handled: Sequence[LogEvent]) -> list[LogEvent]:
    """The exceptions for which ranks did not come to where others waited, though their programs went on.

    Only if no more of these were printed before than ranks are missing.
    """
    values = dict(root.values)
    joined, expected = values.get("joined", ""), values.get("expected", "")
    if not (joined.isdigit() and expected.isdigit()):
        return []
    raised = [
        item
        for item in handled
        if item.exception
        and item.bearing is Bearing.CAUSE
        and (item.path, item.rank) == (root.path, root.rank)
        and item.last_line < root.line
        and item.progress < WENT_ON
        and not item.earlier
    ]
    missing = int(expected) - int(joined)
    return raised if sum(item.count for item in raised) <= missing else []


def said_before(root: LogEvent | None, log: JobLog, handled: set[int], left: Sequence[LogEvent]) -> LogEvent | None:
    """What the program mentioned, or caught and printed, before a death that nothing else explains.

    A rank that did not come may have said why. A plain exception is explained by words of its own rank alone.
    """
    death = root or earliest([item for item in left if item.kind != UNHEEDED])
    if death is None or (death.bearing is Bearing.SYMPTOM and not waited_for_others(death)):
        return None
    found = [item for item in log.events if item.mentioned or (item.order in handled and _was_said(item, death))]
    found = [
        item
        for item in found
        if (item.order < death.order or (waited_for_others(death) and item.path != death.path))
        and (waited_for_others(death) or may_be_together(item, death))
        and not _may_lack(item)
    ]
    if root is not None and root.kind == PLAIN:
        own = [
            item
            for item in found
            if item.path == root.path and (None in (item.rank, root.rank) or item.rank == root.rank)
        ]
        times = Counter((item.code, item.kind) for item in own for _ in range(item.count) if not item.progress)
        own = [item for item in own if _explains(item, root, times[item.code, item.kind])]
        return next((item for item in own if same_failure(item, own[-1])), None)
    reporters = {item.rank for item in left if item.rank is not None}
    found = [item for item in found if not item.progress and item.rank not in reporters]
    found = [item for item in found if item.rank is not None or _GAVE_UP.search(item.text)]
    if root is not None and root.bearing is Bearing.CAUSE:
        values = dict(root.values)
        joined, expected = values.get("joined", ""), values.get("expected", "")
        if not (joined.isdigit() and expected.isdigit()):
            return None
        found = found if len({item.rank for item in found}) <= int(expected) - int(joined) else []
    return earliest(found)


def _explains(said: LogEvent, death: LogEvent, times: int) -> bool:
    """Whether what a program said explains the plain exception behind it, and was not merely overcome.

    It gave up, or the same came again and again, or both speak of the same thing.
    """
    words = _words_of(death)
    if said.progress:
        return _WRITES.search(words) is not None
    if _GAVE_UP.search(said.text) and not said.goes_on:
        return True
    return times >= _OFTEN_SAID or not _stems(f"{said.before} {said.text}").isdisjoint(_stems(words))


def _stems(text: str) -> set[str]:
    """The beginnings of the longer words of a text; words of all errors are left out."""
    found = {word[:_STEM].lower() for word in _WORDS.findall(text) if len(word) >= _STEM}
    return found - _OF_ALL_ERRORS


def waited_for_others(event: LogEvent) -> bool:
    """Whether a rank that prints it may have lost, or waited for, one that failed by itself."""
    return event.waits or event.kind in _OF_OTHER_RANKS


def _was_said(event: LogEvent, death: LogEvent) -> bool:
    """Whether the program caught a known failure and printed it, and died some lines later without a step."""
    return (
        event.bearing is Bearing.CAUSE
        and event.kind != PLAIN
        and (event.quoted or event.warned or event.logged or event.goes_on)
        and not (event.earlier or event.progress or event.succeeded)
        and event.path == death.path
        and (event.rank == death.rank or waited_for_others(death))
        and event.followed - death.followed <= _SOON
    )


def _may_lack(event: LogEvent) -> bool:
    """Whether a program often goes on without what failed."""
    return event.kind in _OPTIONAL or event.exception in WHILE_IMPORTING or event.kind in NOT_THERE


def _words_of(event: LogEvent) -> str:
    frame = event.frame
    return f"{event.text} {frame.function} {frame.text}" if frame is not None else event.text
