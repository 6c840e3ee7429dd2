"""Causes that a program only mentions before it dies: in words of its own, at any level, without an exception.

A wording that asks for an exception is sought in the lines before the death, up to the last step of the rank.
What is found is no event of its own: it explains a death that nothing else explains.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpudoctor.model.log_message import Bearing
from gpudoctor.vitals.job_log.envelopes import HEADER
from gpudoctor.vitals.job_log.line_prefix import OF_KERNEL, PrefixedLine, of_low_level, plain
from gpudoctor.vitals.job_log.matching import Match, Messages
from gpudoctor.vitals.job_log.opening import text_of
from gpudoctor.vitals.job_log.progress import says_done, step_of, whole_step
from gpudoctor.vitals.job_log.tracebacks import GOES_ON, frame_of
from gpudoctor.vitals.job_log.unknown_errors import OF_LOW_LEVEL

_LOOKED_AT = 200
"""Lines with words, before the death, among which a cause is sought."""
_BEHIND_LOW = 3
"""Lines of the same rank between a cause said at a low level, or as overcome, and the death."""
_OF_SETTINGS = re.compile(r"[\w.\[\]'\"-]{1,80} ?=(?!=)|['\"][\w. -]{1,80}['\"]: |-{1,2}\w|(?i:usage): ")
"""How a line of a configuration or of a help text begins, which quotes words of an error."""
_OF_ADVICE = re.compile(
    r"(?i)\b(?:if (?:you|it|this|that|the|there|any)|in case|to (?:avoid|prevent|fix)|(?:may|might|can|could) "
    r"(?:cause|lead|result|run|be|get|happen|see)|would|should|tips?:|hint:|otherwise)\b"
)
"""Words of advice about an error that has not come."""
_FULL_DISK = "no-space"
"""The kind of a full disk: it stays full while the training goes on, until something is written again."""
_OF_TYPE = re.compile(r"[A-Z]\w{1,60}(?:Error|Exception): ")
"""The type of an exception, wherever it stands."""
_STORAGE_CUES = (b"no space left", b"quota", b"enospc", b"errno 28", b"disk is full", b"disk full")


@dataclass(slots=True)
class Mention:
    """A cause that a line mentions."""

    match: Match
    line: PrefixedLine
    number: int
    trained: int
    """Steps of its rank between it and the death."""
    step: int | None = None
    """The last step that was printed before it."""


def mentions(
    pieces: Sequence[tuple[bytes, int]], lines_of: Callable[[str], Sequence[PrefixedLine]], table: Messages
) -> list[Mention]:
    """The causes that lines before a death mention, the last one first; `pieces` end where the job dies."""
    found: list[Mention] = []
    dated = 0
    """Of these, how many have got their step."""
    trained: dict[int | None, int] = {}
    behind: dict[int | None, int] = {}
    looked_at = 0
    for raw, number in reversed(pieces):
        if (None in trained or looked_at >= _LOOKED_AT) and not _of_storage(raw):
            continue
        whole = plain(text_of(raw[:4096]))
        for line in lines_of(whole):
            text = line.text
            if (
                not text.strip()
                or text[:1] in " \t"
                or HEADER in text
                or frame_of(text)
                or OF_KERNEL.search(whole[:120])
            ):
                continue
            if step_of(text) is not None:
                for mention in found[dated:]:
                    mention.step = whole_step(text)
                dated = len(found)
                trained[line.rank] = trained.get(line.rank, 0) + 1
                continue
            looked_at += 1
            steps = trained.get(line.rank, 0) + (trained.get(None, 0) if line.rank is not None else 0)
            match = _cause(table, text)
            if match is None or (steps and match.known.message.kind != _FULL_DISK):
                behind[line.rank] = behind.get(line.rank, 0) + 1
                continue
            overcome = of_low_level(whole) or GOES_ON.search(text) is not None
            if steps or not overcome or behind.get(line.rank, 0) <= _BEHIND_LOW:
                found.append(Mention(match, line, number, steps))
    return found


def pasted(
    pieces: Sequence[tuple[bytes, int]], lines_of: Callable[[str], Sequence[PrefixedLine]], table: Messages
) -> Mention | None:
    """The first cause in a few lines that somebody pasted: without its type, or in a sentence about it."""
    first = next((number for raw, number in pieces if raw.strip()), 0)
    for (raw, number), (behind, _) in pairwise([*pieces, (b"", 0)]):
        whole = plain(text_of(raw[:4096]))
        if step_of(whole) is not None or says_done(whole) or OF_KERNEL.search(whole[:120]):
            return None
        if (
            of_low_level(whole)
            or OF_LOW_LEVEL.search(whole[:300])
            or GOES_ON.search(f"{whole}\n{text_of(behind[:4096])}")
        ):
            continue
        for line in lines_of(whole):
            match = _cause(table, line.text, general=number == first or _OF_TYPE.search(line.text) is not None)
            if match is not None and line.text[:1] not in " \t" and not line.text.startswith("#"):
                return Mention(match, line, number, 0)
    return None


def _cause(table: Messages, text: str, *, general: bool = False) -> Match | None:
    """The wording that a line mentions; `general` ones only if they are asked for."""
    event = table.in_line(text)
    hinted = general and event is not None and event.known.message.bearing is Bearing.HINT
    if event is not None and not (hinted or event.known.message.last or event.known.message.closing):
        return None  # it is an event wherever it stands, or is harmless
    quoted = _OF_SETTINGS.match(text) is not None or _OF_ADVICE.search(text) is not None
    match = table.in_exception(text) if not quoted else None
    if match is None or match.plain:
        return None
    message = match.known.message
    too_general = message.general and not general and match.known.message.kind != _FULL_DISK
    bearings = (Bearing.CAUSE, Bearing.SYMPTOM) if general else (Bearing.CAUSE,)
    told = message.bearing in bearings and not (too_general or message.last or message.lasting)
    return match if told else None


def _of_storage(raw: bytes) -> bool:
    small = raw.lower()
    return any(cue in small for cue in _STORAGE_CUES)
