"""What the last lines of a log say beside its events: causes that are only mentioned, errors that no wording knows.

And by rank: its last line, and how the launcher says that its process ended.
"""

import re
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from gpudoctor.model.log_message import Bearing
from gpudoctor.model.records import frozen
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.job_log import RankExit, RankWords
from gpudoctor.vitals.job_log.lines import (
    HEADER,
    OF_KERNEL,
    PrefixedLine,
    Prefixes,
    of_error_level,
    of_low_level,
    text_of,
    without_level,
)
from gpudoctor.vitals.job_log.progress import says_done, step_of
from gpudoctor.vitals.job_log.tracebacks import GOES_ON, frame_of, loose_exception, printed_exception
from gpudoctor.vitals.job_log.wordings import Match, Messages

# Causes that are mentioned, without an exception, before a death

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
Mention = tuple[Match, PrefixedLine, int]
"""A cause that a line mentions, and the line with its number."""


def mentions(
    pieces: Sequence[tuple[bytes, int]], lines_of: Callable[[str], Sequence[PrefixedLine]], table: Messages
) -> Iterator[Mention]:
    """The causes that lines before a death mention, the last one first; `pieces` end where the job dies."""
    trained: set[int | None] = set()
    behind: Counter[int | None] = Counter()
    for raw, number in reversed(pieces):
        if None in trained or behind.total() >= _LOOKED_AT:
            return
        whole = text_of(raw)
        for line in lines_of(whole):
            text = line.text
            of_code = not text.strip() or text[:1] in " \t" or HEADER in text or frame_of(text)
            if of_code or line.rank in trained or OF_KERNEL.search(whole[:120]):
                continue
            overcome = of_low_level(whole) or GOES_ON.search(text) is not None
            if step_of(text) is not None:
                trained.add(line.rank)
            elif (match := _cause(table, text)) is None:
                behind[line.rank] += 1
            elif not overcome or behind[line.rank] <= _BEHIND_LOW:
                yield match, line, number


def _cause(table: Messages, text: str) -> Match | None:
    """The wording of a cause that a line mentions; None for a line that is an event, or harmless, by itself."""
    event = table.in_line(text)
    if event is not None and not (event.known.message.last or event.known.message.closing):
        return None
    quoted = _OF_SETTINGS.match(text) is not None or _OF_ADVICE.search(text) is not None
    match = table.in_exception(text) if not quoted else None
    if match is None or match.plain:
        return None
    message = match.known.message
    told = message.bearing is Bearing.CAUSE and not (message.general or message.last or message.lasting)
    return match if told else None


# Errors that no wording knows

_FRAME = re.compile(r'^\s*File "[^"]{1,500}", line \d{1,8}')
_OF_TRACEBACK = 200
"""Lines of a traceback that the end of the log cuts."""
_NEAR_THE_END = 40
"""Lines with words, before the end, among which such an error is sought."""
_BEHIND = 3
"""Other lines behind it: a program that prints more of them went on."""
_APART = 4
"""Other lines between two errors of one end: the first of them counts."""
_LEVEL = re.compile(r"\[NeMo [EC] |^[EF]\d{4} \d\d:|\"level(?:name)?\": ?\"(?:error|fatal|critical)\"", re.IGNORECASE)
OF_LOW_LEVEL = re.compile(
    r"^[WID]\d{4} \d\d:|(?:^|\s)[WID] (?:tensorflow|external)/|\bwarn|\w{1,40}Warning: ", re.IGNORECASE
)
"""Lower levels, as glog, TensorFlow and others write them."""
_WARNED = re.compile(r"\S{1,300}\.py:\d{1,7}: (?!\w{0,80}(?:error|exception)\b)", re.IGNORECASE)
"""How Python prints a warning, with its category or, as Lightning does, without."""
_NAMED = re.compile(
    r"(?:^|[\s:>\]])(?:fatal|panic|error)(?: error)?: \S|"
    r"^\[?(?:error|fatal|panic|abort(?:ed|ing)?)\b(?![ _]?rate)|^thread '[^']{0,80}' (?:\(\d+\) )?panicked at ",
    re.IGNORECASE,
)
"""A line that calls itself an error."""
_SAID = re.compile(
    r"\b(?:failed to|unable to|could not|couldn't|cannot|can't|not permitted|no such|refused|denied|giving up|"
    r"unrecoverable|rejected|is not (?:an? )?(?:valid|supported|available|allowed|recognized))\b",
    re.IGNORECASE,
)
"""Words of errors, which ordinary lines have, too: they count in the last line only."""
_OF_MESSAGE = re.compile(
    r"(?:CUDA|HIP) kernel errors might be|For debugging consider passing |Compile with `TORCH_USE_|"
    r"Search for `\w"
)
"""How further lines of torch's message of a GPU's error begin."""
_MEASURE = re.compile(
    r"\b(?:errors?|fail(?:ed|ures?))\b[^:=]{0,30}[:=]\s*[\[(]?[-+]?(?:\d|nan\b|none\b|\])|"
    r"\b(?:0|no|zero|without) (?:errors?|failures?)\b",
    re.IGNORECASE,
)
"""An error that is measured or counted."""


def unknown_error(
    pieces: Sequence[tuple[bytes, int]],
    take_apart: Callable[[str], PrefixedLine],
    is_known: Callable[[str], bool],
    *,
    at_death: bool,
) -> tuple[int, str] | None:
    """The first of the errors at the end of these pieces: its line, and the line with its prefixes.

    `is_known` says whether a wording has a line. `at_death`: the pieces end where the job began to die.
    """
    found: tuple[int, str] | None = None
    others, apart, looked_at, behind = 0, _APART if at_death else _BEHIND, 0, ""
    for raw, number in reversed(pieces):
        whole = text_of(raw).strip()
        text = take_apart(whole).text.strip()
        if not text or _OF_MESSAGE.match(text):
            continue
        looked_at += 1
        if looked_at > _NEAR_THE_END or step_of(text) is not None or says_done(text):
            break
        went_on, behind = GOES_ON.search(behind) is not None, text
        weak = found is None and others == 0
        if not went_on and _says_error(whole, text, weak=weak) and not is_known(text):
            found, others, apart = (number, whole), 0, _APART
        else:
            others += 1
            if others > apart:
                break
    return found


def cut_traceback(
    pieces: Sequence[tuple[bytes, int]], take_apart: Callable[[str], PrefixedLine]
) -> tuple[int, str] | None:
    """The innermost frame of a traceback that the end of the log cuts: its line and text, prefixes included.

    Its header, if that is the last line. None if the log does not end with the lines of a frame.
    """
    frame: tuple[int, str] | None = None
    words_behind = False
    for looked_at, (raw, number) in enumerate(reversed(pieces[-_OF_TRACEBACK:])):
        whole = text_of(raw).rstrip()
        text = take_apart(whole).text
        if HEADER in text:
            return frame or (None if words_behind else (number, whole))
        if _FRAME.match(text):
            frame = frame or (number, whole)
        elif text[:1] not in (" ", "\t", "") or (frame is None and looked_at > _BEHIND):
            return None
        words_behind = words_behind or bool(text.strip())
    return None


def _says_error(whole: str, text: str, *, weak: bool) -> bool:
    if OF_KERNEL.search(whole[:120]):
        return False  # the kernel prints errors of all kinds, few of them of the job
    if (
        _WARNED.match(text)
        or of_low_level(whole)
        or OF_LOW_LEVEL.search(whole[:80])
        or _MEASURE.search(text)
        or GOES_ON.search(text)
    ):
        return False
    if loose_exception(text, PrefixedLine(text), 0) is not None:
        return False  # it is an event, or was judged to be none
    if of_error_level(whole) or _LEVEL.search(whole[:300]) or calls_itself_error(text):
        return True
    return weak and _SAID.search(text) is not None


def calls_itself_error(text: str) -> bool:
    """Whether a line, its prefixes taken off, has the level of an error, begins with its word, or is an exception."""
    named = of_error_level(text) or _NAMED.search(text[:200]) is not None
    return named or printed_exception(text, PrefixedLine(text), 0) is not None


# The end of each rank

_LONGEST_WORDS = 200
_SPEAKER = re.compile(r"(?i)\b(?:rank|worker|process|task|trainer|replica)[ _:#-]?(\d{1,5})\b")
"""A rank that a line names within its text, as programs of one's own write it."""
_OF_SPEAKER = 80
"""Characters at the beginning of a line in which such a name is that of the speaker."""
_OF_ALL = re.compile(r"\[(\d{1,5})/(\d{1,5})\]")
"""`[5/16]`: rank 5 of 16, where there are 16 ranks."""
_SAYS_NOTHING = re.compile(
    r"^\s*(?:srun|slurmstepd|mpirun|prterun):|"
    r"^\s*(?:File \"|Traceback|Exception ignored|[\^~|]+\s*$|$)|^\s{2,}\S"
)

_RANK_OF_SUMMARY = re.compile(
    r"^\s*(?:rank\s+: (?P<torchrun>\d{1,6}) \(local_rank: \d+\)|Process name: \[\[\d+,\d+\],(?P<mpirun>\d{1,6})\])"
)
_CODE_OF_SUMMARY = re.compile(r"^\s*(?:exitcode\s+: (?P<code>-?\d{1,4}) \(pid: \d+\)|Exit code:\s+(?P<exit>\d{1,3}))")
"""Two lines of one summary."""
_ELASTIC_ROOT = b"Root Cause (first observed failure)"
_SIGNALS = {
    "Killed": signal.SIGKILL,
    "Out Of Memory": signal.SIGKILL,
    "Terminated": signal.SIGTERM,
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL,
    "Floating point exception": signal.SIGFPE,
}
_ENDED = re.compile(
    r"process rank (?P<mpirun>\d{1,6}) with PID \S+ on node \S+ exited on signal (?P<signal>\d{1,3})|"
    r"\b[Pp]rocess (?P<spawn>\d{1,5}) terminated with "
    r"(?:signal (?P<name>SIG[A-Z]+)|exit code (?P<code>\d{1,3})|the following error)|"
    r"srun: error: (?P<node>[\w.-]+): tasks? (?P<srun>[\d,-]{1,400}): "
    rf"(?:Exited with exit code (?P<exit>\d{{1,3}})|(?P<words>{'|'.join(_SIGNALS)}))"
)
_OF_EXITS = (b"ank", b"xit", b"task", b"rocess", _ELASTIC_ROOT)


@frozen(kw_only=False)
class Tail:
    """The last lines of a file."""

    path: str
    rank: int | None
    """The one that its name says."""
    lines: Sequence[tuple[bytes, int]]
    """Each with its number."""
    prefixes: Prefixes


def last_words(tails: Iterable[Tail], world: int | None) -> tuple[RankWords, ...]:
    """The last line and the last step of each rank that some tail has lines of; `world`: how many there are."""
    found: dict[int, RankWords] = {}
    raising: set[int] = set()
    for tail in tails:
        for raw, number in tail.lines:
            line = tail.prefixes.lines(text_of(raw))[0][-1]
            ranks = (line.rank, tail.rank, _named(line.text, world))
            rank = next((each for each in ranks if each is not None), None)
            if rank is None:
                continue
            if HEADER in line.text:
                raising.add(rank)
            text = without_level(line.text).strip()
            step = step_of(text)
            if _SAYS_NOTHING.match(line.text) or (rank in raising and step is None and not line.stamp):
                continue
            raising.discard(rank)
            step = found[rank].step if step is None and rank in found else step
            words = mask_text(text[:_LONGEST_WORDS])
            found[rank] = RankWords(rank=rank, path=tail.path, line=number, text=words, step=step, stamp=line.stamp)
    return tuple(found[rank] for rank in sorted(found))


def _named(text: str, world: int | None) -> int | None:
    head = text[:_OF_SPEAKER]
    said = _SPEAKER.search(head)
    if said is not None:
        return int(said[1])
    counted = _OF_ALL.search(head) if world else None
    return int(counted[1]) if counted is not None and int(counted[2]) == world else None


def exits(tails: Iterable[Tail]) -> tuple[RankExit, ...]:
    """How ranks ended by the summaries of torchrun, srun, mpirun and `multiprocessing`, in their order.

    A task of srun is a rank, unless the task is a torchrun, which has a summary of its own.
    """
    found: list[RankExit] = []
    for tail in tails:
        own = list(_exits(tail))
        elastic = tail.prefixes.launchers or any(item.launcher == "torchrun" for item in own)
        found += [item for item in own if not (elastic and item.launcher == "srun")]
    return tuple(found)


def _exits(tail: Tail) -> Iterator[RankExit]:
    rank, launcher, node, first = "", "", "", False
    for raw, number in tail.lines:
        if not any(word in raw for word in _OF_EXITS):
            continue
        first = first or _ELASTIC_ROOT in raw
        text = tail.prefixes.lines(text_of(raw))[0][-1].text
        code = 0
        if named := _RANK_OF_SUMMARY.match(text):
            launcher = named.lastgroup or ""
            rank = named[launcher]
        elif rank and (ended := _CODE_OF_SUMMARY.match(text)):
            code = int(ended["code"] or ended["exit"])
        elif ended := _ENDED.search(text):
            launcher = next(name for name in ("mpirun", "spawn", "srun") if ended[name])
            rank, node = ended[launcher], ended["node"] or ""
            by = _SIGNALS.get(ended["words"] or "", getattr(signal, ended["name"] or "", 0))
            code = -int(ended["signal"] or by) or int(ended["code"] or ended["exit"] or 1)
        if code:
            for each in _listed(rank):
                yield RankExit(each, code, launcher, tail.path, number, first, node)
            rank = node = ""


def _listed(text: str) -> Iterator[int]:
    """The numbers of `1-3,7`."""
    for part in text.split(","):
        begin, _, end = part.partition("-")
        if begin.isdigit() and (end.isdigit() or not end):
            yield from range(int(begin), min(int(end or begin), int(begin) + 65_535) + 1)
