"""What the last lines of a log say beside its events: causes that are only mentioned, errors that no wording knows.

And by rank: its last line, and how the launcher says that its process ended.
"""

import re
import signal
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from gpudoctor.model.log_message import Bearing
from gpudoctor.model.records import frozen
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.job_log import RankExit, RankWords, UnknownError
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
_OF_TYPE = re.compile(r"[A-Z]\w{1,60}(?:Error|Exception): ")
"""The type of an exception, wherever it stands."""
Mention = tuple[Match, PrefixedLine, int]
"""A cause that a line mentions, and the line with its number."""

# Errors that no wording knows

_FRAME = re.compile(r'^\s*File "[^"]{1,500}", line \d{1,8}')
_LONGEST_ERROR = 600
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
_ELASTIC_ROOT = "Root Cause (first observed failure)"
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
    r"srun: error: [\w.-]+: tasks? (?P<srun>[\d,-]{1,400}): "
    rf"(?:Exited with exit code (?P<exit>\d{{1,3}})|(?P<words>{'|'.join(_SIGNALS)}))"
)
_OF_EXITS = (b"ank", b"xit", b"task", b"rocess", _ELASTIC_ROOT.encode())


# What they say


@frozen(kw_only=False)
class TailLine:
    """One of the last lines of a file."""

    number: int
    whole: str
    """With its prefixes."""
    lines: list[PrefixedLine]
    """Without them; a record may hold several."""

    @property
    def text(self) -> str:
        """Its words, or the last ones of a record."""
        return self.lines[-1].text

    @property
    def of_kernel(self) -> bool:
        """Whether the kernel printed it: errors of all kinds, few of them of the job."""
        return OF_KERNEL.search(self.whole[:120]) is not None


@frozen(kw_only=False)
class Tail:
    """The last lines of a file, each with its number, and what they say beside its events."""

    path: str
    rank: int | None
    """The one that its name says."""
    pieces: Sequence[tuple[bytes, int]]
    prefixes: Prefixes
    table: Messages

    def up_to(self, line: int) -> Sequence[tuple[bytes, int]]:
        """The pieces before a line; none before line 0."""
        return self.pieces[: bisect_left(self.pieces, line, key=lambda piece: piece[1])] if line else ()

    def read(self, pieces: Iterable[tuple[bytes, int]] | None = None) -> Iterator[TailLine]:
        """The lines of these pieces, else of all."""
        for raw, number in self.pieces if pieces is None else pieces:
            whole = text_of(raw)
            yield TailLine(number, whole, self.prefixes.lines(whole)[0])

    def mentions(self, pieces: Sequence[tuple[bytes, int]]) -> Iterator[Mention]:
        """The causes that lines before a death mention, the last one first; `pieces` end where the job dies."""
        trained: set[int | None] = set()
        behind: Counter[int | None] = Counter()
        for item in self.read(reversed(pieces)):
            if None in trained or behind.total() >= _LOOKED_AT:
                return
            for line in item.lines:
                text = line.text
                of_code = not text.strip() or text[:1] in " \t" or HEADER in text or frame_of(text)
                if of_code or line.rank in trained or item.of_kernel:
                    continue
                overcome = of_low_level(item.whole) or GOES_ON.search(text) is not None
                if step_of(text) is not None:
                    trained.add(line.rank)
                elif (match := _cause(self.table, text)) is None:
                    behind[line.rank] += 1
                elif not overcome or behind[line.rank] <= _BEHIND_LOW:
                    yield match, line, item.number

    def pasted(self) -> Mention | None:
        """The first cause in a few lines that somebody pasted: without its type, or in a sentence about it."""
        first = next((number for raw, number in self.pieces if raw.strip()), 0)
        for item, behind in zip_longest(self.read(), self.read(self.pieces[1:])):
            whole = item.whole
            if step_of(whole) is not None or says_done(whole) or item.of_kernel:
                return None
            goes_on = GOES_ON.search(f"{whole}\n{behind.whole if behind else ''}")
            if of_low_level(whole) or OF_LOW_LEVEL.search(whole[:300]) or goes_on:
                continue
            for line in item.lines:
                general = item.number == first or _OF_TYPE.search(line.text) is not None
                match = _cause(self.table, line.text, general=general)
                if match is not None and line.text[:1] not in " \t" and not line.text.startswith("#"):
                    return match, line, item.number
        return None

    def unknown_error(self, death: int) -> UnknownError | None:
        """The line that says why it ended where no wording does; before the line of a death, if there is one."""
        first = self._error(self.up_to(death), _APART)
        found = first or self._error(self.pieces, _BEHIND)
        cut = self._cut_traceback() if found is None else None
        if (found := found or cut) is None:
            return None
        line = found.lines[-1]
        return UnknownError(
            path=self.path,
            line=found.number,
            text=mask_text(line.text.strip()[:_LONGEST_ERROR]),
            rank=line.rank if line.rank is not None else self.rank,
            stamp=line.stamp,
            node=line.node,
            at_death=first is not None,
            cut=cut is not None,
        )

    def _error(self, pieces: Sequence[tuple[bytes, int]], apart: int) -> TailLine | None:
        """The first of the errors at the end of these pieces, which so many other lines may follow."""
        found: TailLine | None = None
        others, looked_at, behind = 0, 0, ""
        for item in self.read(reversed(pieces)):
            text = item.text.strip()
            if not text or _OF_MESSAGE.match(text):
                continue
            looked_at += 1
            if looked_at > _NEAR_THE_END or step_of(text) is not None or says_done(text):
                break
            went_on, behind = GOES_ON.search(behind) is not None, text
            weak = found is None and others == 0
            if not went_on and _says_error(item, text, weak=weak) and self.table.in_line(text) is None:
                found, others, apart = item, 0, _APART
            else:
                others += 1
                if others > apart:
                    break
        return found

    def _cut_traceback(self) -> TailLine | None:
        """The innermost frame of a traceback that the end of the log cuts, or its header, if that is the last line.

        None if the log does not end with the lines of a frame.
        """
        frame: TailLine | None = None
        words_behind = False
        for looked_at, item in enumerate(self.read(reversed(self.pieces[-_OF_TRACEBACK:]))):
            text = item.text
            if HEADER in text:
                return frame or (None if words_behind else item)
            if _FRAME.match(text):
                frame = frame or item
            elif text[:1] not in (" ", "\t", "") or (frame is None and looked_at > _BEHIND):
                return None
            words_behind = words_behind or bool(text.strip())
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
    bearings = (Bearing.CAUSE, Bearing.SYMPTOM) if general else (Bearing.CAUSE,)
    told = message.bearing in bearings and not ((message.general and not general) or message.last or message.lasting)
    return match if told else None


def _says_error(item: TailLine, text: str, *, weak: bool) -> bool:
    whole = item.whole.strip()
    if (
        item.of_kernel
        or _WARNED.match(text)
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


def last_words(tails: Iterable[Tail], world: int | None) -> tuple[RankWords, ...]:
    """The last line and the last step of each rank that some tail has lines of; `world`: how many there are."""
    found: dict[int, RankWords] = {}
    raising: set[int] = set()
    for tail in tails:
        for item in tail.read():
            line = item.lines[-1]
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
            found[rank] = RankWords(
                rank=rank, path=tail.path, line=item.number, text=words, step=step, stamp=line.stamp
            )
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
        elastic = any(item.launcher == "torchrun" for item in own)
        found += [item for item in own if not (elastic and item.launcher == "srun")]
    return tuple(found)


def _exits(tail: Tail) -> Iterator[RankExit]:
    rank, launcher, first = "", "", False
    for item in tail.read(piece for piece in tail.pieces if any(word in piece[0] for word in _OF_EXITS)):
        first = first or _ELASTIC_ROOT in item.whole
        text, code = item.text, 0
        if named := _RANK_OF_SUMMARY.match(text):
            launcher = named.lastgroup or ""
            rank = named[launcher]
        elif rank and (ended := _CODE_OF_SUMMARY.match(text)):
            code = int(ended["code"] or ended["exit"])
        elif ended := _ENDED.search(text):
            launcher = next(name for name in ("mpirun", "spawn", "srun") if ended[name])
            rank = ended[launcher]
            by = _SIGNALS.get(ended["words"] or "", getattr(signal, ended["name"] or "", 0))
            code = -int(ended["signal"] or by) or int(ended["code"] or ended["exit"] or 1)
        if code:
            for each in _listed(rank):
                yield RankExit(rank=each, code=code, launcher=launcher, path=tail.path, line=item.number, first=first)
            rank = ""


def _listed(text: str) -> Iterator[int]:
    """The numbers of `1-3,7`."""
    for part in text.split(","):
        begin, _, end = part.partition("-")
        if begin.isdigit() and (end.isdigit() or not end):
            yield from range(int(begin), min(int(end or begin), int(begin) + 65_535) + 1)
