"""One pass over a job's logs: the lines that matter, apart from the millions that do not."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpudoctor.analysis.job_log.consequences import UNHEEDED
from gpudoctor.analysis.job_log.first_cause import WENT_ON
from gpudoctor.model.log_message import PLAIN, Bearing, LogMessage
from gpudoctor.model.signs.job_log import JobLog, LogEvent, LogFile
from gpudoctor.model.signs.stack_dump import RankStack
from gpudoctor.model.unavailable import Unread
from gpudoctor.vitals.job_log.events import event_of
from gpudoctor.vitals.job_log.line_prefix import PrefixedLine, plain, take_apart
from gpudoctor.vitals.job_log.matching import Match, Messages, skeleton
from gpudoctor.vitals.job_log.opening import STANDARD_INPUT, Block, blocks, open_log, text_of
from gpudoctor.vitals.job_log.progress import CUES, DONE_CUES, says_done, step_of, whole_step
from gpudoctor.vitals.job_log.stack_dumps import CUES as STACK_CUES
from gpudoctor.vitals.job_log.stack_dumps import StackDumps, with_ranks
from gpudoctor.vitals.job_log.tracebacks import Raised, Tracebacks, loose_exception

_OTHER_RANK = re.compile(rb"(?<=[^\s:])(?=\[(?:default|rank)\d{1,6}\]:)")
"""Where another rank began to write within a line, behind a progress bar."""
_VARYING = b"0123456789.+-"
"""What differs between the lines of a loop."""
_LASTS, _SHORT = 3, 10
"""Times that a lasting condition must have come, unless a few lines were pasted."""
_NEAR_END = 12
"""Lines, or a fiftieth of the file, that count as its end."""
_MOST_COMMON = 100_000
_MOST_DULL = 20_000
_MOST_EVENTS = 20_000
"""Different events; a log of 4,096 ranks that all die has four of each."""
_UNKNOWN = LogMessage(kind=PLAIN, cue="", pattern="", text="")
"""What an exception is where no check answers for those that no wording knows."""
_LONGEST_EXCEPTION = 600
_BEGINNING = 25
"""Lines at the beginning of a file, by which a second run in the same file is known."""
_SAME_BEGINNING = 4
"""Different ones of these that must come again behind a failure."""
_OPENING, _SHORTEST_OPENING = 3, 2
"""First lines of a file that, if they come again in a row, show that a job was appended."""
_MOMENT = re.compile(r"\d{6}|\d\d:\d\d:\d\d")
_FOLLOWED = 300
"""Lines behind a failure that are read for signs that the training went on."""
_MOST_FOLLOWED = 200
"""Failures that are followed so."""
_MOST_SEEN = 50
"""Steps behind a failure that are remembered."""
_BACK = 80
"""Lines before a failure among which its step is searched."""
_LOOK_EVERY = 2_000
"""Lines after which the step is searched where nothing else makes gpudoctor look."""
_OF_A_PROGRAM = re.compile(
    r"(?!wandb:|srun:|slurmstepd|Traceback|During handling|The above exception|\[(?:rank|default))\w"
)
"""How an ordinary line begins: code of a traceback, frames, rulers and the summaries of trackers do not."""
_WORLD = re.compile(
    r"(?i)world[_ ]?size['\"]?\s*[:=]\s*(\d{1,6})|nranks (\d{1,6})|"
    r"distributed init \(rank \d+, world (\d{1,6})\)"
)
_FILE_RANK = re.compile(r"(?i)(?:^|[^a-z])(?:global_?)?(?:rank|task|worker|proc)[_.-]?(\d{1,5})(?!\d)")
_FOLDER_RANK = re.compile(r"[/\\](\d{1,5})[/\\](?:stderr|stdout)\.log")


def read_job_log(paths: Sequence[str], messages: Iterable[tuple[str, LogMessage]]) -> JobLog:
    """All logs of one job, by the wordings of every check. Raises `Unread` if none is readable.

    A file that cannot be read, or not to its end, is a problem and the rest goes on.
    """
    table = Messages(messages)
    files: list[LogFile] = []
    events: list[LogEvent] = []
    problems: list[str] = []
    stacks: list[RankStack] = []
    state = _Job()
    for path in paths:
        shown = "standard input" if path == STANDARD_INPUT else path
        reader = _FileReader(shown, table, state)
        damage = ""
        try:
            with open_log(path) as stream:
                for block in blocks(stream):
                    reader.take(block)
        except OSError as error:
            damage = str(error.strerror or error)
        found = reader.finish()
        if damage:
            read = f"; gpudoctor read {reader.lines} lines of it" if reader.lines else ""
            problems.append(f"{shown}: cannot be read: {damage}{read}")
        elif not reader.lines:
            problems.append(
                f"{shown}: is empty; if the job buffered its output, set PYTHONUNBUFFERED=1 next time"
            )
        if reader.lines:
            files.append(reader.file())
            events += found
            stacks += reader.stacks()
    if not files:
        raise Unread("; ".join(problems) or "no log was named")
    events = _ordered(events, len(files))
    return JobLog(
        files=tuple(files),
        events=tuple(replace(item, order=number) for number, item in enumerate(events)),
        ranks=tuple(sorted(state.ranks)),
        world=state.world,
        last_step=state.last_step,
        finished=state.finished,
        stacks=with_ranks(stacks),
        problems=tuple(problems),
    )


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
class _Draft:
    """An event while the lines behind it are still to come."""

    event: LogEvent
    step: float | None = None
    """The step or epoch printed last before it."""
    seen: set[float] = field(default_factory=set)
    """Steps printed after it."""
    ordinary: int = 0
    """The reader's count of ordinary lines when it came last."""


class _FileReader:
    """The place in one file."""

    def __init__(self, path: str, table: Messages, job: _Job) -> None:
        self._path, self._table, self._job = path, table, job
        self._cues = _without_digits((*table.cues, *STACK_CUES))
        self._tracebacks = Tracebacks()
        self._stacks = StackDumps(path)
        self._drafts: list[_Draft] = []
        self._same: dict[tuple[str, str, int | None, str], int] = {}
        self._follow = 0
        self._followed = 0
        self._mark: tuple[float, int | None] | None = None
        """The last step or epoch, and its whole number."""
        self._bytes = 0
        self._rank = rank_of(path)
        self._own_ranks: set[int] = set()
        self._last_progress_line = 0
        self._dull: set[bytes] = set()
        """Lines, numbers apart, that hold a cue and mean nothing."""
        self._common: set[bytes] = set()
        """Lines, digits apart, without any cue."""
        self._repeats: dict[bytes, int] = {}
        """Lines, digits apart, that only repeat an event: its number among the drafts."""
        self._again: int | None = None
        """The event that the last line repeated."""
        self._changes = 0
        self._ordinary = 0
        """Lines behind a failure that are neither errors nor parts of a traceback."""
        self._beginning: set[str] = set()
        self._begun_again: set[str] = set()
        self._opening: list[str] = []
        self._moments: set[str] = set()
        """Lines of the beginning with a time: the same one again is a copy, and no second job."""
        self._reopened = 0
        """Lines of the opening that have come again in a row."""
        self._recent: list[tuple[bytes, int]] = []
        """The last pieces and their lines."""
        self._taken = 0
        """Pieces so far."""
        self.lines = 0

    # Blocks and pieces

    def take(self, block: Block) -> None:
        """The next pieces of the file: lines, and what carriage returns part them into."""
        pieces, numbers = block.pieces()
        if not pieces:
            return
        if not self.lines:
            self._follow = _BEGINNING
        self._bytes += block.size
        self.lines = numbers[-1]
        tail = len(self._recent)
        past = [*self._recent, *zip(pieces, numbers, strict=True)]
        at = 0
        looks = range(-self._taken % _LOOK_EVERY, len(pieces), _LOOK_EVERY)
        chosen = self._with_cue(pieces)
        for index in sorted(chosen.union(looks)):
            # Pieces up to here are read only while a traceback is open or a failure is followed.
            while at < index and self._reads_all:
                self._piece(pieces[at], numbers[at], known=False)
                at += 1
            if index not in chosen:
                self._before(past, index + tail)
                if self._reads_all:
                    self._piece(pieces[index], numbers[index], known=False)
            elif not self._is_dull(pieces[index], numbers[index]):
                self._before(past, index + tail)
                self._piece(pieces[index], numbers[index], known=True)
            at = index + 1
        while at < len(pieces) and self._reads_all:
            self._piece(pieces[at], numbers[at], known=False)
            at += 1
        self._taken += len(pieces)
        self._recent = past[-_BACK:]

    @property
    def _reads_all(self) -> bool:
        """Whether pieces without a cue are read, too."""
        return self._tracebacks.waiting or self._stacks.waiting or self._follow > 0

    def _with_cue(self, pieces: list[bytes]) -> set[int]:
        """Numbers of the pieces that hold a cue; those that differ from known ones in digits only are left out.

        A log is mostly a loop's lines: they are told apart by what is left of them without digits.
        """
        bare = b"\n".join(pieces).translate(None, _VARYING).split(b"\n")
        common = self._common
        fresh = [index for index, key in enumerate(bare) if key not in common]
        if not fresh:
            return set()
        text = b"\n".join([bare[index] for index in fresh]).lower()
        found: set[int] = set()
        for cue in self._cues:
            at = text.find(cue)
            while at >= 0:
                found.add(at)
                following = text.find(b"\n", at)
                if following < 0:
                    break
                at = text.find(cue, following)
        if not self._job.finished:
            self._look_for_end(b"\n".join([pieces[index] for index in fresh]))
        marks = sorted(found)
        chosen: set[int] = set()
        place = number = 0
        for index in fresh:
            end = place + len(bare[index])
            while number < len(marks) and marks[number] <= end:
                chosen.add(index)
                number += 1
            place = end + 1
        if len(common) < _MOST_COMMON:
            common.update(bare[index] for index in fresh if index not in chosen)
        return chosen

    def _look_for_end(self, text: bytes) -> None:
        small = text.lower()
        for cue in DONE_CUES:
            at = small.find(cue)
            while at >= 0:
                begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
                end = end if end >= 0 else len(text)
                if says_done(text_of(text[begin:end])):
                    self._job.finished = True
                    return
                at = small.find(cue, end)

    def _before(self, past: list[tuple[bytes, int]], index: int) -> None:
        """Remember the last step printed before a piece."""
        for piece, number in reversed(past[max(0, index - _BACK) : index]):
            small = piece.lower()
            if any(cue in small for cue in CUES):
                text = plain(text_of(piece)).strip()
                step = step_of(text)
                if step is not None:
                    self._progress(text, step, take_apart(text).rank, number)
                    return

    def _is_dull(self, raw: bytes, number: int) -> bool:
        """Whether a piece with a cue is like one that meant nothing, or like one that is counted already."""
        if self._reads_all:
            return False
        bare = raw.translate(None, _VARYING)
        again = self._repeats.get(bare)
        if again is not None:
            event = self._drafts[again].event
            self._drafts[again].event = replace(event, count=event.count + 1, last_line=number)
            return True
        return bare in self._dull

    def _piece(self, raw: bytes, number: int, *, known: bool) -> None:
        """One piece; `known` says that it holds a cue."""
        quiet = known and not self._reads_all
        events = self._changes
        parts = _OTHER_RANK.split(raw) if b"rank" in raw or b"[default" in raw else [raw]
        for part in parts:
            text, changes = plain(text_of(part)), self._changes
            self._text(text, number, known=known)
            if self._changes == changes and not self._tracebacks.took and _OF_A_PROGRAM.match(text):
                self._ordinary += 1
        if self._follow > 0:
            self._follow -= 1
        if (
            quiet
            and not self._tracebacks.waiting
            and b"gnored in" not in raw
            and len(self._dull) + len(self._repeats) < _MOST_DULL
        ):
            bare = raw.translate(None, _VARYING)
            if events == self._changes:
                self._dull.add(bare)
            elif events + 1 == self._changes and self._again is not None:
                self._repeats[bare] = self._again

    def _text(self, text: str, number: int, *, known: bool) -> None:
        line = take_apart(text)
        if line.rank is None and self._rank is not None:
            line = replace(line, rank=self._rank)
        if line.rank is not None:
            self._own_ranks.add(line.rank)
        if self._stacks.take(line, number):
            self._changes += 1
            return  # the dumps of the ranks are alike: they are no second beginning
        bare = skeleton(line.text).strip() if number <= _BEGINNING or self._follow > 0 else ""
        if number <= _BEGINNING and not self._drafts and not self._tracebacks.waiting:
            self._beginning.add(bare)
            if bare and len(self._opening) < _OPENING and not bare.startswith("Traceback"):
                self._opening.append(f"{line.rank} {bare}")
            self._moments.add(text if _MOMENT.search(text) else "")
        elif self._follow > 0 and bare and text not in self._moments:
            if bare in self._beginning:
                self._begun_again.add(bare)
            at = self._reopened if self._reopened < len(self._opening) else 0
            self._reopened = at + 1 if self._opening and f"{line.rank} {bare}" == self._opening[at] else 0
            reopened = self._reopened >= max(len(self._opening), _SHORTEST_OPENING)
            if reopened or len(self._begun_again) >= _SAME_BEGINNING:
                self._restart()
        for chain in self._tracebacks.take(line, number):
            self._chain(chain)
        if self._follow > 0:
            step = step_of(line.text)
            if step is not None:
                self._progress(line.text, step, line.rank, number)
                if not known:
                    return
        if (known or self._tracebacks.waiting) and not self._tracebacks.took:
            self._message(line, number)

    # Events

    def _message(self, line: PrefixedLine, number: int) -> None:
        """A line that holds a known message, or an exception without its traceback."""
        text = line.text.strip()
        if not text:
            return
        if self._job.world is None and (found := _WORLD.search(text)):
            self._job.world = int(next(group for group in found.groups() if group))
        if "what():" in text:
            match = self._table.in_exception(text.partition("what():")[2].strip())
            if match is not None and not match.plain and match.known.message.bearing is Bearing.CAUSE:
                self._add(match, text, number, line)
                return
        loose = None if self._tracebacks.waiting else loose_exception(text)
        if loose is not None:
            harmless = self._table.in_line(text)
            if harmless is None or harmless.known.message.bearing is not Bearing.HARMLESS:
                self._tracebacks.take_loose(line, number, *loose)
            return
        match = self._table.in_line(text)
        if match is not None:
            self._add(match, text, number, line)

    def _add(self, match: Match, text: str, number: int, line: PrefixedLine) -> None:
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
            )
        )

    def _chain(self, chain: list[Raised]) -> None:
        """Exceptions of one traceback: the first of a known kind, else the first that wraps no other."""
        matches = [(item, self._table.in_exception(_with_libraries(item))) for item in chain]
        strong = [
            (item, match)
            for item, match in matches
            if match is not None
            and not match.plain
            and match.known.message.bearing in (Bearing.CAUSE, Bearing.SYMPTOM)
        ]
        plain_ones = [(item, match) for item, match in matches if match is None or match.plain]
        weak = [(item, match) for item, match in matches if match is not None]
        raised, match = (strong or plain_ones or weak)[0]
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
        )
        frame = raised.frame or next((item.frame for item in reversed(chain) if item.frame), None)
        event = replace(event, exception=raised.type, frame=frame, lasting=False)  # it has ended its process
        if raised.unheeded and (event.kind == PLAIN or event.bearing is Bearing.SYMPTOM):
            event = replace(event, bearing=Bearing.CONSEQUENCE, kind=UNHEEDED, fatal=False)
        self._keep(event)

    def _keep(self, event: LogEvent) -> None:
        if event.bearing is Bearing.HARMLESS:
            return
        self._changes += 1
        self._again = None
        key = (
            event.code,
            event.kind,
            event.rank,
            skeleton(event.text[:120]) if event.bearing is Bearing.CAUSE else "",
        )
        old = self._same.get(key)
        if old is not None:
            draft = self._drafts[old]
            if len(draft.seen) < WENT_ON or event.lasting or event.bearing is not Bearing.CAUSE:
                draft.event = replace(draft.event, count=draft.event.count + 1, last_line=event.line)
                draft.ordinary = self._ordinary
                self._again = old if not event.exception else None
                return
        if len(self._drafts) >= _MOST_EVENTS:
            return
        step = self._mark[1] if self._mark else None
        self._same[key] = len(self._drafts)
        mark = self._mark[0] if self._mark else None
        self._drafts.append(_Draft(replace(event, step=step), mark, ordinary=self._ordinary))
        if event.fatal and self._followed < _MOST_FOLLOWED:
            self._followed += 1
            self._follow = _FOLLOWED

    def _restart(self) -> None:
        """The program began again: what failed before was not its end."""
        for chain in self._tracebacks.finish():
            self._chain(chain)
        self._begun_again.clear()
        self._reopened = 0
        for draft in self._drafts:
            draft.event = replace(draft.event, earlier=True)
        self._same.clear()
        self._repeats.clear()
        self._mark = None

    def _progress(self, text: str, step: float, rank: int | None, number: int) -> None:
        whole = whole_step(text)
        self._last_progress_line = max(self._last_progress_line, number)
        before = self._mark[0] if self._mark else None
        if before != step:
            self._mark = (step, whole)
        if whole is not None:
            self._job.last_step = max(whole, self._job.last_step or 0)
        if before is None:
            return
        for draft in reversed(self._drafts[-200:]):
            known = draft.event.rank
            if (
                draft.event.last_line < number
                and step != draft.step
                and (rank is None or known is None or rank == known)
                and len(draft.seen) < _MOST_SEEN
            ):
                draft.seen.add(step)

    def finish(self) -> list[LogEvent]:
        """The events of the file."""
        self._before(self._recent, len(self._recent))
        for chain in self._tracebacks.finish():
            self._chain(chain)
        self._job.ranks |= self._own_ranks
        near = self.lines - max(_NEAR_END, self.lines // 50)
        return [
            replace(
                item.event,
                progress=len(item.seen),
                followed=self._ordinary - item.ordinary,
                at_end=item.event.last_line >= near
                and (item.event.count >= _LASTS or (self.lines <= _SHORT and item.event.count > 1)),
            )
            for item in self._drafts
        ]

    def stacks(self) -> list[RankStack]:
        """Where its ranks stood; nothing where they trained on after the last dump."""
        return self._stacks.stacks() if self._last_progress_line <= self._stacks.last_line else []

    def file(self) -> LogFile:
        """The file itself."""
        return LogFile(
            path=self._path,
            lines=self.lines,
            bytes=self._bytes,
            ends_in_progress=self.lines > 0 and self.lines - self._last_progress_line <= 2,
        )


def _without_digits(cues: Iterable[bytes]) -> tuple[bytes, ...]:
    """Cues as they are in lines without digits: the shortest that every line with a cue has one of."""
    found: list[bytes] = []
    for cue in sorted({cue.translate(None, _VARYING) for cue in cues}, key=len):
        if not any(shorter in cue for shorter in found):
            found.append(cue)
    return tuple(found)


def _with_libraries(raised: Raised) -> str:
    """The exception's text, and behind it the files that it came through: some wordings need both."""
    return f"{raised.text[:3000]}\nin {' '.join(raised.libraries)}" if raised.libraries else raised.text


def rank_of(path: str) -> int | None:
    """The rank that a file's name or folder says."""
    found = _FOLDER_RANK.search(path) or _FILE_RANK.search(path.replace("\\", "/").rpartition("/")[2])
    return int(found[1]) if found else None
