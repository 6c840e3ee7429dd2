"""One pass over a job's logs: the lines that matter, apart from the millions that do not."""

import io
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import IO

from gpudoctor.analysis.job_log.consequences import PEER, UNHEEDED
from gpudoctor.analysis.job_log.handled import WENT_ON
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.log_message import PLAIN, Bearing, LogMessage
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.job_log import JobLog, LogEvent, LogFile, LogFrame, RankStack, UnknownError
from gpudoctor.model.unavailable import Unread
from gpudoctor.vitals.job_log.drafts import Drafts
from gpudoctor.vitals.job_log.envelopes import HEADER, Envelopes, ShippedRecord
from gpudoctor.vitals.job_log.events import event_of
from gpudoctor.vitals.job_log.last_words import ELASTIC_RANK, OWN_TAIL, TAIL, Tail, exits, last_words
from gpudoctor.vitals.job_log.line_filter import TRACEBACK, LineFilter, Worth
from gpudoctor.vitals.job_log.line_prefix import OF_KERNEL, PrefixedLine, of_error_level, of_low_level, plain
from gpudoctor.vitals.job_log.matching import Match, Messages, messages_table, skeleton
from gpudoctor.vitals.job_log.mentions import Mention, mentions, pasted
from gpudoctor.vitals.job_log.opening import STANDARD_INPUT, Block, blocks, lines_before, open_log, text_of
from gpudoctor.vitals.job_log.progress import (
    CUES,
    DONE_ALSO,
    DONE_CUES,
    WORLD_CUES,
    has_result,
    moment_of,
    says_done,
    step_of,
    surely_done,
    whole_step,
)
from gpudoctor.vitals.job_log.stack_dumps import StackDumps, with_ranks
from gpudoctor.vitals.job_log.tracebacks import (
    GOES_ON,
    Loose,
    Raised,
    Tracebacks,
    failed_assertion,
    frame_of,
    loose_exception,
    printed_exception,
)
from gpudoctor.vitals.job_log.unknown_errors import calls_itself_error, cut_traceback, unknown_error

_OTHER_RANK = re.compile(rb"(?<=[^\s:])(?=\[(?:default|rank)\d{1,6}\]:)")
"""Where another rank began to write within a line, behind a progress bar."""
_BEHIND_BAR = re.compile(
    rb"(?<=(?:it/s|s/it)\])(?=[^\s\]])|(?<=\])(?=[^\s\]]{1,200}: line \d{1,6}: +\d|slurmstepd: |srun: )|"
    rb"(?<= {12})(?=(?:WARNING|ERROR|CRITICAL|Traceback)\b)"
)
"""Between a bar and what another process wrote behind it; and lines that a terminal padded and joined."""
_MOST_DULL, _LONGEST_DULL = 20_000, 2_000
_UNKNOWN = LogMessage(kind=PLAIN, cue="", pattern="", text="")
"""What an exception is where no check answers for those that no wording knows."""
_LONGEST_EXCEPTION = 600
_UNCOMPILED = ("SyntaxError", "IndentationError", "TabError")
_OF_UNCOMPILED = 4
"""Lines before such an exception that show the place: file, code, marks, and what another process printed."""
_BEGINNING = 25
"""Lines at the beginning of a file, by which a second run in the same file is known."""
_SAME_BEGINNING = 4
"""Different ones of these that must come again behind a failure."""
_OPENING, _SHORTEST_OPENING = 3, 2
"""First lines of a file that, if they come again in a row, show that a job was appended."""
_OF_A_MACHINE = "Start of NVIDIA bug report log file"
"""How the record of a whole machine begins, which may be of weeks: nothing in it is surely of one job."""
_OF_USAGE = re.compile(r"usage: |\[?-{1,2}[a-zA-Z]")
"""What argparse prints before an error: each rank prints it, and none of them begins anew."""
_MOMENT = re.compile(r"\d{6}|\d\d:\d\d:\d\d")
_FOLLOWED = 300
"""Lines behind a failure that are read for signs that the training went on."""
_MOST_TAIL = 100_000
"""Last lines of all files together that are kept."""
_LONGEST_KEPT = 4096
_LONGEST_HEAD = 120
"""Characters at the beginning of a line in which a prefix is sought."""
_ABOVE = 3
"""Lines above a traceback, of which the last one with words introduces it."""
_BACK = 80
"""Lines before a failure among which its step is searched."""
_LOOK_EVERY = 2_000
"""Lines after which the step is searched where nothing else makes gpudoctor look."""
_OFTEN = 500
"""Lines that gave alike events, after which only the last one of `_LOOK_EVERY` lines is read whole."""
_BEFORE_UNHEEDED = (
    b"gnored in", b"xception in", b"xception on /", b"unexpected: ", b"<Task finished", b"--- Logging error",
)  # fmt: skip
"""What stands in the line before a traceback that ended nothing: such a line is read each time."""
_OF_THE_STEP = re.compile(r"slurmstepd(?:-\S{1,80})?: error: \*\*\* ")
"""How Slurm says that it ends a whole step or job."""
_REPORTED = "The output (if any) is above this job summary."
_REPORT_ABOVE = "The output (if any) follows:"
"""The end of LSF's report on a job, which stands behind the output, or above it."""
_OF_THE_SAME = 60
"""Lines within which an exception that comes again is of another thread's same traceback."""
_OF_PYTHON = ("FileNotFoundError", "PermissionError", "ImportError", "ModuleNotFoundError", "KeyboardInterrupt")
"""Exceptions that end nothing while the interpreter ends: its modules and files are closed already.

Another one, of the GPU or of a full disk, may be the first line of what ended the job.
"""
_LOW_LEVEL_OF_JSON = re.compile(r'(?i)"(?:level|levelname|log_level|severity)": ?"(?:warn|info|debug)')
_LOGGED_LAST = re.compile(
    r"(?:^|[\[\s|-])(?:ERROR|CRITICAL|FATAL)\]?[\s:|-]+(.*)|^(Error (?:instantiating|in call to target) .*)"
)
_OF_LAST_WORDS = 8
"""Last lines of a file in which a program that ends itself says why, in the words of an exception."""
_NEAR_FAILURE = 4
"""Lines behind an exception among which the program says so."""
_OF_SUMMARY, _OF_ERROR_FILE = re.compile(r"(?<!\s)\s{0,40}traceback\s{0,20}: Traceback"), 6
"""How the summary of torchrun begins a traceback, and the lines above it that belong to it."""
_OF_HYDRA = ("Error in call to target '", "Error locating target '")
"""What Hydra prints above an exception, as Python prints the object."""
_AHEAD = 64
"""Lines behind the header of a traceback among which its first frame is sought."""
_MOST_BODIES, _MOST_ALIKE = 1_000, 8
"""Tracebacks that others are compared with: of all, and of those that begin with the same frame."""
_MOST_FRAMES = 200
"""Lines of a traceback that is compared with earlier ones."""
_LINKS = (
    b"During handling of the above exception, another exception occurred:",
    b"The above exception was the direct cause of the following exception:",
)
_OF_LINK = 3
"""Lines between two tracebacks of a chain: one of these, and a blank one above and below."""
_OF_A_PROGRAM = re.compile(
    r"(?!wandb:|srun:|slurmstepd|Traceback|During handling|The above exception|\[(?:rank|default)|"
    r"(?:(?:Array )?Job ID|Cluster|User/Group|State|Nodes|Cores[ a-z]{0,20}|CPU \w+|Memory \w+|"
    r"(?:Job Wall-clock|Submit|Start|End|Elapsed) time) ?\s?:)"
    r"(?:\w|\{\"|\[\d{2,4}[-/:]\d\d)"
)
"""How an ordinary line begins: code of a traceback, frames, rulers and summaries do not."""
_SERVED = re.compile(
    r"^\[[DIW] (?:[\d-]{6,10} )?\d\d:\d\d:\d\d[.\d]* \w{1,40}App\] |"
    r"\"(?:GET|POST|PUT|PATCH|DELETE) /(?!metrics|health|ping)\S{0,2000} HTTP/[\d.]{1,3}\" 2\d\d\b"
)
"""What a server prints of a request that it answered, and Jupyter of all that it does."""
_SUCCEEDED = re.compile(
    r"worker group successfully finished|WorkerState\.SUCCEEDED|^Process finished with exit code 0$|"
    r"^=+ (?!.*\b(?:failed|errors?)\b)\d+ passed\b.* in [\d.:]+ ?s|\bCOMPLETED \(exit code 0\)|"
    r"^\S{1,100} {2,40}(?:Succeeded {2,40}\d{1,4}[smhd]|Complete {2,40}1/1\b)"
)
_SUCCEEDED_CUES = (
    b"successfully finished",
    b"workerstate.succeeded",
    b"with exit code 0",
    b" passed",
    b"completed (exit code 0)",
    b" succeeded ",
    b" complete ",
)
"""How a launcher says that the program ended well."""
_RAN_TESTS, _TESTS_OK = (
    re.compile(r"^Ran \d{1,6} tests? in [\d.]{1,20}s$"),
    re.compile(r"^OK(?: \([\w ,=]{1,80}\))?$"),
)
"""The last lines of unittest, if no test failed."""
_CONTAINER_ENDED = re.compile(r"^([\w.-]{1,80}) exited with code 0$")
_POD_SUCCEEDED = re.compile(rb"Status:\s{2,20}Succeeded\s*$")
_OF_POD = re.compile(rb"(?!Name:)[A-Z][\w -]{1,40}:")
"""How `kubectl describe` says that a pod ended well, and how its further lines without indent begin."""
_ATTEMPT = re.compile(
    r"(?i)^(?!.*(?:fail|error|timed? ?out|connect|download))"
    r"(\W{0,80}(?:re)?(?:attempt|start|try)(?: no\.?| number)?\W{0,3})(\d{1,3})\b"
)
"""How a script that starts a program again counts: `#### attempt 2`."""
_MOST_SHAPES_OF_ATTEMPTS = 8
_RULER = re.compile(r"^[#=*>~-]{2}")
_RESTARTED = re.compile(r"(?i)restart_count=[1-9]")
"""How torchrun says that it has started all workers again, and Slurm that it has queued the job again."""
_OF_WARNINGS = re.compile(r":\d{1,7}: \w*Warning: ")
"""How Python prints a warning, which may quote the traceback of what was caught."""
_OF_TORCH = re.compile(r"[DIVW]\d{4} [\d:.]{8,20} \d{1,8} torch/\S{1,200}\]")
"""What torch's own loggers put before each line of what they print, and no launcher of its children."""
_PASTED = 40
"""Lines of a text that somebody pasted: a log of a whole job has more."""
_CANNOT_WRITE = frozenset({"no-space", "quota", "writer"})
"""Kinds of a failure that a logger meets itself, as it writes the program's last words."""
_OF_A_QUEUE = ("_queue.Empty", "queue.Empty")
"""Raised by who waits for a message: in a chain, the other exception says what it means."""
_SHORTEST_RESTATED, _LONGEST_RESTATED = 15, 120
"""Characters of an exception's message that are known again in another line."""

_WORLD = re.compile(
    r"(?i)world[_ ]?size['\"]?\s*[:=]\s*(\d{1,6})|nranks (\d{1,6})|"
    r"distributed init \(rank \d+, world (\d{1,6})\)|GLOBAL_RANK: \d{1,6}, MEMBER: \d{1,6}/(\d{1,6})"
)
_FILE_RANK = re.compile(r"(?i)(?:^|[^a-z])(?:global_?)?(?:rank|task|worker|proc)[_.-]?(\d{1,5})(?!\d)")
_FOLDER_RANK = re.compile(r"[/\\](\d{1,5})[/\\](?:stderr|stdout)\.log")


def read_job_log(
    paths: Sequence[str],
    messages: Iterable[tuple[str, LogMessage]],
    starts: Mapping[str, int] = MappingProxyType({}),
    *,
    exit_code: int | None = None,
    contents: Mapping[str, bytes] = MappingProxyType({}),
) -> JobLog:
    """All logs of one job, by the wordings of every check. Raises `Unread` if none is readable.

    A file that cannot be read, or not to its end, is a problem and the rest goes on. `starts` holds the byte
    from which on a file is read, if it held other things before; lines are numbered from its beginning.
    `exit_code` is the one that the command gave, if it is known. `contents` holds the bytes of paths that are
    read already.
    """
    table = messages_table(tuple((code, item) for code, item in messages if not item.exits or exit_code in item.exits))
    files: list[LogFile] = []
    events: list[LogEvent] = []
    problems: list[str] = []
    stacks: list[RankStack] = []
    tails: list[Tail] = []
    unknown: list[UnknownError] = []
    state = _Job()
    for path in paths:
        shown = say("standard input") if path == STANDARD_INPUT else path
        reader = _FileReader(shown, table, state)
        damage, before = "", 0
        try:
            before = lines_before(path, starts.get(path, 0)) if path not in contents else 0
            with _opened(path, starts.get(path, 0), contents.get(path)) as stream:
                for block in blocks(stream):
                    reader.take(block)
        except OSError as error:
            damage = str(error.strerror or error)
        found = reader.finish()
        # A traceback is complete some lines later.
        found = sorted([*found, *reader.mentioned(found)], key=lambda item: item.line)
        if damage:
            read = say("; gpudoctor read {lines} lines of it", lines=reader.lines) if reader.lines else ""
            problems.append(say("{shown}: cannot be read: {damage}{read}", shown=shown, damage=damage, read=read))
        elif not reader.lines:
            problems.append(
                say("{shown}: is empty; if the job buffered its output, set PYTHONUNBUFFERED=1 next time", shown=shown)
            )
        if reader.lines:
            files.append(reader.file())
            events += [
                replace(item, line=item.line + before, last_line=item.last_line and item.last_line + before)
                for item in found
            ]
            stacks += reader.stacks()
            at_end = reader.unknown_error(found)
            known = reader.worded_as_exception(at_end) if at_end is not None else None
            known = known or reader.pasted(found)
            if known is not None:
                events.append(replace(known, line=known.line + before, last_line=known.line + before))
            elif at_end is not None:
                unknown.append(replace(at_end, line=at_end.line + before))
            tails.append(reader.tail(before, _MOST_TAIL // len(paths)))
    if not files:
        raise Unread(concatenated("; ", problems) or "no log was named")
    events = _last_of_shell(_ordered(events, len(files)))
    if all(item.bearing in (Bearing.HARMLESS, Bearing.HINT) for item in events):
        tails = []
    return JobLog(
        files=tuple(files),
        events=tuple(replace(item, order=number) for number, item in enumerate(events)),
        ranks=tuple(sorted(state.ranks)),
        world=state.world,
        last_step=state.last_step,
        finished=state.finished,
        stacks=with_ranks(stacks),
        last_words=last_words(tails, state.world or (max(state.ranks) + 1 if state.ranks else None)),
        exits=exits(tails),
        unknown_errors=() if state.finished else tuple(unknown),
        problems=tuple(problems),
    )


def _opened(path: str, start: int, data: bytes | None) -> AbstractContextManager[IO[bytes]]:
    return open_log(path, start) if data is None else io.BytesIO(data)


def _last_of_shell(events: list[LogEvent]) -> list[LogEvent]:
    """Of the lines by which a shell may have ended, the last one: the shell went on after the others."""
    last = max((at for at, item in enumerate(events) if item.by_exit_code), default=0)
    return [replace(item, earlier=True) if item.by_exit_code and at < last else item for at, item in enumerate(events)]


def _ordered(events: list[LogEvent], files: int) -> list[LogEvent]:
    """By time where several files all have times; else as they stand."""
    if files > 1 and events and all(item.seconds is not None for item in events if item.fatal):
        return sorted(events, key=lambda item: item.seconds if item.seconds is not None else 0.0)
    return events


@dataclass(slots=True)
class _Job:
    """What all files say together."""

    ranks: set[int] = field(default_factory=set)
    world: int | None = None
    last_step: int | None = None
    finished: bool = False


@dataclass(slots=True)
class _Outcome:
    """What lines of one key gave."""

    event: Hashable = None
    """What the event was, its text apart."""
    times: int = 0
    mixed: bool = False
    """Whether one gave nothing, or two gave different events."""
    left_out: int = 0
    """Lines that were counted and not read, since the last one that was."""

    settled: bool = False
    """Whether another such line would say nothing new."""

    def gave(self, event: LogEvent, *, own: bool) -> LogEvent:
        """Note an event; gives it with the count of those that were left out.

        One of another kind that is not of the lines themselves (`own`) came behind them, and is not theirs.
        """
        what = (event.code, event.kind, event.exception)
        if not own and self.event not in (None, what):
            return event
        self.mixed = self.mixed or self.event not in (None, what)
        self.event = what
        self.times += 1
        self.settled = self.times >= _OFTEN and not self.mixed
        left_out, self.left_out = self.left_out, 0
        return replace(event, count=event.count + left_out - 1) if left_out > 1 else event

    def gave_nothing(self) -> None:
        """Note that a line gave no event."""
        self.mixed, self.settled = True, False


@dataclass(frozen=True, slots=True)
class _Chain:
    """A key of chained tracebacks, digits apart; most often there is one."""

    bodies: tuple[tuple[bytes, ...], ...]
    """The lines of each up to its last frame."""
    header: int
    """The key of the first line."""
    ends: tuple[int, ...]
    """Those of the exceptions."""

    @property
    def behind(self) -> int:
        """Lines from the first one to the last exception, or some more."""
        return sum(map(len, self.bodies)) + (len(self.bodies) - 1) * (1 + _OF_LINK)


@dataclass(frozen=True, slots=True)
class _Body:
    """A traceback up to its last frame, digits apart."""

    lines: list[bytes]
    key: tuple[bytes, ...]
    """The same, to be a part of a key."""
    indented: bytes
    """How another line of it would begin."""


class _FileReader:
    """The place in one file."""

    def __init__(self, path: str, table: Messages, job: _Job) -> None:
        self._path, self._table, self._job = path, table, job
        self._filter = LineFilter(table)
        self._tracebacks = Tracebacks()
        self._envelopes = Envelopes()
        self._index = 0
        """The piece that is read, by its number in the file."""
        self._said, self._said_by = "", -1
        """The message of the last exception, and the number of its event."""
        self._raised_line = 0
        self._unheeded = ("", 0)
        """The last exception that ended nothing, and its line."""
        self._stacks = StackDumps(path)
        self._drafts = Drafts()
        self._follow = 0
        self._mark: tuple[float, int | None] | None = None
        """The last step or epoch, and its whole number."""
        self._bytes = 0
        self._rank = rank_of(path)
        self._own_ranks: set[int] = set()
        self._last_progress_line = 0
        self._done_line = 0
        """The line near the end at which the program says that its training is complete."""
        self._dull: set[bytes] = set()
        """Lines, digits apart, that are worth reading and gave nothing."""
        self._repeats: dict[bytes, int] = {}
        """Lines, digits apart, that only repeat an event: its number."""
        self._again: int | None = None
        """The event that the last line repeated."""
        self._changes = 0
        self._ordinary = 0
        """Lines behind a failure that are neither errors nor parts of a traceback."""
        self._beginning: set[str] = set()
        self._begun_again: set[str] = set()
        self._outcomes: dict[Hashable, _Outcome] = {}
        self._closed = False
        """Whether the next piece ended the message of an exception before it was read."""
        self._reading: _Outcome | None = None
        """Of the line worth reading that was read last."""
        self._reading_key: Hashable = None
        self._gave = False
        """Whether an event came since then."""
        self._of_reading: tuple[int, int] = (0, 0)
        """The lines of that piece, or of the traceback that begins there."""
        self._alike_read: set[int] = set()
        """Lines of its key that were read behind it while its exception was still open."""
        self._opening: list[str] = []
        self._moments: set[str] = set()
        """Lines of the beginning with a time: the same one again is a copy, and no second job."""
        self._reopened = 0
        """Lines of the opening that have come again in a row."""
        self._attempts: dict[str, int] = {}
        """Attempts that a script counted, by the words before the number."""
        self._reported = False
        """Whether the scheduler has reported the end of a job, and nothing has come since."""
        self._recent: tuple[list[bytes], list[int]] = ([], [])
        """The last pieces and their lines, and all since the first that was left out."""
        self._past: tuple[list[bytes], list[int]] = ([], [])
        """These and the pieces of the present block."""
        self._past_from = 0
        """The number in the file of the first of them."""
        self._looked_to = 0
        """Up to which piece a step was searched."""
        self._left_out: dict[Hashable, int] = {}
        """The last piece of each key that was left out, by its number in the file."""
        self._held: tuple[list[bytes], list[int], list[bytes]] = ([], [], [])
        """Pieces of a traceback whose end is still to come, their lines, and what `bare` leaves of them."""
        self._bodies: dict[bytes, list[_Body]] = {}
        """Tracebacks up to their last frame, by their first one: the last ones of each."""
        self._bodies_kept = 0
        self._taken = 0
        """Pieces so far."""
        self._tail: deque[tuple[list[bytes], list[int]]] = deque()
        """The last pieces of blocks, with their lines."""
        self._most_tail = OWN_TAIL if self._rank is not None else TAIL
        self._ended = False
        """Whether the file has no more pieces."""
        self._of_a_machine = False
        self.lines = 0

    # Blocks and pieces

    def take(self, block: Block) -> None:
        """The next pieces of the file: lines, and what carriage returns part them into."""
        pieces, numbers = block.pieces()
        if pieces:
            if not self.lines:
                self._follow = _BEGINNING
            self.lines = numbers[-1]
            self._bytes += block.size
            self._keep_tail(pieces, numbers)
            held_pieces, held_numbers, held_bares = self._held
            bares = block.bares(pieces)
            self._take(held_pieces + pieces, held_numbers + numbers, held_bares + bares, last=False)

    def _keep_tail(self, pieces: list[bytes], numbers: list[int]) -> None:
        last = pieces[-self._most_tail :]
        if max(map(len, last)) > _LONGEST_KEPT:
            last = [raw[:_LONGEST_KEPT] for raw in last]
        self._tail.append((last, numbers[-self._most_tail :]))
        behind = sum(len(block) for block, _ in self._tail) - len(self._tail[0][0])
        while behind >= self._most_tail:
            self._tail.popleft()
            behind -= len(self._tail[0][0])

    def _take(self, pieces: list[bytes], numbers: list[int], bares: list[bytes], *, last: bool) -> None:
        chosen, fresh, about_job = self._filter.chosen(pieces, bares)
        if about_job and (self._job.world is None or not self._job.finished):
            self._look_for_job(b"\n".join([pieces[index] for index in fresh]))
        self._past_from = self._taken - len(self._recent[0])
        self._past = (self._recent[0] + pieces, self._recent[1] + numbers)
        looks = set(range(-self._taken % _LOOK_EVERY, len(pieces), _LOOK_EVERY))
        at, end = 0, len(pieces)
        reads_all = self._reads_all
        outcomes, repeats, dull, left_out = self._outcomes, self._repeats, self._dull, self._left_out
        for index in sorted(looks.union(chosen)):
            worth = chosen.get(index)
            if index < at:
                continue
            if reads_all:
                self._read_on(self._taken + at, self._taken + index)
                reads_all = self._reads_all
            at = index
            if index in looks:
                self._catch_up(self._taken + index)
                self._before(self._taken + index)
                reads_all = self._reads_all
            if worth is None:
                continue
            line, length = bares[index], 1
            key: Hashable = worth.key
            if reads_all and self._ends_message(worth, index, bares, chosen):
                self._close_messages()
                reads_all = self._reads_all
            if not reads_all:
                if worth.traceback and TRACEBACK in line:
                    length, key = self._traceback_at(index, bares, chosen)
                    if index + length > len(pieces) and not last:
                        end = index
                        break
                known = not worth.by_digits and (line in dull or line in repeats)
                if known and self._is_known(line, numbers[index]):
                    at += 1
                    continue
                if self._settled(key):
                    outcomes[key].left_out += 1
                    left_out[key] = self._taken + index
                    at += length
                    continue
                self._catch_up(self._taken + index)
            self._read_one(self._taken + index, key, None if worth.by_digits else line)
            reads_all = self._reads_all
            at += 1
        self._read_on(self._taken + at, self._taken + end)
        self._held = (pieces[end:], numbers[end:], bares[end:])
        self._taken += end
        oldest = min(self._left_out.values(), default=self._taken)
        kept = slice(max(0, oldest - _BACK - self._past_from), self._taken - self._past_from)
        self._recent = (self._past[0][kept], self._past[1][kept])

    def _settled(self, key: Hashable) -> bool:
        """Whether a line, or a traceback, of a key would say nothing new."""
        outcome = self._outcomes.get(key) if key is not None else None
        return outcome is not None and outcome.settled

    def _ends_message(self, worth: Worth, index: int, bares: list[bytes], chosen: Mapping[int, Worth]) -> bool:
        """Whether a line ends the messages that are open: it is another exception, or says nothing new."""
        if self._follow > 0 or self._stacks.waiting or not self._tracebacks.only_messages:
            return False
        if worth.traceback and TRACEBACK in bares[index]:
            length, key = self._traceback_at(index, bares, chosen)
            if key is None or index + length > len(bares):
                return False
            if self._settled(key):
                return True
        elif worth.traceback:
            return False
        elif self._settled(worth.key):
            return True
        raw, _ = self._past_piece(self._taken + index)
        return self._tracebacks.ends_by(self._envelopes.take_apart(plain(text_of(raw))))

    def _close_messages(self) -> None:
        self._closed = True
        for chain in self._tracebacks.finish():
            self._chain(chain)

    def _traceback_at(self, index: int, bares: list[bytes], chosen: Mapping[int, Worth]) -> tuple[int, _Chain | None]:
        """How many pieces the chained tracebacks that begin at one have, and a key by which they are compared.

        The key is None for one that is not compared: it has no frames, or another process wrote between them.
        The number is larger than what is there, if the rest may come with the next block.
        """
        length, body = self._body_at(index, bares, chosen)
        if body is None:
            return length, None
        bodies, ends = [body], [chosen[index + length - 1].key]
        prefix = bares[index].partition(TRACEBACK)[0]
        while length < _MOST_FRAMES:
            link = _link_at(index + length, bares, prefix)
            if link is None:
                return len(bares) - index + 1, None
            more, body = self._body_at(index + length + link, bares, chosen) if link else (0, None)
            if body is None and index + length + link + more > len(bares):
                return len(bares) - index + 1, None
            if body is None:
                break
            length += link + more
            bodies.append(body)
            ends.append(chosen[index + length - 1].key)
        return length, _Chain(tuple(bodies), chosen[index].key, tuple(ends))

    def _body_at(
        self, index: int, bares: list[bytes], chosen: Mapping[int, Worth]
    ) -> tuple[int, tuple[bytes, ...] | None]:
        """How many pieces one traceback has that begins at one, and its lines up to its last frame."""
        first = bares[index + 1] if index + 1 < len(bares) else b""
        for body in self._bodies.get(first, ()):
            end = index + len(body.lines)
            if end < len(bares) and bares[index:end] == body.lines and not bares[end].startswith(body.indented):
                return (end - index + 1, body.key) if end in chosen else (1, None)
        indented = bares[index].partition(TRACEBACK)[0] + b"  "
        end = index + 1
        while end < len(bares) and end - index < _MOST_FRAMES and bares[end].startswith(indented):
            end += 1
        if end == len(bares):
            return end - index + 1, None
        if end == index + 1 or end not in chosen:
            return 1, None
        body = _Body(bares[index:end], tuple(bares[index:end]), indented)
        self._keep_body(first, body)
        return end - index + 1, body.key

    def _keep_body(self, first: bytes, body: _Body) -> None:
        """Keep a traceback to compare others with: the last ones of those that begin with a frame."""
        alike = self._bodies.get(first)
        if alike is None and len(self._bodies) < _MOST_BODIES:
            alike = self._bodies[first] = []
        if alike is None:
            return
        if len(alike) >= _MOST_ALIKE or self._bodies_kept >= _MOST_BODIES:
            self._bodies_kept -= bool(alike)
            del alike[-1:]
        self._bodies_kept += 1
        alike.insert(0, body)

    def _past_piece(self, index: int) -> tuple[bytes, int]:
        """A piece and its line, by its number in the file."""
        at = index - self._past_from
        return self._past[0][at], self._past[1][at]

    def _read_on(self, at: int, to: int) -> int:
        """Read pieces while a traceback is open or a failure is followed; gives where it ended."""
        while at < to and self._reads_all:
            raw, number = self._past_piece(at)
            self._index = at
            self._piece(raw, number, known=False)
            at += 1
        return at

    def _read_one(self, index: int, key: Hashable, line: bytes | None) -> None:
        """Read a piece that is worth reading; `line` is given for one that may be remembered."""
        raw, number = self._past_piece(index)
        self._index = index
        self._before(index)
        if index > self._past_from and TRACEBACK in raw and not self._reads_all:
            above, at = self._past_piece(index - 1)
            if any(words in above for words in _BEFORE_UNHEEDED):
                self._tracebacks.announced(self._envelopes.lines(plain(text_of(above)))[0][0], at)
        self._read_whole(raw, number, key, line)

    def _is_known(self, line: bytes, number: int) -> bool:
        """Whether a piece is like one that gave nothing, or like one that is counted already."""
        again = self._repeats.get(line)
        if again is None:
            return line in self._dull
        if self._drafts.repeat(again, number):
            return True
        del self._repeats[line]
        return False

    def _read_whole(self, raw: bytes, number: int, key: Hashable, line: bytes | None) -> None:
        """Read a piece, and remember what pieces of its key give."""
        quiet = not self._reads_all
        before = self._changes
        if quiet:
            if self._reading is not None and not self._gave:
                self._reading.gave_nothing()
            self._reading, self._gave = None, False
            if key is not None and (key in self._outcomes or len(self._outcomes) < _MOST_DULL):
                self._reading = self._outcomes.setdefault(key, _Outcome())
                self._reading_key = key
                self._of_reading = (number, number + (key.behind if isinstance(key, _Chain) else 0))
                self._alike_read.clear()
        elif key is not None and key == self._reading_key:
            self._alike_read.add(number)
        self._piece(raw, number, known=True)
        if (
            quiet
            and line is not None
            and not self._tracebacks.waiting
            and not any(words in raw for words in _BEFORE_UNHEEDED)
            and len(line) <= _LONGEST_DULL
            and len(self._dull) + len(self._repeats) < _MOST_DULL
        ):
            if before == self._changes:
                self._dull.add(line)
            elif before + 1 == self._changes and self._again is not None:
                self._repeats[line] = self._again

    def _catch_up(self, now: int) -> None:
        """Read the last piece of each key of which pieces were left out before now."""
        if not self._left_out or self._reads_all:
            return
        left_out = sorted((index, number) for number, index in enumerate(self._left_out.values()))
        keys = list(self._left_out)
        self._left_out.clear()
        at = 0
        for index, place in left_out:
            if index < at:
                continue
            self._before(index)
            raw, number = self._past_piece(index)
            self._read_whole(raw, number, keys[place], None)
            at = self._read_on(index + 1, now)

    @property
    def _reads_all(self) -> bool:
        """Whether pieces that are not worth it are read, too."""
        return self._tracebacks.waiting or self._stacks.waiting or self._follow > 0

    def _look_for_job(self, text: bytes) -> None:
        """Whether the training is complete, and how many ranks there are."""
        small = text.lower()
        if not self._job.finished:
            self._job.finished = any(map(says_done, _lines_with(DONE_CUES, text, small, DONE_ALSO)))
        if self._job.world is None:
            for line in _lines_with(WORLD_CUES, text, small):
                if found := _WORLD.search(line):
                    self._job.world = int(next(group for group in found.groups() if group))
                    return

    def _before(self, index: int) -> None:
        """Remember the last step printed before a piece."""
        begin = max(index - _BACK, self._looked_to, self._past_from)
        for at in range(index - 1, begin - 1, -1):
            piece, number = self._past_piece(at)
            small = piece.lower()
            if any(cue in small for cue in CUES):
                text, rank = self._told(piece)
                step = step_of(text)
                if step is not None:
                    self._progress(text, step, rank, number)
                    break
        self._looked_to = max(index, self._looked_to)

    def _piece(self, raw: bytes, number: int, *, known: bool) -> None:
        """One piece; `known` says that it is worth reading by itself."""
        for part in _parts(raw, known=known):
            text, changes = plain(text_of(part)), self._changes
            self._text(text, number, known=known)
            closed, self._closed = self._closed, False
            if self._changes == changes and not (self._tracebacks.took or closed):
                self._ordinary += bool(_OF_A_PROGRAM.match(text) or has_result(text))
            if self._follow > 0 and not self._tracebacks.took:
                self._look_behind_failure(text, number)
        if self._follow > 0:
            self._follow -= 1

    def _record(self, lines: Sequence[PrefixedLine], record: ShippedRecord, number: int, text: str) -> None:
        """The lines of one record, or of one line whose ends are escaped."""
        low = record.low or _LOW_LEVEL_OF_JSON.search(text) is not None or of_low_level(text)
        for line in lines:
            if line.text:
                if HEADER in line.text:
                    self._tracebacks.logged = "warning" if low else "error"
                self._chains(line, number)
        for chain in self._tracebacks.end(lines[0]):
            self._chain(chain)

    def _chains(self, line: PrefixedLine, number: int) -> None:
        for chain in self._tracebacks.take(line, number):
            self._chain(chain)

    def _above(self) -> str:
        """The line above."""
        at = self._index - self._past_from
        return self._envelopes.take_apart(plain(text_of(self._past[0][at - 1]))).text if at > 0 else ""

    def _rank_above(self) -> int | None:
        """The rank that the summary of torchrun names above the traceback of an error file."""
        at = self._index - self._past_from
        for raw in reversed(self._past[0][max(0, at - _OF_ERROR_FILE) : at]):
            if found := ELASTIC_RANK.match(self._envelopes.take_apart(plain(text_of(raw))).text):
                return int(found[1])
        return None

    def _logged_above(self, text: str) -> str:
        """How a logger printed the header of a traceback, or the line above it.

        A warning may be above the traceback of an exception that nobody caught, too.
        """
        own = text.partition(HEADER)[0]
        if of_low_level(own):
            return "" if self._level_on_each_line() and not _OF_TORCH.search(own) else "warning"
        above = ""
        for index in range(self._index - 1, max(self._past_from, self._index - _ABOVE) - 1, -1):
            above = plain(text_of(self._past_piece(index)[0][:_LONGEST_KEPT]))
            if above.strip():
                break
        if _OF_WARNINGS.search(above):
            return "warning"
        return "error" if any(of_low_level(line) or of_error_level(line) for line in (own, above)) else ""

    def _level_on_each_line(self) -> bool:
        """Whether the frame behind the header that is read has the level, too.

        Then it is of who passes on the output of a child process, and says nothing of the exception.
        """
        at = self._index + 1 - self._past_from
        if at >= len(self._past[0]):
            return False
        behind = plain(text_of(self._past[0][at][:_LONGEST_KEPT]))
        return ' File "' in behind and of_low_level(behind.partition(' File "')[0])

    def _look_behind_failure(self, text: str, number: int) -> None:
        """Whether a line shows that the process of a failure lives: a server answers, a handler speaks."""
        if ("HTTP/" in text or "App]" in text) and _SERVED.search(text):
            self._drafts.served(number)
        self._drafts.undone_by(text, number)
        if 0 < number - self._raised_line <= _NEAR_FAILURE and GOES_ON.search(text):
            self._drafts.goes_on(self._said_by)
        if of_low_level(text) or (text[:1] == "{" and _LOW_LEVEL_OF_JSON.search(text)):
            self._drafts.logged(number)
            if says_done(text):
                self._drafts.succeeded(number)
        if self._said and self._said in text:
            loose = loose_exception(self._envelopes.lines(text)[0][0].text)
            if loose is None or loose.quoted:
                self._drafts.restated(self._said_by)

    def _text(self, text: str, number: int, *, known: bool) -> None:
        if HEADER in text and not text.startswith(HEADER):
            begin = self._index + 1 - self._past_from
            following = (plain(text_of(raw)) for raw in self._past[0][begin : begin + _AHEAD])
            self._envelopes.learn(text, following, group=self._tracebacks.of_group)
        lines, record = self._envelopes.lines(text)
        if self._rank is not None:
            lines = [line if line.rank is not None else replace(line, rank=self._rank) for line in lines]
        self._own_ranks.update(line.rank for line in lines if line.rank is not None)
        if record is not None and len(lines) > 1 and any(HEADER in line.text for line in lines):
            self._record(lines, record, number, text)
            return
        for line in lines:
            self._line(line, text, number, known=known, record=record)

    def _line(self, line: PrefixedLine, text: str, number: int, *, known: bool, record: ShippedRecord | None) -> None:
        """One line; `text` is with all that stands round it, and may be of a record."""
        if self._stacks.take(line, number):
            self._changes += 1
            return  # the dumps of the ranks are alike: they are no second beginning
        self._of_a_machine = self._of_a_machine or (number <= _BEGINNING and _OF_A_MACHINE in text)
        alike = skeleton(line.text).strip() if number <= _BEGINNING or self._follow > 0 else ""
        if alike and (OF_KERNEL.search(text[:_LONGEST_HEAD]) or _OF_USAGE.match(alike)):
            alike = ""
        if number <= _BEGINNING and not self._drafts and not self._tracebacks.waiting:
            self._beginning.add(alike)
            if alike and len(self._opening) < _OPENING and not alike.startswith("Traceback"):
                self._opening.append(f"{line.rank} {alike}")
            self._moments.add(text if _MOMENT.search(text) else "")
        elif self._follow > 0 and alike and text not in self._moments:
            if alike in self._beginning:
                self._begun_again.add(alike)
            else:
                self._drafts.alive(number)
            at = self._reopened if self._reopened < len(self._opening) else 0
            self._reopened = at + 1 if self._opening and f"{line.rank} {alike}" == self._opening[at] else 0
            reopened = self._reopened >= max(len(self._opening), _SHORTEST_OPENING)
            reopened = reopened and len(set(self._opening)) > 1  # a counter of one's own goes on behind a failure
            if reopened or len(self._begun_again) >= _SAME_BEGINNING:
                self._restart(number)
        if ("restart_count=" in text or "SLURM_RESTART_COUNT=" in text) and _RESTARTED.search(text):
            self._restart(number)
        if (alike or number <= _BEGINNING) and self._next_attempt(line.text):
            self._restart(number)
        if self._reported and alike:  # another job of LSF writes into the file of the one before
            self._restart(number, surely=True)
        if line.text.startswith(_REPORT_ABOVE):
            self._drafts.reported()
        self._reported = line.text.startswith(_REPORTED) or (self._reported and not alike)
        if HEADER in text:
            if line.rank is None and _OF_SUMMARY.match(line.text):
                line = replace(line, rank=self._rank_above())
            self._tracebacks.logged = self._logged_above(text)
        self._chains(line, number)
        if self._follow > 0:
            told = record.whole or line.text if record is not None else line.text
            step = step_of(told)
            if step is not None:
                self._progress(told, step, line.rank, number)
                if not known:
                    return
        known = known or (self._follow > 0 and printed_exception(line.text) is not None)
        if (known or self._tracebacks.waiting) and not self._tracebacks.took:
            self._message(line, number, text)

    def _next_attempt(self, text: str) -> bool:
        """Whether a script that starts the program again counts one more attempt in a line."""
        found = _ATTEMPT.match(text)
        if found is None:
            return False
        name, number = found[1].lower(), int(found[2])
        before = self._attempts.get(name)
        if before is not None or len(self._attempts) < _MOST_SHAPES_OF_ATTEMPTS:
            self._attempts[name] = number
        return number == before + 1 if before is not None else number > 1 and _RULER.match(text) is not None

    # Events

    def _message(self, line: PrefixedLine, number: int, whole: str) -> None:
        """A line (`whole` with its prefixes) that has a known message, or an exception without traceback."""
        text = line.text.strip()
        if not text:
            return
        if "what():" in text:
            match = self._table.in_exception(text.partition("what():")[2].strip())
            if match is not None and not match.plain and match.known.message.bearing is Bearing.CAUSE:
                self._add(match, text, number, line)
                return
        frame: LogFrame | None = None
        loose: Loose | None
        if failed := failed_assertion(text):
            loose, frame = Loose(failed[0], ""), failed[1]
        elif self._follow > 0 and (printed := printed_exception(text)) and self._above().startswith(_OF_HYDRA):
            loose = printed
        else:
            loose = None if self._tracebacks.waits_for(line) else loose_exception(text)
        if loose is not None:
            harmless = self._table.in_line(text)
            if harmless is None or harmless.known.message.bearing is not Bearing.HARMLESS:
                frame = frame or self._uncompiled(loose.type, number)
                self._tracebacks.take_loose(line, number, loose, frame, warned=of_low_level(whole))
            return
        match = self._table.in_line(text)
        if match is not None:
            message = match.known.message
            if _OF_THE_STEP.match(text):  # one task prints it for all
                line = replace(line, rank=None)
            warned = message.general and message.bearing is Bearing.CAUSE and of_low_level(whole)
            self._add(match, text, number, line, warned=warned)

    def _uncompiled(self, exception: str, number: int) -> LogFrame | None:
        """The line of the program that does not compile: Python prints it without a traceback."""
        if exception not in _UNCOMPILED:
            return None
        pieces, numbers = self._past
        end = bisect_left(numbers, number)
        for raw in reversed(pieces[max(0, end - _OF_UNCOMPILED) : end]):
            if frame := frame_of(plain(text_of(raw))):
                return frame
        return None

    def _add(self, match: Match, text: str, number: int, line: PrefixedLine, *, warned: bool = False) -> None:
        self._keep(
            event_of(
                match.known.code,
                match.known.message,
                path=self._path,
                line=number,
                text=text,
                values=match.values,
                stamp=line.stamp,
                rank=line.rank,
                node=line.node,
                warned=warned,
            )
        )

    def _chain(self, chain: list[Raised]) -> None:
        """Exceptions of one traceback: the first of a known kind, else the first that wraps no other."""
        chain = [item for item in chain if item.text not in _OF_A_QUEUE] or chain
        matches = [(item, self._table.in_exception(_with_libraries(item, chain[-1]))) for item in chain]
        strong = [
            (item, match)
            for item, match in matches
            if match is not None and not match.plain and match.known.message.bearing in (Bearing.CAUSE, Bearing.SYMPTOM)
        ]
        plain_ones = [(item, match) for item, match in matches if match is None or match.plain]
        weak = [(item, match) for item, match in matches if match is not None]
        weak.sort(key=lambda found: found[1].known.message.kind == PEER)  # what ended by it says more
        raised, match = (strong or _telling(plain_ones) or weak)[0]
        other = chain[-1] if raised is not chain[-1] else chain[0]
        code, known = (match.known.code, match.known.message) if match is not None else ("", _UNKNOWN)
        event = event_of(
            code,
            known,
            path=self._path,
            line=raised.line,
            text=raised.text,
            values=match.values if match is not None else (),
            stamp=raised.stamp,
            rank=raised.rank,
            node=raised.node,
            longest=_LONGEST_EXCEPTION,
            exception=raised.type,
            frame=raised.frame or next((item.frame for item in reversed(chain) if item.frame), None),
            # It has ended its process, unless an actor printed it.
            lasting=False,
            last=False,
            of_script=chain[-1].of_script
            and not (raised.actor or raised.unheeded or raised.lost or raised.warned or raised.logged),
            linked=(other.line - raised.line, mask_text(other.text.partition("\n")[0][:_LONGEST_EXCEPTION]))
            if other.line != raised.line
            else None,
            actor=raised.actor,
            quoted=raised.quoted,
            before=mask_text(raised.before[:_LONGEST_RESTATED]),
            warned=raised.warned,
            logged=raised.logged,
            goes_on=GOES_ON.search(raised.before) is not None
            or ((raised.quoted or raised.frame is None) and GOES_ON.search(raised.text.partition("\n")[0]) is not None),
        )
        first = raised.text.partition("\n")[0]
        if raised.unheeded:
            self._unheeded = (first, raised.line)
        elif raised.frame is None and self._unheeded[0] == first:  # two threads wrote into each other
            raised.unheeded = raised.line - self._unheeded[1] <= _OF_THE_SAME
        of_end = raised.at_exit and raised.type in _OF_PYTHON
        if raised.lost and len(chain) > 1 and event.kind in _CANNOT_WRITE:  # it could not log why it ended
            event = replace(event, closing=True, doubtful=True)
        elif raised.lost or of_end or (raised.unheeded and (event.kind == PLAIN or event.bearing is Bearing.SYMPTOM)):
            if self._ended_a_thread_last(raised, known=event.kind != PLAIN):
                event = replace(event, doubtful=True)
            else:
                event = replace(event, bearing=Bearing.CONSEQUENCE, kind=UNHEEDED, fatal=False)
        said = first.partition(": ")[2].strip()
        self._said = "" if len(said) < _SHORTEST_RESTATED else said[:_LONGEST_RESTATED]
        self._said_by, self._raised_line = self._keep(event, in_step=not raised.evaluating), raised.line

    def _ended_a_thread_last(self, raised: Raised, *, known: bool) -> bool:
        """Whether a thread died, and the file has nothing else after it, nor a failure.

        The thread is one of the program, or its exception is `known`: a library's own says nothing else.
        """
        return (
            raised.thread
            and (raised.frame is not None or known)
            and self._ended
            and raised.line >= self._last_words_line
            and not (self._job.finished or self._drafts.failed)
        )

    def _keep(self, event: LogEvent, *, in_step: bool = True) -> int:
        """Keep an event, with the last step above it if it is of the training; gives its number."""
        if event.bearing is Bearing.HARMLESS:
            return -1
        self._changes += 1
        if self._reading is not None:
            self._gave = True
            begin, end = self._of_reading
            own = begin <= event.line <= end or event.line in self._alike_read
            event = self._reading.gave(event, own=own)
        step, whole = self._mark or (None, None)
        if whole is not None and in_step:
            event = replace(event, step=whole)
        if self._of_a_machine:
            event = replace(event, doubtful=True)
        number, new, follow = self._drafts.add(event, step, self._ordinary)
        self._again = None if new or event.exception else number
        if follow:
            self._follow = _FOLLOWED
        return number

    def _restart(self, number: int, *, surely: bool = False) -> None:
        """The program began again at a line: what failed before was not its end."""
        for chain in self._tracebacks.finish():
            self._chain(chain)
        self._begun_again.clear()
        self._reopened = 0
        self._drafts.begun_again(number, surely=surely)
        self._outcomes.clear()
        self._reading = None
        self._repeats.clear()
        self._mark = None

    def _progress(self, text: str, step: float, rank: int | None, number: int) -> None:
        whole, step = whole_step(text), moment_of(text, step)
        self._drafts.alive(number)
        self._last_progress_line = max(self._last_progress_line, number)
        before = self._mark[0] if self._mark else None
        if before != step:
            self._mark = (step, whole)
        if whole is not None:
            self._job.last_step = max(whole, self._job.last_step or 0)
        if before is None:
            return
        self._drafts.progress(step, rank, number)

    def finish(self) -> list[LogEvent]:
        """The events of the file."""
        if self._held[0]:
            self._take(*self._held, last=True)
        self._catch_up(self._taken)
        self._before(self._taken)
        self._ended = True
        for chain in self._tracebacks.finish():
            self._chain(chain)
        self._look_at_end()
        if not (self._drafts.failed or self._job.finished):
            self._look_at_last_words()
        self._job.ranks |= self._own_ranks
        return list(self._drafts.finished(self.lines, self._ordinary))

    def _look_at_end(self) -> None:
        """Count the steps at the end of the file: what trains on there has survived what failed far above."""
        tested, of_good_pod = False, 0
        behind: set[float] = set()
        late = 1
        for raw, number in self._last_pieces(self._most_tail) if self._drafts else ():
            small = raw.lower()
            if raw[:1].isalpha():  # a line of the program ends the description, and the name of the next pod
                of_good_pod = of_good_pod if _OF_POD.match(raw) else 0
                of_good_pod = number if _POD_SUCCEEDED.match(raw) else of_good_pod
            elif of_good_pod:
                self._drafts.of_good_pod(number)
            if tested or small.startswith(b"ran "):
                text = plain(text_of(raw)).strip()
                if tested and _TESTS_OK.match(text):
                    self._drafts.succeeded(number)
                tested = (tested and not text) or _RAN_TESTS.match(text) is not None
            ended = b"exited with code 0" in small and _CONTAINER_ENDED.match(plain(text_of(raw)).strip())
            if ended and self._job.finished:
                self._drafts.ended_well(ended[1], number)
            if any(cue in small for cue in CUES):
                text, rank = self._told(raw)
                step = step_of(text)
                if step is not None:
                    self._drafts.alive(number)
                    behind.add(moment_of(text, step))
                    self._drafts.progress(moment_of(text, step), rank, number)
                    self._done_line = self._done_line if len(behind) < late else 0
            if any(cue in small for cue in DONE_CUES) and says_done(text_of(raw)):
                surely = surely_done(text_of(raw))
                self._drafts.alive(number)
                self._done_line, late = number, WENT_ON if surely else 1  # other ranks' last steps come behind
                behind.clear()
                self._drafts.done(number, surely=surely)
            if b"http/" in small or b"app]" in small:
                if _SERVED.search(plain(text_of(raw))):
                    self._drafts.served(number)
            elif any(cue in small for cue in _SUCCEEDED_CUES) and _SUCCEEDED.search(
                self._envelopes.take_apart(plain(text_of(raw))).text.strip()
            ):
                self._drafts.succeeded(number)

    def _look_at_last_words(self) -> None:
        """What the program's logger printed as an error at the very end."""
        last = [piece for piece in self._last_pieces(OWN_TAIL) if piece[0].strip()][-_OF_LAST_WORDS:]
        for raw, number in reversed(last):
            text = plain(text_of(raw)).strip()
            found = _LOGGED_LAST.search(text)
            said = (found[1] or found[2]) if found is not None else _object_of(text)
            if not said or (number != last[-1][1] and not (found and found[2])):
                continue
            match = self._table.in_exception(said)
            if match is not None and not match.plain and match.known.message.bearing is Bearing.CAUSE:
                self._add(match, text, number, self._envelopes.take_apart(text))
            return

    def _told(self, raw: bytes) -> tuple[str, int | None]:
        """What a piece says of progress, and of which rank."""
        text = plain(text_of(raw)).strip()
        lines, record = self._envelopes.lines(text)
        return (record.whole or text) if record is not None else text, lines[0].rank

    def unknown_error(self, events: Iterable[LogEvent]) -> UnknownError | None:
        """The line that says why it ended where no wording does; None in a file that names a failure.

        `events` are those of the file. Where they begin to show a death, the line is sought before it.
        """
        if self._drafts.failed:
            return None
        pieces = self._last_pieces(self._most_tail)
        death = min(
            (
                item.line
                for item in events
                if item.bearing is Bearing.CONSEQUENCE and item.kind != UNHEEDED and not item.earlier
            ),
            default=0,
        )
        before = pieces[: bisect_left(pieces, death, key=lambda piece: piece[1])] if death else []
        apart = self._envelopes.take_apart
        first = unknown_error(before, apart, self._is_worded, at_death=True)
        found = first or unknown_error(pieces, apart, self._is_worded, at_death=False)
        cut = cut_traceback(pieces, apart) if found is None else None
        found = found or cut
        if found is None:
            return None
        line = self._envelopes.lines(found[1])[0][-1]
        rank = line.rank if line.rank is not None else self._rank
        text = mask_text(line.text.strip()[:_LONGEST_EXCEPTION])
        return UnknownError(
            path=self._path,
            line=found[0],
            text=text,
            rank=rank,
            stamp=line.stamp,
            node=line.node,
            at_death=first is not None,
            cut=cut is not None,
        )

    def mentioned(self, events: Sequence[LogEvent]) -> Iterator[LogEvent]:
        """Causes that the program mentions in its own words before it dies; `events` are those of the file.

        A rank may leave without an error: in a file of its own the end counts, too.
        """
        end = self.lines + 1 if self._rank is not None and not self._job.finished else 0
        death = min((item.line for item in events if _shows_death(item)), default=end)
        if not death:
            return
        known = {number for item in events if not (item.last or item.closing) for number in (item.line, item.last_line)}
        pieces = self._last_pieces(self._most_tail)
        before = pieces[: bisect_left(pieces, death, key=lambda piece: piece[1])]
        begin = self._drafts.run_begins
        before = [piece for piece in before if piece[1] >= begin and piece[1] not in known]
        for item in mentions(before, lambda text: self._envelopes.lines(text)[0], self._table):
            event = self._event_of_mention(item)
            yield replace(event, fatal=False, mentioned=True, progress=item.trained, step=item.step)

    def pasted(self, events: Sequence[LogEvent]) -> LogEvent | None:
        """What the few lines of a whole file say of a failure, if nothing else in it is an event or a step."""
        if self.lines > _PASTED or self._last_progress_line or self._drafts.failed or self._job.finished:
            return None
        if any(item.bearing not in (Bearing.HARMLESS, Bearing.HINT) for item in events):
            return None
        found = pasted(self._last_pieces(self._most_tail), lambda text: self._envelopes.lines(text)[0], self._table)
        return self._event_of_mention(found) if found is not None else None

    def _event_of_mention(self, item: Mention) -> LogEvent:
        return self._doubtful(item.match, item.line.text.strip(), item.number, item.line)

    def worded_as_exception(self, error: UnknownError) -> LogEvent | None:
        """The event of an error at the end whose words are those of an exception that some wording knows."""
        own = not error.cut and calls_itself_error(error.text)
        match = self._table.in_exception(error.text) if own else None
        if match is None or match.plain or match.known.message.bearing not in (Bearing.CAUSE, Bearing.SYMPTOM):
            return None
        return self._doubtful(match, error.text, error.line, error)

    def _doubtful(self, match: Match, text: str, number: int, of: PrefixedLine | UnknownError) -> LogEvent:
        """The event of words that only sound like what a wording knows."""
        return event_of(
            match.known.code,
            match.known.message,
            path=self._path,
            line=number,
            text=text,
            values=match.values,
            stamp=of.stamp,
            rank=of.rank if of.rank is not None else self._rank,
            node=of.node,
            doubtful=True,
        )

    def _is_worded(self, text: str) -> bool:
        return self._table.in_line(text) is not None

    @property
    def _last_words_line(self) -> int:
        """The last line that is not blank."""
        return next((number for raw, number in reversed(self._last_pieces(OWN_TAIL)) if raw.strip()), 0)

    def _last_pieces(self, most: int) -> list[tuple[bytes, int]]:
        return [piece for block in self._tail for piece in zip(*block, strict=True)][-most:]

    def tail(self, before: int, most: int) -> Tail:
        """Its last lines, at most so many; `before`: lines of the file that were not read."""
        kept = self._last_pieces(min(max(most, OWN_TAIL // 2), self._most_tail))
        return Tail(self._path, self._rank, [(raw, number + before) for raw, number in kept], self._envelopes)

    def stacks(self) -> list[RankStack]:
        """Where its ranks stood; nothing where they trained on after the last dump."""
        return self._stacks.stacks() if self._last_progress_line <= self._stacks.last_line else []

    def file(self) -> LogFile:
        """The file itself."""
        last = next((piece for piece in reversed(self._last_pieces(OWN_TAIL)) if piece[0].strip()), (b"", 0))
        text = self._envelopes.lines(plain(text_of(last[0])))[0][-1].text.strip()
        behind = last[1] > self._last_progress_line and step_of(text) is None
        return LogFile(
            path=self._path,
            lines=self.lines,
            bytes=self._bytes,
            ends_in_progress=self._last_progress_line > 0
            and self.lines <= self._last_progress_line + 2
            and self._done_line < self._last_progress_line,
            done_line=self._done_line,
            behind_steps=mask_text(text[:_LONGEST_RESTATED]) if behind else "",
        )


def _link_at(at: int, bares: list[bytes], prefix: bytes) -> int | None:
    """How many pieces link a traceback with the next; 0 if it is the last, None if that is still to come."""
    place, linked = at, False
    while place < len(bares) and place - at < _OF_LINK:
        words = bares[place].removeprefix(prefix).strip()
        if words and (linked or words not in _LINKS):
            break
        linked = linked or bool(words)
        place += 1
    if place == len(bares):
        return None
    return place - at if linked and bares[place].startswith(prefix + TRACEBACK) else 0


def _shows_death(event: LogEvent) -> bool:
    """Whether a process of the job died with an event, as far as the event itself shows it."""
    if event.earlier or event.succeeded or event.progress >= WENT_ON:
        return False
    if event.bearing is Bearing.CONSEQUENCE:
        return event.kind != UNHEEDED
    return event.fatal and not (event.quoted or event.warned or event.goes_on or event.last)


def _object_of(text: str) -> str:
    """The exception that a line holds as Python prints the object; "" for another one."""
    printed = printed_exception(text)
    return f"{printed.type}: {printed.message}" if printed is not None else ""


def _parts(raw: bytes, *, known: bool) -> list[bytes]:
    """What several processes wrote into one line; `known` says that it is worth reading by itself."""
    parts = _OTHER_RANK.split(raw) if b"rank" in raw or b"[default" in raw else [raw]
    if known and b"]" in raw:
        parts = [part for piece in parts for part in _BEHIND_BAR.split(piece)]
    return parts


def _lines_with(cues: Iterable[bytes], text: bytes, small: bytes, also: Sequence[bytes] = (b"",)) -> Iterator[str]:
    """Lines of a text that hold a cue and one of the others; `small` is the text in small letters."""
    if not any(other in small for other in also):
        return
    for cue in cues:
        at = small.find(cue)
        while at >= 0:
            begin, end = small.rfind(b"\n", 0, at) + 1, small.find(b"\n", at)
            end = end if end >= 0 else len(small)
            if any(small.find(other, begin, end) >= 0 for other in also):
                yield text_of(text[begin:end])
            at = small.find(cue, end)


def _telling(chain: Sequence[tuple[Raised, Match | None]]) -> Sequence[tuple[Raised, Match | None]]:
    """Exceptions of a chain that no wording knows, the one that says more first.

    It is the inner one, unless somebody raised the outer one to say what an accident of Python means. A library
    that only wraps what the program raised does not know.
    """
    if not chain:
        return chain
    inner, outer = chain[0][0], chain[-1][0]
    wraps = outer.of_library and not inner.of_library
    return chain[::-1] if outer.by_hand and not (inner.by_hand or wraps) else chain


def _with_libraries(raised: Raised, last: Raised) -> str:
    """The exception's text, and behind it the files that it came through: some wordings need both.

    Who handled it, and raised the last one of its traceback, stands before these.
    """
    files = dict.fromkeys((*(last.libraries if last is not raised else ()), *raised.libraries))
    for name in raised.libraries[-1:]:  # the innermost one last
        files[name] = files.pop(name)
    return f"{raised.text[:3000]}\nin {' '.join(files)}" if files else raised.text


def rank_of(path: str) -> int | None:
    """The rank that a file's name or folder says."""
    found = _FOLDER_RANK.search(path) or _FILE_RANK.search(path.replace("\\", "/").rpartition("/")[2])
    return int(found[1]) if found else None
