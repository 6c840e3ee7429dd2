"""From the bytes of a log to its lines: gzip, encoding, prefixes of launchers and loggers, records of JSON."""

import codecs
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from string import digits
from typing import IO, Any

from gpudoctor.lang import say
from gpudoctor.model.external_files import Damaged, RefusedFile, open_file, open_unpacked
from gpudoctor.model.records import frozen, replace

STANDARD_INPUT = "-"
HEADER = "Traceback (most recent call last)"
BLOCK = 1 << 20
"""Bytes that are read at once. What a log says must not depend on it."""
LONGEST = 16_384
"""Bytes of a line beyond which its middle is left out: programs print whole tensors."""
_HEAD_KEPT, _TAIL_KEPT = 12_288, 4_000
_JUDGED = 65_536
"""Bytes by which the encoding of a file is found, and whether it is text."""
_CONTROL = bytes({*range(8), *range(14, 27), *range(28, 32)})
_MOST_CONTROL = 0.05
"""Share of control characters above which a file is no text."""
_HOLE = re.compile(rb"\0{8,}")
_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)")
_ENDS, _ERASED = re.compile(rb"\r+\n|\n[ \t]*\r(?!\n)"), re.compile(rb"\r[\r \t]*\r")
_CUT_CHARACTER, _REST_OF_CHARACTER = (re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,3}\Z"), re.compile(rb"\A[\x80-\xbf]{1,3}"))


# Blocks of bytes


@contextmanager
def open_log(path: str, start: int = 0) -> Iterator[IO[bytes]]:
    """The log's bytes from one on, unpacked where gzip has packed them. Raises `OSError`."""
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with open_unpacked(path) as stream:
        stream.seek(start)
        yield stream


@frozen(kw_only=False)
class Block:
    """Pieces of text between line ends and carriage returns, the middle of long ones left out."""

    pieces: list[bytes]
    numbers: list[int]
    """The line of each piece."""
    size: int
    """Bytes of the log that it is made of."""


def blocks(stream: IO[bytes]) -> Iterator[Block]:
    """The stream in blocks of about a MiB. Raises `RefusedFile` for what is not text.

    What was read before the stream fails is given before its error is raised.
    """
    number, rest, taken = 1, b"", 0
    decoder: Any = None
    judged, failed = False, None
    while True:
        try:
            part = _filled(stream)
        except _Failed as error:
            failed, part = error.reason, error.read
        if not judged and (head := _HOLE.sub(b"", part[:_JUDGED]).strip(b"\0")):
            judged = True
            wide = part[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as PowerShell writes
            decoder = codecs.getincrementaldecoder("utf-16")("replace") if wide else None
            if decoder is None and is_binary(head):
                raise RefusedFile("it is not text")
            part = part.removeprefix(codecs.BOM_UTF8)
        last = not part or failed is not None
        taken += len(part)
        if decoder is not None:
            part = decoder.decode(part).encode("utf-8", "replace")
        data = _ends_made_alike(rest + part.replace(b"\0", b"\r"))
        # A carriage return at the end may be half of a line end.
        cut = len(data) if last else max(data.rfind(b"\n"), data.rstrip(b"\r").rfind(b"\r")) + 1
        if whole := data[:cut].rstrip(b"\r") if last else data[:cut]:
            yield _block(whole, number, taken)
            number += whole.count(b"\n")
            taken = 0
        if last:
            break
        rest = data[cut:]
        if len(rest) > 2 * LONGEST:
            rest = rest[:LONGEST] + rest[-LONGEST:]
    if failed is not None:
        raise failed


class _Failed(Exception):
    """A stream that fails, with what it gave before."""

    def __init__(self, reason: OSError, read: bytes) -> None:
        super().__init__()
        self.reason, self.read = reason, read


def _filled(stream: IO[bytes]) -> bytes:
    """About a block, however few bytes a pipe gives at once."""
    gathered, missing = [], BLOCK
    try:
        while missing > 0 and (piece := stream.read1(missing)):  # type: ignore[attr-defined]
            gathered.append(piece)
            missing -= len(piece)
    except OSError as error:
        raise _Failed(error, b"".join(gathered)) from None
    except (EOFError, zlib.error) as error:
        damage = Damaged(say("its packing is damaged: {error}", error=error))
        raise _Failed(damage, b"".join(gathered)) from None
    return b"".join(gathered)


def _block(data: bytes, number: int, size: int) -> Block:
    lines = data.removesuffix(b"\n").split(b"\n")
    numbers = list(range(number, number + len(lines)))
    if b"\r" in data:
        parted = [line.split(b"\r") for line in lines]
        numbers = [at for at, parts in zip(numbers, parted, strict=True) for _ in parts]
        lines = [part for parts in parted for part in parts]
    if len(data) > LONGEST and max(map(len, lines)) > LONGEST:
        lines = [_shortened(line) if len(line) > LONGEST else line for line in lines]
    return Block(lines, numbers, size)


def _shortened(piece: bytes) -> bytes:
    """The piece without its middle, cut between characters."""
    head, tail = piece[:_HEAD_KEPT], piece[-_TAIL_KEPT:]
    return _CUT_CHARACTER.sub(b"", head) + b" [...] " + _REST_OF_CHARACTER.sub(b"", tail)


def _ends_made_alike(data: bytes) -> bytes:
    """Lines that end in `\\n` alone, no empty pieces between carriage returns, no colours."""
    if b"\x1b" in data:
        data = _COLOUR.sub(b"", data)
    if b"\x08" in data:  # a bar of Keras goes back so, where its output is no terminal
        data = re.sub(rb"\x08+", b"\r", data)
    if b"\r" not in data:
        return data
    data = _ENDS.sub(b"\n", _ERASED.sub(b"\r", data))  # first the runs: the search for ends is quadratic in them
    return data.lstrip(b"\r") or data


def is_binary(data: bytes) -> bool:
    """Whether the first bytes of a file are not those of a text in any encoding: many control characters."""
    head = data[:_JUDGED]
    return len(head) - len(head.translate(None, _CONTROL)) > len(head) * _MOST_CONTROL


def lines_before(path: str, start: int) -> int:
    """How many lines end before a byte of a file. Raises `OSError`."""
    ends = 0
    if start > 0:
        with open_file(path) as stream:
            while start > 0 and (piece := stream.read(min(start, BLOCK))):
                ends += piece.count(b"\n")
                start -= len(piece)
    return ends


_FILE_RANK = re.compile(r"(?i)(?:^|[^a-z])(?:global_?)?(?:rank|task|worker|proc)[_.-]?(\d{1,5})(?!\d)")
_FOLDER_RANK = re.compile(r"[/\\](\d{1,5})[/\\](?:stderr|stdout)\.log")


def rank_of(path: str) -> int | None:
    """The rank that a file's name or folder says."""
    found = _FOLDER_RANK.search(path) or _FILE_RANK.search(path.replace("\\", "/").rpartition("/")[2])
    return int(found[1]) if found else None


# One line: prefixes and text

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_PASTED_COLOUR = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3})*)?m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_STRESSED = re.compile(r"(`|\*\*)([^\s`*][^`]{0,2000}?)\1[.,:!]?\s*$")
"""A line that a person pasted into a text of Markdown as a whole in bold letters or as code."""
_CLOCK, _DAY = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?", r"\d{4}[-/]\d\d[-/]\d\d"
_ZONE = r"(?:Z|UTC| ?[+-]\d\d:?\d\d)?"
_OF_A_JOB = r"(?:python[\d.]*|torchrun|accelerate|deepspeed|[\w.-]{1,60}\.(?:sh|py)|bash|sh|srun|mpirun|docker|podman)"
_FORMS = (
    # A cluster puts this before every line; the blanks behind it are of the line: kubectl, CRI, GitHub.
    rf"(?P<stamp>{_DAY}T{_CLOCK}(?:Z|[+-]\d\d:\d\d)) (?:(?:stdout|stderr) [FP] )?",
    rf"(?:(?P<stamp>[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}) )?(?P<node>[\w.-]{{1,80}}) {_OF_A_JOB}\[\d{{1,8}}\]: ",
    rf"\[?(?P<stamp>{_DAY}[T ]{_CLOCK}{_ZONE})\]?[\s,:-]*",
    rf"\[?[DEFIVW](?P<stamp>\d{{3,4}} {_CLOCK})\s+(?:\d+ )?(?=[\w./-]+:\d+\])",
    rf"\[?(?P<stamp>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{{3}} [ \d]\d {_CLOCK} \d{{4}})\]?\s*",
    rf"\[(?P<stamp>{_CLOCK})\]\s*",
    rf"\[[DIWEC] (?P<stamp>(?:(?:{_DAY}|\d{{6}}) )?{_CLOCK})(?: [A-Z]\w{{2,40}})?\]\s?",  # Jupyter, Optuna
    rf"(?:DEBUG|INFO|WARNING|ERROR) (?P<stamp>\d\d-\d\d {_CLOCK}) \[[\w./-]{{1,80}}:\d{{1,6}}\] ?",  # vLLM
    r"\[(?:rank|task)[ _]?(?P<rank>\d{1,6})\]\s?:?\s?",
    r"\[(?:default|trainer|train|worker|main|proc|process|local_rank|local-rank)_?(?P<rank>\d{1,6})\]\s?:\s?",
    r"[Rr]ank #(?P<rank>\d{1,6}):\s?",
    r"[\w./-]{1,200}\.py:\d{1,6}\] (?=Traceback| {2}|During handling|The above exception|"
    r"[\w.]*(?:Error|Exception)\b)",  # absl, one prefix a line of a traceback
    r"\[(?:[\w@.-]{1,80},)?(?:mpirank:)?(?P<rank>\d{1,6})(?:,[\w.-]{1,80})?\]<std\w+>:? ?",
    r"\((?:(?P<actor>\w[\w.:<>-]{0,80}),?\s+)?(?:\(\w+\)\s+)?(?:rank=(?P<rank>\d{1,6}),\s*)?"
    r"pid=(?P<pid>\d+)(?:,\s*ip=(?P<node>[\w.:-]+))?\)\s?",
    r"\[(?P<rank>\d{1,6})\]:\s?",
    r" {0,4}(?P<number>\d{1,5}):[ \t]",
    r"(?:> ){1,8}",  # a quotation of Markdown
    r"\[pod/(?P<node>[\w.-]+)(?:/[\w.-]+)?\]\s",
    r"(?P<node>[a-z][\w.-]*-\d{1,5})\s{1,8}\|\s?",
    r"(?P<node>\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}):\s",
    r"(?!(?:step|epoch|iter|loss|layer|cuda|gpu|rank|process|python|worker\s)\w*)"
    r"(?![\w.]+(?:Error|Exception|Timeout|Warning):)"  # sqlite3.OperationalError: an exception, and no node
    r"(?P<node>[a-z][a-z.-]*\d[\w.-]{0,60}):\s(?=\S| {2}|\t)",
    r"\[\d{1,7}\]\s(?=\[|Traceback|[DEFIVW]\d)",
)
_FORM = re.compile("|".join(re.sub(r"\?P<(\w+)>", rf"?P<\g<1>{at}>", form) for at, form in enumerate(_FORMS)))
_BEGINNING = re.compile(r" {0,4}[\[({\dA-Za-z]|> ")
_INSIDE = re.compile(r"\[[^\][]{0,80}\b[Rr]ank:?\s?(\d{1,6})\]")
_LEVEL = re.compile(
    r"^(?:\[?(?:ERROR|CRITICAL|FATAL|WARNING|WARN|INFO|DEBUG)\]?)(?:\s*[:|-]\s*|\s+)(?:[\w.]+:(?=\S))?(?:\[[^\]]{1,80}\]\s*)*"
)
_NEAR = 60
"""Characters at the beginning of a line in which a logger names the level."""
_LOW = re.compile(
    r"(?:^|[\[\s|-])(?:WARN(?:ING)?|INFO|DEBUG)(?=[\]\s:|-])|^\[[DIW] \d|(?:^|[\]\s:])[DIVW]\d{4} \d\d:\d\d:\d\d|"
    r"\[(?:warn(?:ing)?|info|debug|trace)\s{0,6}\]|\blevel=(?:warn(?:ing)?|info|debug|trace)\b"
)
_HIGH = re.compile(
    r"(?:^|[\[\s|-])(?:ERROR|CRITICAL|EXCEPTION|FATAL)(?=[\]\s:|-])|"
    r"\[(?:error|critical|fatal|panic)\s{0,6}\]|\blevel=(?:error|fatal|panic)\b"
)
OF_KERNEL = re.compile(r"\[ *\d{1,10}\.\d{6}\][ \t]| kernel: ")


@frozen(kw_only=False)
class PrefixedLine:
    """A line, its prefixes taken off."""

    text: str
    rank: int | None = None
    node: str = ""
    stamp: str = ""
    actor: str = ""
    """The name and process of an actor of Ray, or of a part of a server."""
    source: str = ""
    """Who wrote it, for lines of one traceback to be put together: rank, process or node."""
    low: bool = False
    """Whether a logger printed it as a warning or less."""


def text_of(raw: bytes) -> str:
    """Bytes of a line as text, without colours, control characters and the marks of Markdown round it.

    It is UTF-8, else GB 18030 (which holds GBK), else whatever can be read of it.
    """
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError:
        try:
            line = raw.decode("gb18030")
        except UnicodeDecodeError:
            line = raw.decode("utf-8", "replace")
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "m" in line and "[" in line and (line[:1] == "[" or "[0m" in line):
        line = _PASTED_COLOUR.sub("", line)
    if line[:1] in "`*" and (stressed := _STRESSED.match(line)):
        line = stressed[2]
    return _CONTROLS.sub("", line)


def take_apart(line: str) -> PrefixedLine:
    """Prefixes and text."""
    parts: dict[str, str] = {}
    rest = line
    for _ in range(6):
        found = _FORM.match(rest) if _BEGINNING.match(rest) else None
        if found is None:
            break
        own = {name.rstrip(digits): value for name, value in found.groupdict().items() if value is not None}
        if "number" in own and "number" in parts:
            break
        if own.get("pid"):
            own["who"] = f"{own.get('actor')} {own['pid']}"
        parts = {**parts, **own, "stamp": parts.get("stamp") or own.get("stamp", "")}
        rest = rest[found.end() :]
    said = parts.get("rank", parts.get("number"))
    if said is None and "ank" in rest and (inside := _INSIDE.search(rest)):
        said = inside[1]
    rank, actor, node = int(said) if said is not None else None, parts.get("who", ""), parts.get("node", "")
    source = actor or (f"rank {rank}" if rank is not None else node)
    return PrefixedLine(rest, rank, node, parts.get("stamp", ""), actor, source, low=of_low_level(line))


def of_error_level(text: str) -> bool:
    """Whether a logger printed a line as an error."""
    return _HIGH.search(text[:_NEAR]) is not None


def of_low_level(text: str) -> bool:
    """Whether a logger printed a line as a warning or less. NCCL's own warnings are errors, and not counted."""
    found = _LOW.search(text[:_NEAR])
    return found is not None and "NCCL" not in text[: found.end()]


def without_level(text: str) -> str:
    """A text without the level and the name that a logger puts before it."""
    found = _LEVEL.match(text)
    return text[found.end() :] if found else text


# Records of JSON, escaped line ends, and prefixes that a traceback shows

_TEXTS = (
    "log", "message", "msg", "textPayload", "MESSAGE", "line", "event", "text", "body", "data", "Message",
)  # fmt: skip
"""Keys under which records keep what the program printed."""
_NESTED = ("jsonPayload", "content", "attributes", "record", "fields", "_source", "result", "error", "exception")
_TIMES = ("time", "timestamp", "@timestamp", "asctime", "ts", "receiveTimestamp", "date")
_LEVELS = ("levelname", "level", "severity", "log_level", "log.level", "levelName", "lvl")
_RANKS = ("rank", "global_rank", "globalRank", "RANK", "process_index", "proc_rank", "rank_id")
_DEEPEST, _MOST_LINES = 4, 600
_LOW_WORD = re.compile(r"(?i)^(?:warn|info|debug|trace|notice)")
_ESCAPED = re.compile(r"Traceback \(most recent call last\):?(?:\\r)?(?:\\n|\\\\n)")
_LONGEST_PREFIX, _MOST_PREFIXES = 300, 8
_FRAME = re.compile(r' {0,4}[|+]? {1,3}File \\?".')
_LEVEL_WORD = r"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_VARYING = re.compile(rf"(?<! ) +\d+|\d+|\b{_LEVEL_WORD} *")
_RANK_WORD = re.compile(r"(?i)(?<![a-z])(?:global[ _-]?)?rank[ =:_#-]{0,2}(\d{1,6})(?!\d)|^\s*\[(\d{1,5})\]:?\s*$")
_TASK = re.compile(r" {0,4}(\d{1,5}):[ \t]")
_LAUNCHES = re.compile(
    rb" {0,4}(\d{1,5}):[ \t].*?(?:torch[./]distributed[./](?:run|launch|elastic)\b|\[(?:default|rank(?!\1\]))\d+\]:)"
)
_TIMES_OF_PREFIX = re.compile(r"\d{1,4}[-/.:]\d\d[-/.:][\d:.,TZ ]+|:\d+\]|\b\d{10,19}\b")


class Prefixes:
    """Takes lines apart: by the forms that everybody knows, and by those that a traceback of the file has shown."""

    def __init__(self) -> None:
        self._learned: dict[str, tuple[re.Pattern[str], list[bool]]] = {}
        """Each with which of its numbers say who prints, and are no times and no counts of lines."""
        self.launchers = False

    def learn(self, header: str, following: Iterable[str]) -> None:
        """Learn what stands before the header of a traceback, numbers apart, if a frame behind has it, too."""
        prefix = header.partition(HEADER)[0].removesuffix("Exception Group ")
        if not prefix.strip(" ") or len(prefix) > _LONGEST_PREFIX or '{"' in prefix or prefix.lstrip(" ")[:1] == '"':
            return
        form, at = "", 0
        for found in _VARYING.finditer(prefix):
            # A level that is padded with blanks has the same width as others.
            level = f"(?={_LEVEL_WORD} )[A-Z ]{{{len(found[0])}}}" if found[0].endswith(" ") else _LEVEL_WORD
            form += re.escape(prefix[at : found.start()]) + (r" *(\d+)" if found[0].strip().isdigit() else level)
            at = found.end()
        rest = prefix[at:].rstrip()
        form += re.escape(rest) + (f"(?:{re.escape(blanks)}|$)" if (blanks := prefix[at + len(rest) :]) else "")
        if form in self._learned or len(self._learned) >= _MOST_PREFIXES:
            return
        pattern = re.compile(form)
        frames = ((line, pattern.match(line)) for line in following)
        nothing: Any = ("", None)
        frame, found = next(((line, own) for line, own in frames if own and _FRAME.match(line, own.end())), nothing)
        one, known, other = pattern.match(header), take_apart(header), take_apart(frame)
        if found is None or one is None:
            return
        same = (known.rank, known.source) == (other.rank, other.source)
        if same and known.text.startswith(HEADER) and _FRAME.match(" " + other.text):
            return
        timed = _TIMES_OF_PREFIX.sub(lambda each: "t" * len(each[0]), prefix)
        named = [
            timed[one.start(number)] != "t" and one[number] == found[number] for number in range(1, pattern.groups + 1)
        ]
        self._learned[form] = pattern, named

    def look(self, pieces: Sequence[bytes]) -> None:
        """See whether a task of srun is a launcher of ranks, before any line of a block is read."""
        if not self.launchers and any(map(_TASK.match, map(text_of, pieces[:64]))):
            self.launchers = any(map(_LAUNCHES.match, pieces))

    def line(self, text: str) -> PrefixedLine:
        """Prefixes and text of a line that `text_of` gave.

        The number that `srun --label` prints is that of a task: it is no rank where a task is a launcher of ranks.
        """
        task = _TASK.match(text) if self.launchers else None
        if task is None:
            return self._line(text)
        line = self._line(text[task.end() :])
        return line if line.source else replace(line, source=f"task {task[1]}")

    def _line(self, text: str) -> PrefixedLine:
        for form, named in self._learned.values():
            if found := form.match(text):
                prefix, rest = found[0], text[found.end() :]
                if prefix.rstrip().endswith('"'):
                    rest = rest.removesuffix('"').replace('\\"', '"')
                known = take_apart(prefix) if any(named) or not found.groups() else PrefixedLine(prefix)
                behind = take_apart(rest) if rest[:1] not in (" ", "\t") else PrefixedLine(rest)
                said = _RANK_WORD.search(prefix)
                own = known.rank if known.rank is not None else int(said[1] or said[2]) if said else None
                rank = behind.rank if behind.rank is not None else own
                who = " ".join(number for number, own in zip(found.groups(), named, strict=True) if own)
                node, actor = behind.node or known.node, behind.actor or known.actor
                source = actor or (f"rank {rank}" if rank is not None else node or who)
                return PrefixedLine(behind.text, rank, node, known.stamp or behind.stamp, actor, source, low=known.low)
        return take_apart(text)

    def lines(self, text: str) -> tuple[list[PrefixedLine], str]:
        """The lines that a line holds, prefixes and text, and the innermost record if it is one, else ""."""
        line = self.line(text)
        inner = line.text
        if inner.lstrip()[:1] != "{" and (HEADER not in inner or inner.endswith((HEADER, f"{HEADER}:"))):
            return [line], ""
        record = record_of(inner)
        if record is None:
            return [line], ""
        rank = record.rank if line.rank is None else line.rank
        outer = replace(
            line,
            rank=rank,
            stamp=line.stamp or record.stamp,
            low=line.low or record.low,
            source=line.source or (f"rank {rank}" if rank is not None else ""),
        )
        if len(record.lines) > 1:
            return [replace(outer, text=each) for each in record.lines], record.whole
        within = take_apart(record.lines[0])
        rank = within.rank if within.rank is not None else rank
        return [
            PrefixedLine(
                within.text,
                rank,
                within.node or line.node,
                outer.stamp or within.stamp,
                within.actor or line.actor,
                within.source or outer.source,
                low=outer.low or within.low,
            )
        ], record.whole


@frozen(kw_only=False)
class ShippedRecord:
    """What a record of several lines, or one of its lines, holds."""

    lines: tuple[str, ...]
    stamp: str = ""
    low: bool = False
    rank: int | None = None
    whole: str = ""
    """The innermost record: what a program says of its progress may stand in any of its fields."""


def record_of(text: str) -> ShippedRecord | None:
    """The lines within a line that is a record of JSON, or has escaped line ends; None for another one."""
    if text[:1] == "{" and text.rstrip()[-1:] == "}":
        try:
            found = _of_json(json.loads(text), 0)
            return found and replace(found, whole=found.whole or text)
        except (ValueError, RecursionError):
            pass
    if _ESCAPED.search(text):
        return ShippedRecord(_unescaped(text), whole=text)
    return None


def _of_json(value: Any, depth: int) -> ShippedRecord | None:
    if not isinstance(value, dict):
        return None
    stamp = next((value[key] for key in _TIMES if isinstance(value.get(key), str)), "")
    low = any(isinstance(value.get(key), str) and _LOW_WORD.match(value[key]) is not None for key in _LEVELS)
    ranks = (str(value.get(key, "")) for key in _RANKS)
    rank = next((int(said) for said in ranks if said.isdecimal() and len(said) < 7), None)
    said = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), None)
    inner: ShippedRecord | None = None
    if said is not None and said[:1] == "{" and depth < _DEEPEST:
        inner = record_of(said.rstrip())
    lines = _lines(said) if said is not None else ()
    raised = _traceback_in(value, depth)
    if raised is not None and HEADER not in (said or ""):
        lines = (*lines, *_lines(raised))
    if inner is None and not lines and depth < _DEEPEST:
        nested = [value[key] for key in (*_TEXTS, *_NESTED) if isinstance(value.get(key), dict)]
        inner = next(filter(None, (_of_json(item, depth + 1) for item in nested)), None)
    if inner is not None:
        rank = rank if inner.rank is None else inner.rank
        return replace(inner, stamp=inner.stamp or stamp, low=inner.low or low, rank=rank)
    return ShippedRecord(lines, stamp, low, rank) if lines else None


def _traceback_in(value: Any, depth: int) -> str | None:
    """The first traceback of several lines in a record."""
    if isinstance(value, str):
        return value if HEADER in value and "\n" in value.strip() else None
    if not isinstance(value, dict) or depth >= _DEEPEST:
        return None
    return next(filter(None, (_traceback_in(item, depth + 1) for item in value.values())), None)


def _lines(text: str) -> tuple[str, ...]:
    lines = text.rstrip("\r\n").split("\n")[:_MOST_LINES]
    return tuple(text_of(line.rstrip("\r").encode("utf-8", "replace")) for line in lines)


def _unescaped(text: str) -> tuple[str, ...]:
    """The lines of a text whose line ends are escaped, up to the quotation mark that ends it."""
    before, _, rest = text.partition(HEADER)
    quote = next((mark for mark in reversed(before) if mark in "\"'"), "")
    twice = "\\\\n" in rest
    if quote and (end := re.search(rf"(?<!\\)(?:\\\\)*{quote}", rest)) and not twice:
        rest = rest[: end.start()]
    rest = rest.replace("\\\\n" if twice else "\\n", "\n").replace('\\"', '"').replace("\\'", "'")
    return (f"{before}{HEADER}", *_lines(rest.partition("\n")[2]))
