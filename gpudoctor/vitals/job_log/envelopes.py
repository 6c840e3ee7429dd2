"""What a shipper of logs puts round lines, whoever it is: records of JSON, escaped lines, prefixes of any kind.

A record is known by its form. A prefix that no form knows shows itself by a traceback: it stands before the
header, and before the frame in the next line again, its numbers apart.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpudoctor.vitals.job_log.line_prefix import PrefixedLine, plain, take_apart

HEADER = "Traceback (most recent call last)"
_WHOLE = (HEADER, f"{HEADER}:")
_TEXTS = (
    "log", "message", "msg", "textPayload", "MESSAGE", "line", "event", "text", "body", "data", "Message",
)  # fmt: skip
"""Keys under which records keep what the program printed."""
_NESTED = ("jsonPayload", "content", "attributes", "record", "fields", "_source", "result", "error", "exception")
_TIMES = ("time", "timestamp", "@timestamp", "asctime", "ts", "receiveTimestamp", "date")
_LEVELS = ("levelname", "level", "severity", "log_level", "log.level", "levelName", "lvl")
_RANKS = ("rank", "global_rank", "globalRank", "RANK", "process_index", "proc_rank", "rank_id")
_DEEPEST = 4
_MOST_LINES = 600
_FIELD = re.compile(r'^\s*"(?:log|message|msg|textPayload|MESSAGE|line|body)": ?("(?:[^"\\]|\\.)*"),?$')
"""A line of a record that is printed over several lines."""
_LOW = re.compile(r"(?i)^(?:warn|info|debug|trace|notice)")
_ESCAPED = re.compile(r"Traceback \(most recent call last\):?(?:\\r)?(?:\\n|\\\\n)")
_BEFORE_RECORD = re.compile(r'^[\w.:/-]{1,120}:? (?=\{"(?:log|message|MESSAGE|stream|container\w*|kubernetes)":)')
"""The tag that fluentd prints before a record."""
_JOINED = re.compile(
    r'Traceback \(most recent call last\):?\s*(?:<br ?/?>\s*)?(?:File ".|Cell In|<ipython-input|in <|[~/]\S)'
)
_BREAK, _BEFORE_FRAME = re.compile(r"<br ?/?>"), re.compile(r'(?<!\s)\s{1,200}(?=File "[^"]{1,500}", line \d)')
_NAMED = re.compile(r"(?:^|\s)(?=(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: |\s*$))", re.M)
_IN = re.compile(r'^( +File "[^"]{1,500}", line \d{1,8}, in (?:<\w+>|\w+)) .*')
"""What parts a traceback that was pasted as one line."""
_LONGEST = 300
"""Characters of a prefix."""
_MOST_SHAPES = 8
_NUMBER = re.compile(r"\d+")
_CLOCK = re.compile(
    r"\d{4}[-/.]\d\d[-/.]\d\d|\d\d[-/.]\d\d[-/.]\d{4}|(?<!\w)\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?(?!\d)|(?<![\w-])\d{10,19}(?![\w-])|"
    r"(?<=:)\d{1,6}(?=[\]}])"
)
"""Times in a prefix, and the line of the source that logs."""
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)\b")
_ANY_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_RANK = re.compile(r"(?i)(?<![a-z])(?:global[ _-]?)?rank[ =:_#-]{0,2}(\d{1,6})(?!\d)")
_ONLY_NUMBER = re.compile(r"^\s*\[(\d{1,5})\]:?\s*$")
_OF_GROUP, _MARGIN = re.compile(r"(?:(?<! ) {2,80}[+|] )?Exception Group $"), re.compile(r"(?<! ) {2,80}[+|] $")
_FRAME = re.compile(r' {0,4}[|+]? {1,3}File \\?".')


@dataclass(frozen=True, slots=True)
class ShippedRecord:
    """What a record of several lines, or one of its lines, holds."""

    lines: tuple[str, ...]
    stamp: str = ""
    low: bool = False
    """Whether its level is a warning or less."""
    rank: int | None = None
    """The one that a field of its own names."""
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
    elif text.lstrip()[:1] == '"' and (field := _FIELD.match(text)):
        try:
            return ShippedRecord(_lines(json.loads(field[1])))
        except ValueError:
            return None
    if _ESCAPED.search(text):
        return ShippedRecord(_unescaped(text))
    if _JOINED.search(text):
        return ShippedRecord(_parted(text))
    return None


def _parted(text: str) -> tuple[str, ...]:
    """The lines of a traceback that stands in one line."""
    before, _, rest = text.partition(HEADER)
    rest = _BREAK.sub("\n", rest.lstrip(": "))
    at = max((found.start() for found in _NAMED.finditer(rest)), default=len(rest))
    frames = _BEFORE_FRAME.sub("\n  ", rest[:at])
    lines = [line for line in f"{frames}\n{rest[at:].lstrip()}".splitlines() if line.strip()]
    return (f"{before}{HEADER}", *(_IN.sub(r"\1", line) for line in lines))


def _of_json(value: Any, depth: int) -> ShippedRecord | None:
    if not isinstance(value, dict):
        return None
    stamp = next((value[key] for key in _TIMES if isinstance(value.get(key), str)), "")
    low = any(isinstance(value.get(key), str) and _LOW.match(value[key]) is not None for key in _LEVELS)
    rank = _rank_of(value)
    said = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), None)
    if said is not None and said[:1] == "{" and depth < _DEEPEST:
        inner = record_of(said.rstrip())
        if inner is not None:
            return replace(inner, stamp=inner.stamp or stamp, rank=rank if inner.rank is None else inner.rank)
    nested = [value[key] for key in (*_TEXTS, *_NESTED) if isinstance(value.get(key), dict)]
    raised = _tracebacks(value, depth)
    lines = _lines(said) if said is not None else ()
    if raised is not None and HEADER not in (said or ""):
        lines = (*lines, *_lines(raised))
    if not lines and depth < _DEEPEST:
        within = next(filter(None, (_of_json(item, depth + 1) for item in nested)), None)
        if within is None:
            return None
        rank = rank if within.rank is None else within.rank
        return replace(within, stamp=within.stamp or stamp, low=within.low or low, rank=rank)
    return ShippedRecord(lines, stamp, low, rank) if lines else None


def _rank_of(value: dict[str, Any]) -> int | None:
    """The rank in a field of a record."""
    for key in _RANKS:
        said = str(value.get(key, ""))
        if said.isdecimal() and len(said) < 7:
            return int(said)
    return None


def _tracebacks(value: Any, depth: int) -> str | None:
    """The first traceback of several lines in a record."""
    if isinstance(value, str):
        return value if HEADER in value and "\n" in value.strip() else None
    if isinstance(value, dict) and depth < _DEEPEST:
        return next(filter(None, (_tracebacks(item, depth + 1) for item in value.values())), None)
    if isinstance(value, list) and depth < _DEEPEST and value:
        if isinstance(value[0], str) and HEADER in value[0] and len(value) > 1:
            return "\n".join(item.rstrip("\n") for item in value if isinstance(item, str))
        return next(filter(None, (_tracebacks(item, depth + 1) for item in value)), None)
    return None


def _lines(text: str) -> tuple[str, ...]:
    lines = text.rstrip("\r\n").split("\n")
    return tuple(plain(line.rstrip("\r")) for line in lines[:_MOST_LINES])


def _unescaped(text: str) -> tuple[str, ...]:
    """The lines of a text whose line ends are escaped, up to the quotation mark that ends it."""
    before, _, rest = text.partition(HEADER)
    quote = next((mark for mark in reversed(before) if mark in "\"'"), "")
    twice = "\\\\n" in rest
    if quote and (end := re.search(rf"(?<!\\)(?:\\\\)*{quote}", rest)) and not twice:
        rest = rest[: end.start()]
    rest = rest.replace("\\\\n" if twice else "\\n", "\n").replace('\\"', '"').replace("\\'", "'")
    return (f"{before}{HEADER}", *_lines(rest.partition("\n")[2]))


@dataclass(frozen=True, slots=True)
class _Shape:
    """A prefix that stands before lines, its numbers apart."""

    pattern: re.Pattern[str]
    named: tuple[bool, ...]
    """Of each of its numbers: whether it names who prints, and is no time and no count of lines."""
    rank: bool
    """Whether one of the numbers is that of the rank."""
    quoted: bool
    """Whether the line stands in quotation marks behind it."""


class Envelopes:
    """Takes prefixes off: those that `take_apart` knows, and those that a traceback of the file has shown."""

    def __init__(self) -> None:
        self._shapes: dict[str, _Shape] = {}

    def learn(self, header: str, following: Iterable[str], *, group: bool) -> None:
        """Learn the prefix of a line that holds the header of a traceback, if a frame behind it has it, too.

        Other processes may have written between the two. `group` says that an exception group is open.
        """
        prefix = _OF_GROUP.sub("", header.partition(HEADER)[0])
        if group:
            prefix = _MARGIN.sub("", prefix)
        if not prefix.strip(" ") or len(prefix) > _LONGEST or '{"' in prefix or prefix.lstrip(" ")[:1] == '"':
            return
        form = _pattern(prefix)
        if form in self._shapes or len(self._shapes) >= _MOST_SHAPES:
            return
        pattern = re.compile(form)
        one = pattern.match(header)
        if one is None:
            return
        timed = _CLOCK.sub(lambda found: re.sub(r"\d", "t", found[0]), prefix)
        fixed = [timed[number.start()] != "t" for number in _NUMBER.finditer(prefix)]
        frames = [
            (line, found) for line in following if (found := pattern.match(line)) and _FRAME.match(line, found.end())
        ]
        if not frames:
            return
        own = [item for item in frames if _kept(one.groups(), item[1].groups(), fixed) == fixed]
        line, other = (own or frames)[0]
        known, next_known = take_apart(header), take_apart(line)
        same = (known.rank, known.source) == (next_known.rank, next_known.source)
        if same and known.text.startswith(HEADER) and _FRAME.match(" " + next_known.text):
            return
        self._shapes[form] = _Shape(
            pattern,
            tuple(_kept(one.groups(), other.groups(), fixed)),
            rank=known.rank == next_known.rank,
            quoted=prefix.endswith('"'),
        )

    def lines(self, text: str) -> tuple[list[PrefixedLine], ShippedRecord | None]:
        """The lines that a line of `plain` holds, prefixes and text, and the record if it is one."""
        line = self.take_apart(text)
        inner = line.text
        if inner[-1:] == "}" and inner[:1] != "{" and (found := _BEFORE_RECORD.match(inner)):
            inner = inner[found.end() :]
        if inner.lstrip()[:1] not in ("{", '"') and not (HEADER in inner and not inner.endswith(_WHOLE)):
            return [line], None
        record = record_of(inner)
        if record is None:
            return [line], None
        if len(record.lines) > 1:
            if record.rank is not None and line.rank is None:
                line = replace(line, rank=record.rank, source=line.source or f"rank {record.rank}")
            return [replace(line, text=each, stamp=line.stamp or record.stamp) for each in record.lines], record
        within = take_apart(record.lines[0])
        rank = next((each for each in (within.rank, line.rank, record.rank) if each is not None), None)
        return [
            replace(
                within,
                rank=rank,
                node=within.node or line.node,
                stamp=record.stamp or line.stamp or within.stamp,
                actor=within.actor or line.actor,
                source=within.source or line.source or (f"rank {rank}" if rank is not None else ""),
            )
        ], record

    def take_apart(self, text: str) -> PrefixedLine:
        """Prefixes and text of a line of `plain`."""
        for shape in self._shapes.values():
            if found := shape.pattern.match(text):
                return _taken(shape, found, text)
        return take_apart(text)


def _kept(one: Sequence[str], other: Sequence[str], fixed: Sequence[bool]) -> list[bool]:
    """Which numbers that are no times two lines share."""
    return [each and before == behind for before, behind, each in zip(one, other, fixed, strict=True)]


def _pattern(prefix: str) -> str:
    """A pattern for a prefix: any number in the place of each, any level in the place of its."""
    parts: list[str] = []
    at = 0
    for found in re.finditer(rf"(?P<number>(?:(?<! ) {{1,80}})?\d+)|{_LEVEL.pattern} *", prefix):
        parts.append(re.escape(prefix[at : found.start()]))
        parts.append(r" *(\d+)" if found["number"] else _level(found[0]))
        at = found.end()
    rest = prefix[at:]
    cut = rest.rstrip()
    parts.append(re.escape(cut))
    if len(cut) < len(rest):
        parts.append(rf"(?:{re.escape(rest[len(cut) :])}|$)")
    return "^" + "".join(parts)


def _level(text: str) -> str:
    """A pattern for a level; one that is padded with blanks has the same width as others."""
    word = text.rstrip()
    padding = len(text) - len(word)
    return rf"(?={_ANY_LEVEL} )[A-Z ]{{{len(text)}}}" if padding > 1 else _ANY_LEVEL + " " * padding


def _taken(shape: _Shape, found: re.Match[str], text: str) -> PrefixedLine:
    prefix, rest = found[0], text[found.end() :]
    if shape.quoted:
        rest = rest.removesuffix('"').replace('\\"', '"')
    known = take_apart(prefix)
    rank = known.rank if shape.rank else None
    if rank is None and shape.rank:
        said = _RANK.search(prefix) or _ONLY_NUMBER.match(prefix)
        rank = int(said[1]) if said else None
    behind = take_apart(rest) if rest[:1] not in (" ", "\t") else PrefixedLine(rest)
    who = " ".join(number for number, named in zip(found.groups(), shape.named, strict=True) if named)
    rank = behind.rank if behind.rank is not None else rank
    actor = behind.actor or known.actor
    return PrefixedLine(
        text=behind.text,
        rank=rank,
        node=behind.node or known.node,
        stamp=known.stamp or behind.stamp,
        actor=actor,
        source=actor or (f"rank {rank}" if rank is not None else behind.node or known.node or who),
    )
