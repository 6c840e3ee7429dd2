"""What launchers, schedulers and loggers put before a line: rank, node, time. The rest is the text."""

import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_PASTED_COLOUR = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3})*)?m")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_STRESSED = re.compile(r"(`|\*\*)([^\s`*][^`]{0,2000}?)\1[.,:!]?\s*$")
"""A line that a person pasted into a text of Markdown as a whole in bold letters or as code."""

_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_ZONE = r"(?:Z|UTC| ?[+-]\d\d:?\d\d)?"
_OF_A_JOB = (
    r"(?:python[\d.]*|torchrun|accelerate|deepspeed|[\w.-]{1,60}\.(?:sh|py)|bash|sh|srun|mpirun|docker|"
    r"podman)"
)
"""Programs that print the lines of a job: journald and syslog put their names before these."""
_FORMS = tuple(
    re.compile(form)
    for form in (
        # A cluster puts this before every line; the blanks behind it are of the line: kubectl, CRI, GitHub.
        rf"(?P<stamp>{_DAY}T{_CLOCK}(?:Z|[+-]\d\d:\d\d)) (?:(?:stdout|stderr) [FP] )?",
        rf"(?:(?P<stamp>[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}) )?(?P<node>[\w.-]{{1,80}}) {_OF_A_JOB}"
        r"\[\d{1,8}\]: ",
        rf"\[?(?P<stamp>{_DAY}[T ]{_CLOCK}{_ZONE})\]?[\s,:-]*",
        rf"\[?[DEFIVW](?P<stamp>\d{{3,4}} {_CLOCK})\s+(?:\d+ )?(?=[\w./-]+:\d+\])",
        rf"\[?(?P<stamp>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{{3}} [ \d]\d {_CLOCK} \d{{4}})\]?\s*",
        rf"\[(?P<stamp>{_CLOCK})\]\s*",
        rf"\[[DIWEC] (?P<stamp>(?:(?:{_DAY}|\d{{6}}) )?{_CLOCK})(?: [A-Z]\w{{2,40}})?\]\s?",  # Jupyter, Optuna
        rf"(?:DEBUG|INFO|WARNING|ERROR) (?P<stamp>\d\d-\d\d {_CLOCK}) \[[\w./-]{{1,80}}:\d{{1,6}}\] ?",  # vLLM
        r"\[rank[ _]?(?P<rank>\d{1,6})\]\s?:?\s?",
        r"\[(?:default|trainer|train|worker|main|proc|process|local_rank|local-rank)_?"
        r"(?P<rank>\d{1,6})\]\s?:\s?",
        r"\[task[ _](?P<rank>\d{1,6})\]\s?:?\s?",
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
)
_ANY_FORM = re.compile("|".join(f"(?:{re.sub(r'[(][?]P<[a-z]+>', '(?:', form.pattern)})" for form in _FORMS))
"""Whether one of them matches: most lines have none."""
_HEAD = re.compile(r" {0,4}[\[({\dA-Za-z]|> ")
_INSIDE = re.compile(r"\[[^\][]{0,80}\b[Rr]ank:?\s?(\d{1,6})\]")
_LEVEL = re.compile(
    r"^(?:\[?(?:ERROR|CRITICAL|FATAL|WARNING|WARN|INFO|DEBUG)\]?)(?:\s*[:|-]\s*|\s+)(?:[\w.]+:(?=\S))?(?:\[[^\]]{1,80}\]\s*)*"
)


_WARNED = re.compile(
    r"(?:^|[\[\s|-])(?:WARN(?:ING)?|INFO|DEBUG)(?=[\]\s:|-])|"
    r"^\[[DIW] \d|(?:^|[\]\s:])[DIVW]\d{4} \d\d:\d\d:\d\d|"
    r"\[(?:warn(?:ing)?|info|debug|trace)\s{0,6}\]|\blevel=(?:warn(?:ing)?|info|debug|trace)\b"
)
OF_KERNEL = re.compile(r"\[ *\d{1,10}\.\d{6}\][ \t]| kernel: ")
"""A line of the kernel: each of its kills is printed in the same words, and is no new run of the program."""
_NEAR = 60
"""Characters at the beginning of a line in which a logger names the level."""


@dataclass(frozen=True, slots=True)
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


def plain(line: str) -> str:
    """The line without colours, control characters, and the marks of Markdown round it."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "m" in line and "[" in line and (line[:1] == "[" or "[0m" in line):
        line = _PASTED_COLOUR.sub("", line)
    if line[:1] in "`*" and (stressed := _STRESSED.match(line)):
        line = stressed[2]
    return _CONTROL.sub("", line)


def take_apart(line: str) -> PrefixedLine:
    """Prefixes and text. The line is one of `plain`."""
    rank: int | None = None
    node = actor = stamp = ""
    number: int | None = None
    rest = line
    for _ in range(6):
        if not (_HEAD.match(rest) and _ANY_FORM.match(rest)):
            break
        for form in _FORMS:
            found = form.match(rest)
            if found is None:
                continue
            parts = found.groupdict()
            if parts.get("number") is not None:
                if number is not None:
                    continue
                number = int(parts["number"])
            if parts.get("rank") is not None:
                rank = int(parts["rank"])
            node = parts.get("node") or node
            stamp = stamp or parts.get("stamp") or ""
            if parts.get("pid"):
                actor = f"{parts['actor']} {parts['pid']}"
            rest = rest[found.end() :]
            break
        else:
            break
    if rank is None:
        rank = number
    if rank is None and "ank" in rest and (inside := _INSIDE.search(rest)):
        rank = int(inside[1])
    source = actor or (f"rank {rank}" if rank is not None else node)
    return PrefixedLine(text=rest, rank=rank, node=node, stamp=stamp, actor=actor, source=source)


_FAILED = re.compile(
    r"(?:^|[\[\s|-])(?:ERROR|CRITICAL|EXCEPTION|FATAL)(?=[\]\s:|-])|"
    r"\[(?:error|critical|fatal|panic)\s{0,6}\]|\blevel=(?:error|fatal|panic)\b"
)


def of_error_level(text: str) -> bool:
    """Whether a logger printed a line as an error."""
    return _FAILED.search(text[:_NEAR]) is not None


def of_low_level(text: str) -> bool:
    """Whether a logger printed a line as a warning or less. NCCL's own warnings are errors, and not counted."""
    found = _WARNED.search(text[:_NEAR])
    return found is not None and "NCCL" not in text[: found.end()]


def without_level(text: str) -> str:
    """A text without the level and the name that a logger puts before it."""
    found = _LEVEL.match(text)
    return text[found.end() :] if found else text
