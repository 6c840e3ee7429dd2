"""Slurm's accounting of a job as events of its log: tables of `sacct` with any columns, by width or with `-P`."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.external_files import read_file
from gpudoctor.model.log_message import LogMessage
from gpudoctor.model.read_limits import SMALL_JSON
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.job_log import JobLog, LogEvent, LogFile
from gpudoctor.model.unavailable import Unread
from gpudoctor.text import size
from gpudoctor.vitals.job_log.events import event_of
from gpudoctor.vitals.log_lines import text_of

_COLUMNS = frozenset(
    {"account", "elapsed", "end", "exitcode", "jobid", "jobidraw", "jobname", "maxrss", "nodelist", "partition",
     "reqmem", "start", "timelimit", "user"}
)  # fmt: skip
_DELIMITERS = "|;,\t"
_RULE = re.compile(r"-{2,}(?: +-{2,})+\s*$")
_STATE = re.compile(r"[A-Z][A-Z_]+\+?(?: by \d+)?$")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?[nc]?$", re.IGNORECASE)
_STATES = (
    ("OUT_OF_ME", "oom-slurm"),
    ("NODE_FAIL", "node-failure"),
    ("PREEMPTED", "preemption"),
    ("TIMEOUT", "time-limit"),
    ("CANCELLED", "cancelled"),
)
"""Beginnings of states (a table by width cuts them) and what they are."""
_EXITS = {":125": "oom-slurm", "137:0": "sigkill", ":9": "sigkill", "143:0": "sigterm", ":15": "sigterm"}
"""Ends of `exit:signal` of a failed job; 125 is Slurm's own for a kill by the memory's control group."""
_ORDER = ("oom-slurm", "node-failure", "preemption", "time-limit", "cancelled", "sigkill", "sigterm")
"""Kinds, the most telling first: of a job that ran out of memory, the steps are merely cancelled."""
_BEFORE_ALL = frozenset(_ORDER[:3])
"""What strikes a job that is well: what its log says is later. A limit of time may end what stood still."""


@frozen
class _Row:
    """What Slurm says of a job or a step, by the names of the columns in small letters."""

    line: int
    text: str
    cells: Mapping[str, str]

    @property
    def name(self) -> str:
        """The number of the job, with its step."""
        return self.cells.get("jobid") or self.cells.get("jobidraw") or ""

    @property
    def kind(self) -> str:
        """The wording of a death that it is (`time-limit`); "" for one that tells of none."""
        state, code = self.cells["state"].upper(), self.cells.get("exitcode", "")
        if state.startswith("FAILED"):
            return next((kind for end, kind in _EXITS.items() if code.endswith(end)), "")
        return next((kind for beginning, kind in _STATES if state.startswith(beginning)), "")


def is_sacct(head: str) -> bool:
    """Whether a text is such a table and nothing else, by its first lines."""
    rows = _rows(head)
    return bool(rows) and all(_STATE.match(row.cells["state"]) for row in rows)


def with_sacct(log: JobLog, paths: Sequence[str], messages: Iterable[tuple[str, LogMessage]]) -> JobLog:
    """The log with the deaths that these files tell of. Raises `Unread` if nothing could be read."""
    if not paths:
        return log
    files, problems = list(log.files), list(log.problems)
    jobs: dict[str, list[tuple[str, _Row]]] = defaultdict(list)
    for path in paths:
        try:
            data = read_file(path, SMALL_JSON)
        except OSError as error:
            problems.append(say("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error))
            continue
        files.append(LogFile(path=path, lines=len(data.splitlines()), bytes=len(data)))
        for row in _rows(text_of(data)):
            jobs[row.name.partition(".")[0]].append((path, row))
    if not files:
        raise Unread(concatenated("; ", problems))
    names = " ".join(item.path.replace("\\", "/").rpartition("/")[2] for item in log.files)
    named = set(re.findall(r"(?<![A-Za-z0-9])[\d_]+(?![A-Za-z0-9])", names))
    # Of several jobs the one that the name of a log holds (`slurm-4711.out`), else all.
    rows = [own for job, own in jobs.items() if job in named] or list(jobs.values())
    known = {message.kind: (code, message) for code, message in reversed(tuple(messages))}
    found = [death for own in rows if (death := _death(own, known)) is not None]
    deaths = [replace(item, step=log.last_step) for item in found]
    before = [item for item in deaths if item.kind in _BEFORE_ALL]
    behind = [item for item in deaths if item.kind not in _BEFORE_ALL]
    healthy = any(row.cells["state"].startswith("COMPLETED") for own in rows for _, row in own)
    return replace(
        log,
        files=tuple(files),
        events=tuple(replace(item, order=number) for number, item in enumerate((*before, *log.events, *behind))),
        finished=log.finished or (not deaths and healthy),
        problems=tuple(problems),
    )


def _rows(text: str) -> list[_Row]:
    """The rows of a table; none of another text."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        return []
    header, ruled = lines[0][1], len(lines) > 1 and _RULE.match(lines[1][1]) is not None
    spans = [found.span() for found in re.finditer(r"-+", lines[1][1])] if ruled else []
    delimiter = next((each for each in _DELIMITERS if each in header), "")

    def cells(line: str) -> list[str]:
        parts = [line[begin:end] for begin, end in spans] if ruled else line.split(delimiter or None)
        return [part.strip() for part in parts]

    names = [name.lower() for name in cells(header)]
    if "state" not in names or len(_COLUMNS.intersection(names)) < 2 or not (ruled or delimiter):
        return []
    tables = [(number, line) for number, line in lines[1:] if not _RULE.match(line) and line != header]
    rows = [(number, line, dict(zip(names, cells(line), strict=False))) for number, line in tables]
    return [_Row(line=number, text=" ".join(line.split()), cells=row) for number, line, row in rows if "state" in row]


def _death(rows: Sequence[tuple[str, _Row]], known: Mapping[str, tuple[str, LogMessage]]) -> LogEvent | None:
    """The most telling record of a job; one that was queued again counts by its last end."""
    heads = [number for number, (_, row) in enumerate(rows) if "." not in row.name]
    last = rows[heads[-1] :] if heads else rows
    told = [item for item in last if item[1].kind in known]
    if not told or (heads and last[0][1].cells["state"].startswith("COMPLETED")):
        return None
    path, first = min(told, key=lambda item: _ORDER.index(item[1].kind))
    code, message = known[first.kind]
    end, node = first.cells.get("end", ""), first.cells.get("nodelist", "")
    asked = re.search(r"by (\d+)", first.cells["state"])
    # The row of the job has no memory in use, and those of its steps no limit.
    own = {key: value for _, row in (*last, (path, first)) for key, value in row.cells.items() if value}
    limit = own.get("timelimit", "") if first.kind == "time-limit" else _memory(own.get("reqmem", ""))
    values = {
        "limit": "" if limit.lower() in ("unlimited", "partition_limit") else limit,
        "used": _memory(own.get("maxrss", "")) if first.kind == "oom-slurm" else "",
        "elapsed": own.get("elapsed", ""),
        "when": end if end[:1].isdigit() else "",
        # Nothing is said of them: a report to share hides them in the row.
        "user": own.get("user", ""),
        "account": own.get("account", ""),
        "who": say("user {number}", number=asked[1]) if asked else "",
    }
    return event_of(
        code,
        message,
        path=path,
        line=first.line,
        text=first.text,
        values=values.items(),
        stamp=values["when"],
        node=node if re.fullmatch(r"[\w.-]+", node) and node != "None" else "",
    )


def _memory(text: str) -> str:
    """`65536000K`, `64Gn` as people write it; "" for none. Slurm's units are binary."""
    found = _MEMORY.match(text)
    if not found or not float(found[1]):
        return ""
    per = " per CPU" if text.endswith("c") else ""
    return size(float(found[1]) * 1024.0 ** (" KMGTP".index(found[2].upper() or "M"))) + per
