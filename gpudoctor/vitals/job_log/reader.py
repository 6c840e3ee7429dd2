"""One pass over a job's logs: the lines that matter, apart from the millions that do not."""

import io
import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from gpudoctor.analysis.job_log.consequences import OF_A_DEATH, PEER, UNHEEDED
from gpudoctor.analysis.job_log.overcome import WENT_ON
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.log_message import PLAIN, Bearing, LogMessage
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.job_log import JobLog, LogEvent, LogFile, UnknownError
from gpudoctor.model.unavailable import Unread
from gpudoctor.vitals.job_log.endings import Tail, cut_traceback, exits, last_words, mentions, unknown_error
from gpudoctor.vitals.job_log.events import event_of
from gpudoctor.vitals.job_log.lines import (
    HEADER,
    OF_KERNEL,
    STANDARD_INPUT,
    Block,
    PrefixedLine,
    Prefixes,
    blocks,
    lines_before,
    of_error_level,
    of_low_level,
    open_log,
    rank_of,
    text_of,
)
from gpudoctor.vitals.job_log.progress import moment_of, step_of, surely_done, whole_step
from gpudoctor.vitals.job_log.tracebacks import GOES_ON, LOST, OF_THREAD, Raised, Tracebacks, loose_exception
from gpudoctor.vitals.job_log.wordings import WORLD, Match, Messages, Shape, bare, messages_table, skeleton

_PARTS = re.compile(
    rb"(?<=[^\s:])(?=\[(?:default|rank)\d{1,6}\]:)|(?<=(?:it/s|s/it)\])(?=[^\s\]])|"
    rb"(?<=\])(?=[^\s\]]{1,200}: line \d{1,6}: +\d|slurmstepd: |srun: )|"
    rb"(?<= {12})(?=(?:WARNING|ERROR|CRITICAL|Traceback)\b)"
)
"""Where another process began to write within a line, as behind a bar."""
_UNKNOWN = LogMessage(kind=PLAIN, cue="", pattern="", text="")
"""What an exception is where no check answers for those that no wording knows."""
_LONGEST_EXCEPTION, _LONGEST_BEFORE, _LONGEST_KEPT = 600, 120, 4096
_OFTEN, _ONE_OF, _IDLE = 200, 16, 30
"""Alike lines in the midst of a log after which one of so many is read; those that gave nothing and are left out."""
_READ_WHOLE = 2_000
"""Last lines of which all are read."""
_BEGINNING, _SAME_BEGINNING, _OPENING, _SHORTEST_OPENING = 25, 4, 3, 2
"""Lines at the beginning of a file of which, behind a failure, so many different ones show a second run.

Or the first ones in a row.
"""
_FOLLOWED = 300
"""Lines behind a failure in which a second beginning is sought."""
_MOST_STEPS, _LAST = 20_000, 200
"""Lines with a step behind a failure that are read; the last events for which they count."""
_MOST_EVENTS, _MOST_ALIKE, _HABIT = 20_000, 50, 10
"""Different events; those of one kind, type and rank; times that the training went on after one kind."""
_TAIL, _OWN_TAIL, _MOST_TAIL = 3_000, 200, 100_000
"""Last lines that are kept of a file, of one of a single rank, and of all together."""
_OF_USAGE = re.compile(rb"usage: |\[?-{1,2}[a-zA-Z]")
"""What argparse prints before an error: each rank prints it, and none of them begins anew."""
_MOMENT = re.compile(rb"\d{6}|\d\d:\d\d:\d\d")
_OF_THE_STEP = re.compile(r"slurmstepd(?:-\S{1,80})?: error: \*\*\* ")
"""How Slurm says that it ends a whole step or job."""
_OF_PYTHON = ("FileNotFoundError", "PermissionError", "ImportError", "ModuleNotFoundError", "KeyboardInterrupt")
"""Exceptions that end nothing while the interpreter ends: its modules and files are closed already."""
_ATTEMPT = re.compile(
    r"(?i)^(?!.*(?:fail|error|timed? ?out|connect|download))"
    r"(\W{0,80}(?:re)?(?:attempt|start|try)(?: no\.?| number)?\W{0,3})(\d{1,3})\b"
)
"""How a script that starts a program again counts: `#### attempt 2`."""
_RULER = re.compile(r"^[#=*>~-]{2}")
_RESTARTED = re.compile(r"(?i)restart_count=[1-9]")
"""How torchrun says that it has started all workers again, and Slurm that it has queued the job again."""
_OF_WARNINGS = re.compile(r":\d{1,7}: \w*Warning: ")
_OF_TORCH = re.compile(r"[DIVW]\d{4} [\d:.]{8,20} \d{1,8} torch/\S{1,200}\]")
"""What torch's own loggers put before each line of what they print, and no launcher of its children."""
_POD = re.compile(r"Status:\s{2,20}(\w+)\s*$")
"""How `kubectl describe` says how a pod is: what it tells of earlier states of a good one is overcome."""
_AHEAD = 64
"""Lines behind the header of a traceback among which its first frame is sought."""
_NEAR_FAILURE = 4
"""Lines behind an exception among which the program says that it goes on."""
_OF_A_QUEUE = ("_queue.Empty", "queue.Empty")
"""Raised by who waits for a message: in a chain, the other exception says what it means."""
_LASTS, _SHORT, _NEAR_END = 3, 10, 12
"""Times that a lasting condition must have come, unless a few lines were pasted; lines that count as the end."""


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
    tails: list[Tail] = []
    unknown: list[UnknownError] = []
    job = _Job()
    for path in paths:
        shown = say("standard input") if path == STANDARD_INPUT else path
        reader = _FileReader(shown, table, job, _MOST_TAIL // len(paths))
        damage, before, data = "", 0, contents.get(path)
        try:
            before = lines_before(path, starts.get(path, 0)) if data is None else 0
            with open_log(path, starts.get(path, 0)) if data is None else io.BytesIO(data) as stream:
                reader.read(blocks(stream))
        except OSError as failed:
            damage = str(failed.strerror or failed)
        found = reader.finish()
        if damage:
            read = say("; gpudoctor read {lines} lines of it", lines=reader.lines) if reader.lines else ""
            problems.append(say("{shown}: cannot be read: {damage}{read}", shown=shown, damage=damage, read=read))
        elif not reader.lines:
            problems.append(
                say("{shown}: is empty; if the job buffered its output, set PYTHONUNBUFFERED=1 next time", shown=shown)
            )
        if reader.lines:
            files.append(reader.file())
            error = reader.unknown_error(found)
            if error is not None:
                unknown.append(replace(error, line=error.line + before))
            for item in found:
                item.line, item.last_line = item.line + before, item.last_line + before
            events += found
            tails.append(reader.tail(before))
    if not files:
        raise Unread(concatenated("; ", problems) or "no log was named")
    if len(files) > 1 and all(item.seconds is not None for item in events if item.fatal):
        events.sort(key=lambda item: item.seconds or 0.0)
    ends = [item for item in events if item.by_exit_code]
    for item in ends[:-1]:  # the shell went on after all but the last
        item.earlier = True
    for order, item in enumerate(events):
        item.order = order
    if all(item.bearing in (Bearing.HARMLESS, Bearing.HINT) for item in events):
        tails = []
    return JobLog(
        files=tuple(files),
        events=tuple(events),
        ranks=tuple(sorted(job.ranks)),
        world=job.world,
        last_step=job.last_step,
        finished=job.finished,
        last_words=last_words(tails, job.world or (max(job.ranks) + 1 if job.ranks else None)),
        exits=exits(tails),
        unknown_errors=() if job.finished else tuple(unknown),
        problems=tuple(problems),
    )


@dataclass(slots=True)
class _Job:
    """What all files say together."""

    ranks: set[int] = field(default_factory=set)
    world: int | None = None
    last_step: int | None = None
    finished: bool = False


class _Events:
    """Events in the order of their lines; alike ones are counted until the training went on after them."""

    def __init__(self) -> None:
        self.all: list[LogEvent] = []
        self.ordinary = self.low = self.served = 0
        """Lines of a program that goes on, of a low level, and of a server; an event holds them as it came last."""
        self.run_begins = 1
        self._same: dict[Hashable, LogEvent] = {}
        self._texts: Counter[Hashable] = Counter()
        self._survived: Counter[Hashable] = Counter()
        """Failures after which the training went on, by what they have in common."""
        self._in_doubt: list[LogEvent] = []
        """Exceptions of the run before one that seems to begin, until it shows something of its own."""
        self._begins_again = 0

    def add(self, event: LogEvent) -> LogEvent:
        """Keep an event; gives the one that counts it."""
        if event.fatal and not (event.lasting or event.last):
            self.alive(event.line)
        alike = alike_of(event)
        key: Hashable = (event.code, event.kind, event.rank, "")
        if event.bearing is Bearing.CAUSE:
            key = (event.code, event.kind, event.rank, skeleton(event.text[:120]))
            self._texts[alike] += key not in self._same
            key = alike if self._texts[alike] > _MOST_ALIKE else key
        old = self._same.get(key)
        kept = event
        if old is not None and not overcome(old) and not (self._survived[alike] >= _HABIT and old.seen):
            kept = old
            kept.count += event.count
            kept.last_line = max(event.line, old.last_line)
            kept.succeeded = event.succeeded
            for name in ("quoted", "warned", "logged", "goes_on"):
                setattr(kept, name, getattr(kept, name) and getattr(event, name))
        else:
            self._survived[alike] += old is not None
            if old is not None and self._survived[alike] > _HABIT:  # of a habit, one counts them all
                self.all.remove(old)
                event.count += old.count - 1
            if len(self.all) >= _MOST_EVENTS:
                self.all = [item for item in self.all if not overcome(item)][-_MOST_EVENTS + 1 :]
            self._same[key] = event
            self.all.append(event)
        kept.followed, kept.low_behind, kept.served = self.ordinary, self.low, self.served
        return kept

    def begun_again(self, line: int) -> None:
        """The program began again at a line: what failed before was not its end."""
        self._begins_again = self._begins_again or line
        for item in self.all:
            if not item.exception:
                item.earlier = True
            elif not item.earlier and item not in self._in_doubt:
                self._in_doubt.append(item)
        self._same.clear()

    def alive(self, line: int) -> None:
        """The run that began last showed something of its own on a line: a step, a failure, another line."""
        if self._begins_again and line > self._begins_again:
            for item in self._in_doubt:
                item.earlier = True
            self.run_begins, self._begins_again = self._begins_again, 0
            self._in_doubt.clear()

    @property
    def failed(self) -> bool:
        """Whether something that may have ended a process has come, and nothing shows that it did not."""
        return any(item.fatal and not (item.earlier or item.last or overcome(item)) for item in self.all)

    def progress(self, moment: float, rank: int | None, line: int) -> bool:
        """A step was printed; whether any event waits for more. Step 0 shows nothing: a bar is printed again."""
        waiting = False
        for item in self.all[-_LAST:]:
            if item.last_line < line and len(item.seen) < WENT_ON:
                waiting = True
                if moment and moment != item.moment and (rank is None or item.rank in (None, rank)):
                    item.seen.add(moment)
        return waiting

    def done(self, line: int, *, surely: bool) -> None:
        """The log says that the training is done; `surely` if a job script would not say so.

        Behind an exception that is no certain sign: the script goes on after the program has died.
        """
        over = [item for item in self.all if item.last_line < line and len(item.seen) > (not item.exception)]
        deaths = [item.last_line for item in self.all if item.kind in OF_A_DEATH and item not in over]
        for item in self.all:
            if item.last_line >= line or max(deaths, default=0) >= item.line:
                continue
            caught = surely or item.quoted or item.warned or self._survived[alike_of(item)] > 0
            if item in over or (item.exception and caught):
                item.succeeded = True
            elif item.exception:
                item.doubtful = True

    def finished(self, lines: int) -> list[LogEvent]:
        """The events of a file of so many lines."""
        near = lines - max(_NEAR_END, lines // 50)
        times: Counter[Hashable] = Counter()
        for item in self.all:
            times[alike_of(item)] += item.count
            self._survived[alike_of(item)] += item.count if overcome(item) else 0
        latest = max((item.line for item in self.all if item.fatal), default=0)
        for item in self.all:
            alike = alike_of(item)
            count = times[alike] if item.lasting else item.count
            item.at_end = item.last_line >= near and (count >= _LASTS or (lines <= _SHORT and item.count > 1))
            item.followed = self.ordinary - item.followed
            item.low_behind, item.served = self.low - item.low_behind, self.served - item.served
            item.doubtful = item.doubtful or item in self._in_doubt
            if self._survived[alike] >= _HABIT and item.last_line < latest:
                item.seen.update(range(1, WENT_ON + 1))
        return self.all


def overcome(event: LogEvent) -> bool:
    """Whether the training went on after it."""
    strong = event.bearing in (Bearing.CAUSE, Bearing.SYMPTOM)
    return len(event.seen) >= WENT_ON and not event.lasting and strong


def alike_of(event: LogEvent) -> Hashable:
    """What events of one habit have in common."""
    return event.code, event.kind, event.exception, event.rank


class _FileReader:
    """The place in one file."""

    def __init__(self, path: str, table: Messages, job: _Job, most_tail: int) -> None:
        self._path, self._table, self._job = path, table, job
        self._shapes: dict[bytes, Shape] = {}
        self._prefixes, self._tracebacks = Prefixes(), Tracebacks()
        self.events = _Events()
        self._rank = rank_of(path)
        self._pieces: list[bytes] = []
        self._index = 0
        self._prior: list[bytes] = []
        """The pieces of the present block, the one that is read, and the last ones of the block before."""
        self._tail: deque[tuple[bytes, int]] = deque(maxlen=min(most_tail, _TAIL if self._rank is None else _OWN_TAIL))
        self._reads: Counter[Shape] = Counter()
        self._idle: Counter[Shape] = Counter()
        """By identity of a shape: how often it was read, and how often it gave nothing."""
        self._changes = self._bytes = self._taken = self.lines = 0
        self._skipping = False
        """Whether a traceback is left out."""
        self._left_out = self._pending = 0
        """Lines that were left out, and those that the next event counts."""
        self._step: tuple[bytes, int] | None = None
        """The last line with a step that was not read."""
        self._mark: tuple[float, int | None] | None = None
        """The last step or epoch that was read, and its whole number."""
        self._steps_left = 0
        self._last_progress_line = self._done_line = 0
        self._surely_done = False
        self._behind_done: set[bytes] = set()
        self._follow = _BEGINNING
        """The last line up to which a second beginning is sought."""
        self._beginning: set[bytes] = set()
        self._opening: list[bytes] = []
        self._moments: set[bytes] = set()
        """Lines of the beginning with a time: the same one again is a copy, and no second run."""
        self._begun_again: set[bytes] = set()
        self._reopened = 0
        self._attempts: dict[str, int] = {}
        self._good_pod = False
        self._raised: LogEvent | None = None
        self._ended = False

    def read(self, parts: Iterable[Block]) -> None:
        """All blocks. In the midst of a long file, lines that come again and again are read now and then."""
        held: Block | None = None
        try:
            for block in parts:
                if held is not None:
                    self._take(held, last=False)
                held = block
        finally:
            if held is not None:
                self._take(held, last=True)

    def _take(self, block: Block, *, last: bool) -> None:
        pieces, numbers = block.pieces, block.numbers
        self._prior, self._pieces = self._pieces[-10:], pieces
        self._prefixes.look(pieces)
        self.lines, self._bytes = numbers[-1], self._bytes + block.size
        bares = bare(b"\n".join(pieces)).split(b"\n")
        shapes, table, waiting = self._shapes, self._table, self._tracebacks.open
        first, full = max(0, _BEGINNING - self._taken), len(pieces) - _READ_WHOLE if last else len(pieces)
        self._taken += len(pieces)
        for index, line in enumerate(bares):
            shape = shapes.get(line) or table.shape(pieces[index], line, shapes)
            number = numbers[index]
            if index < first or number <= self._follow:
                self._look_for_beginning(pieces[index], line, number, first=index < first)
            if shape.reads or index < first or waiting:
                if index < full and self._skips(shape, pieces[index]):
                    continue
                self._index = index
                self._whole(shape, pieces[index], number)
            else:
                self.events.ordinary += shape.ordinary
                if shape.tells:
                    self._told(shape, pieces[index], number)
        self._tail.extend(
            (raw[:_LONGEST_KEPT], number) for raw, number in zip(pieces[-_TAIL:], numbers[-_TAIL:], strict=True)
        )

    def _skips(self, shape: Shape, raw: bytes) -> bool:
        """Whether a line in the midst of a log is left out, because many like it were read, or a traceback of such."""
        if self._skipping:
            self._skipping = raw[:1] == b" "
            return True
        if not shape.reads or self._tracebacks.inside:
            return False
        times = self._reads[shape] = self._reads[shape] + 1
        idle = not shape.by_digits and self._idle[shape] > _IDLE
        if not idle and (times <= _OFTEN or times % _ONE_OF == 0):
            self._left_out, self._pending = 0, self._left_out
            return False
        self._left_out += not idle
        if self._tracebacks.open:
            self._close()
        self._skipping = raw.startswith(HEADER.encode())
        return True

    def _around(self, offset: int) -> str:
        """The text of the piece so many before or behind the one that is read; "" where there is none."""
        at = self._index + offset
        if at < 0:
            return text_of(self._prior[at][:_LONGEST_KEPT]) if -at <= len(self._prior) else ""
        return text_of(self._pieces[at][:_LONGEST_KEPT]) if at < len(self._pieces) else ""

    # What shows that a program goes on, or begins again

    def _told(self, shape: Shape, raw: bytes, number: int) -> None:
        """What a line that may be of no failure says of those before it."""
        if shape.step:
            self._step = raw, number
            self._last_progress_line = number
            if self._steps_left > 0:
                self._steps_left -= 1
                self._progress()
            if self._done_line:
                self._behind_done.add(raw)
                if len(self._behind_done) >= (WENT_ON if self._surely_done else 1):
                    self._done_line = 0
        if shape.done:
            self._job.finished = True
            self._done_line, self._surely_done = number, surely_done(text_of(raw))
            self._behind_done.clear()
            self.events.alive(number)
        self.events.low += shape.low
        self.events.served += shape.served
        for item in self.events.all[-_LAST:] if shape.undone else ():
            if item.last_line < number and item.undone in shape.undone and re.search(item.undone, text_of(raw)):
                item.succeeded = True
        if shape.succeeded or (shape.low and shape.done):
            for item in self.events.all:
                item.succeeded = item.succeeded or item.last_line < number
        if shape.goes_on and self._raised is not None and 0 < number - self._raised.last_line <= _NEAR_FAILURE:
            self._raised.goes_on = True

    def _progress(self) -> None:
        """Read the last step."""
        if self._step is None:
            return
        raw, number = self._step
        self._step = None
        text = text_of(raw)
        lines, record = self._prefixes.lines(text)
        step = step_of(record or lines[0].text)
        step = step_of(text) if step is None else step
        if step is None:
            return
        moment, whole = moment_of(text, step), whole_step(text)
        self._mark = (moment, whole)
        self.events.alive(number)
        if whole is not None:
            self._job.last_step = max(whole, self._job.last_step or 0)
        if not self.events.progress(moment, lines[0].rank, number):
            self._steps_left = 0

    def _look_for_beginning(self, raw: bytes, line: bytes, number: int, *, first: bool) -> None:
        """Note the first lines, and whether they come again behind a failure."""
        alike, head = line.strip(), raw[:120]
        known = alike in self._beginning
        of_kernel = (first or known) and (b"[" in head or b"kernel" in head) and OF_KERNEL.search(text_of(head))
        if not alike or of_kernel or ((first or known) and _OF_USAGE.match(alike)):
            return
        if first and not self.events.all and not self._tracebacks.open:
            self._beginning.add(alike)
            if len(self._opening) < _OPENING and not alike.startswith(b"Traceback"):
                self._opening.append(alike)
            if _MOMENT.search(raw):
                self._moments.add(raw)
        elif number <= self._follow and raw not in self._moments:
            if known:
                self._begun_again.add(alike)
            else:
                self.events.alive(number)
            at = self._reopened if self._reopened < len(self._opening) else 0
            self._reopened = at + 1 if self._opening and alike == self._opening[at] else 0
            reopened = self._reopened >= max(len(self._opening), _SHORTEST_OPENING) and len(set(self._opening)) > 1
            if reopened or len(self._begun_again) >= _SAME_BEGINNING:
                self._restart(number)

    def _close(self) -> None:
        for chain in self._tracebacks.finish():
            self._chain(chain)

    def _restart(self, number: int) -> None:
        self._close()
        self._begun_again.clear()
        self._reopened = 0
        self.events.begun_again(number)
        self._mark = self._step = None

    def _marks_of_restart(self, line: PrefixedLine, text: str, number: int) -> None:
        """Words of launchers, schedulers and scripts that begin a program again."""
        restarted = "RESTART_COUNT=" in text.upper() and _RESTARTED.search(text) is not None
        if found := _ATTEMPT.match(line.text):
            name, count = found[1].lower(), int(found[2])
            before = self._attempts.get(name)
            self._attempts[name] = count
            ruled = count > 1 and _RULER.match(line.text) is not None
            restarted = restarted or (count == before + 1 if before is not None else ruled)
        if restarted:
            self._restart(number)
        if pod := _POD.match(line.text):
            self._good_pod = pod[1] == "Succeeded"

    # Lines that are read whole

    def _whole(self, shape: Shape, raw: bytes, number: int) -> None:
        changes, took = self._changes, False
        if shape.succeeded or shape.done:
            self._close()
        for part in _PARTS.split(raw) if shape.reads and b"]" in raw else (raw,):
            took = self._text(text_of(part), number, reads=shape.reads) or took
        if changes == self._changes and not took:
            self.events.ordinary += shape.ordinary
            self._idle[shape] += 1
        if shape.tells:
            self._told(shape, raw, number)
        if shape.world and self._job.world is None and (found := WORLD.search(text_of(raw))):
            self._job.world = int(next(group for group in found.groups() if group))

    def _text(self, text: str, number: int, *, reads: bool) -> bool:
        """A line; whether it is of a traceback."""
        if HEADER in text and not text.startswith(HEADER):
            self._prefixes.learn(text, (self._around(offset) for offset in range(1, _AHEAD)))
        lines, _ = self._prefixes.lines(text)
        if self._rank is not None:
            lines = [line if line.rank is not None else replace(line, rank=self._rank) for line in lines]
        self._job.ranks.update(line.rank for line in lines if line.rank is not None)
        self._marks_of_restart(lines[0], text, number)
        several = len(lines) > 1 and any(HEADER in line.text for line in lines)
        took = False
        for line in lines:
            if several and not line.text:
                continue
            level = ("warning" if line.low else "error") if several else ""
            for chain in self._tracebacks.take(line, number, partial(self._logged, text, level)):
                self._chain(chain)
            took = took or self._tracebacks.took
            if reads and not self._tracebacks.took and not several:
                self._message(line, number, text)
        if several:
            for chain in self._tracebacks.end(lines[0]):
                self._chain(chain)
        return took

    def _logged(self, text: str, level: str) -> str:
        """The level, or how a logger printed the header of a traceback or the line above it.

        A warning may be above the traceback of an exception that nobody caught, too.
        """
        own = text.partition(HEADER)[0]
        if level:
            return level
        if of_low_level(own):
            behind = self._around(1)
            passed_on = ' File "' in behind and of_low_level(behind.partition(' File "')[0])
            return "" if passed_on and not _OF_TORCH.search(own) else "warning"
        above = next((said for offset in (-1, -2, -3) if (said := self._around(offset)).strip()), "")
        if _OF_WARNINGS.search(above):
            return "warning"
        return "error" if any(of_low_level(line) or of_error_level(line) for line in (own, above)) else ""

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
        raised = None if self._tracebacks.waits_for(line) else loose_exception(text, line, number)
        match = self._table.in_line(text)
        if raised is not None:
            if match is None or match.known.message.bearing is not Bearing.HARMLESS:
                raised.level = "warning" if line.low or of_low_level(whole) else ""
                self._tracebacks.take_loose(raised)
        elif match is not None:
            message = match.known.message
            if _OF_THE_STEP.match(text):  # one task prints it for all
                line = replace(line, rank=None)
            low = message.general and message.bearing is Bearing.CAUSE and (line.low or of_low_level(whole))
            self._add(match, text, number, line, warned=low)

    # Events

    def _add(self, match: Match, text: str, number: int, line: PrefixedLine, *, warned: bool = False) -> None:
        self._keep(self._event(match, text, number, line, warned=warned))

    def _event(self, match: Match, text: str, number: int, of: PrefixedLine | UnknownError, **more: bool) -> LogEvent:
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
            **more,
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
        last, first = chain[-1], raised.text.partition("\n")[0]
        other = last if raised is not last else chain[0]
        own_words = raised.quoted or raised.frame is None
        event = event_of(
            match.known.code if match is not None else "",
            match.known.message if match is not None else _UNKNOWN,
            path=self._path,
            line=raised.line,
            text=raised.text,
            values=match.values if match is not None else (),
            stamp=raised.of.stamp,
            rank=raised.of.rank,
            node=raised.of.node,
            longest=_LONGEST_EXCEPTION,
            exception=raised.type,
            frame=raised.frame or next((item.frame for item in reversed(chain) if item.frame), None),
            # It has ended its process, unless an actor printed it.
            lasting=False,
            last=False,
            of_script=last.of_script and not (raised.of.actor or raised.announced or raised.level),
            linked=(other.line - raised.line, mask_text(other.text.partition("\n")[0][:_LONGEST_EXCEPTION]))
            if other.line != raised.line
            else None,
            quoted=raised.quoted,
            warned=raised.level == "warning",
            logged=raised.level == "error",
            goes_on=GOES_ON.search(raised.before) is not None or (own_words and GOES_ON.search(first) is not None),
        )
        lost = raised.announced.startswith(LOST)
        of_end = raised.at_exit and raised.type in _OF_PYTHON
        if lost or of_end or (raised.announced and (event.kind == PLAIN or event.bearing is Bearing.SYMPTOM)):
            end = next((number for raw, number in reversed(self._tail) if raw.strip()), 0)
            own = raised.announced.startswith(OF_THREAD) and (raised.frame is not None or event.kind != PLAIN)
            if own and self._ended and raised.line >= end and not (self._job.finished or self.events.failed):
                event.doubtful = True  # a thread of the program died, and nothing came behind it
            else:
                event.bearing, event.kind, event.fatal = Bearing.CONSEQUENCE, UNHEEDED, False
        self._raised = self._keep(event, in_step=not raised.evaluating)

    def _keep(self, event: LogEvent, *, in_step: bool = True) -> LogEvent:
        """Keep an event, with the last step above it if it is of the training; gives the one that counts it."""
        if event.bearing is Bearing.HARMLESS:
            return event
        self._changes += 1
        self._progress()
        event.count, self._pending = event.count + self._pending, 0
        event.moment, whole = self._mark or (None, None)
        event.step = whole if in_step else None
        event.succeeded = self._good_pod and self._pieces[self._index][:1] == b" "
        kept = self.events.add(event)
        self._steps_left = _MOST_STEPS
        if event.fatal:
            self._follow = self.lines and event.line + _FOLLOWED
        return kept

    def finish(self) -> list[LogEvent]:
        """The events of the file."""
        self._ended = True
        self._close()
        self._progress()
        for raw, number in self._tail:
            if self.events.all and self._table.shape(raw, bare(raw), self._shapes).step:
                self._step = raw, number
                self._progress()
            rank = self._prefixes.line(text_of(raw)).rank
            if rank is not None:
                self._job.ranks.add(rank)
        if self._rank is not None and self.lines:
            self._job.ranks.add(self._rank)
        if self._done_line:
            self.events.done(self._done_line, surely=self._surely_done)
        found = list(self.events.finished(self.lines))
        return sorted([*found, *self._mentioned(found)], key=lambda item: item.line)

    # What the last lines say beside the events

    def unknown_error(self, events: Iterable[LogEvent]) -> UnknownError | None:
        """The line that says why it ended where no wording does; None in a file that names a failure.

        `events` are those of the file. Where they begin to show a death, the line is sought before it.
        """
        if self.events.failed:
            return None
        pieces = list(self._tail)
        deaths = (
            item.line
            for item in events
            if item.bearing is Bearing.CONSEQUENCE and item.kind != UNHEEDED and not item.earlier
        )
        before = _up_to(pieces, min(deaths, default=0))
        apart, worded = self._prefixes.line, lambda text: self._table.in_line(text) is not None
        first = unknown_error(before, apart, worded, at_death=True)
        found = first or unknown_error(pieces, apart, worded, at_death=False)
        cut = cut_traceback(pieces, apart) if found is None else None
        found = found or cut
        if found is None:
            return None
        line = self._prefixes.lines(found[1])[0][-1]
        return UnknownError(
            path=self._path,
            line=found[0],
            text=mask_text(line.text.strip()[:_LONGEST_EXCEPTION]),
            rank=line.rank if line.rank is not None else self._rank,
            stamp=line.stamp,
            node=line.node,
            at_death=first is not None,
            cut=cut is not None,
        )

    def _mentioned(self, events: Sequence[LogEvent]) -> Iterator[LogEvent]:
        """Causes that the program mentions in its own words before it dies; `events` are those of the file.

        A rank may leave without an error: in a file of its own the end counts, too.
        """
        end = self.lines + 1 if self._rank is not None and not self._job.finished else 0
        death = min((item.line for item in events if _shows_death(item)), default=end)
        known = {number for item in events if not (item.last or item.closing) for number in (item.line, item.last_line)}
        pieces = _up_to(list(self._tail), death)
        pieces = [piece for piece in pieces if piece[1] >= self.events.run_begins and piece[1] not in known]
        for match, line, number in mentions(pieces, lambda text: self._prefixes.lines(text)[0], self._table):
            event = self._event(match, line.text.strip(), number, line, doubtful=True)
            steps = (whole_step(text_of(raw)) for raw, _ in reversed(_up_to(pieces, event.line)))
            event.fatal, event.mentioned = False, True
            event.step = next((step for step in steps if step is not None), None)
            yield event

    def tail(self, before: int) -> Tail:
        """Its last lines; `before`: lines of the file that were not read."""
        return Tail(self._path, self._rank, [(raw, number + before) for raw, number in self._tail], self._prefixes)

    def file(self) -> LogFile:
        """The file itself."""
        raw, number = next((piece for piece in reversed(self._tail) if piece[0].strip()), (b"", 0))
        text = self._prefixes.lines(text_of(raw))[0][-1].text.strip()
        behind = number > self._last_progress_line and step_of(text) is None
        return LogFile(
            path=self._path,
            lines=self.lines,
            bytes=self._bytes,
            ends_in_progress=0 < self._last_progress_line >= max(self.lines - 2, self._done_line + 1),
            done_line=self._done_line,
            behind_steps=mask_text(text[:_LONGEST_BEFORE]) if behind else "",
        )


def _up_to(pieces: list[tuple[bytes, int]], line: int) -> list[tuple[bytes, int]]:
    """The pieces before a line; none before line 0."""
    return pieces[: bisect_left(pieces, line, key=lambda piece: piece[1])] if line else []


def _shows_death(event: LogEvent) -> bool:
    """Whether a process of the job died with an event, as far as the event itself shows it."""
    if event.earlier or event.succeeded or event.progress >= WENT_ON:
        return False
    if event.bearing is Bearing.CONSEQUENCE:
        return event.kind != UNHEEDED
    return event.fatal and not (event.quoted or event.warned or event.goes_on or event.last)


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
