"""Slurm's records: tables of `sacct` with any columns, by width or with `-P`, and `scontrol show job`."""

import re
from collections.abc import Iterator, Mapping

from gpudoctor.model.records import frozen
from gpudoctor.text import size

_COLUMNS = frozenset(
    {
        "account",
        "alloccpus",
        "derivedexitcode",
        "elapsed",
        "end",
        "exitcode",
        "jobid",
        "jobidraw",
        "jobname",
        "maxrss",
        "nodelist",
        "partition",
        "reqmem",
        "start",
        "state",
        "timelimit",
        "user",
    }
)
_DELIMITERS = "|;,\t"
_RULE = re.compile(r"-{2,}(?: +-{2,})+\s*$")
_PAIR = re.compile(r"(?:^|\s)([A-Z][\w:/]*)=(\S*)")
_SETTING = re.compile(r"\s*[A-Z][\w:/]*=")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?[nc]?$", re.IGNORECASE)
_STATES = (
    ("OUT_OF_ME", "oom-slurm"),
    ("NODE_FAIL", "node-failure"),
    ("BOOT_FAIL", "node-failure"),
    ("PREEMPTED", "preemption"),
    ("TIMEOUT", "time-limit"),
    ("DEADLINE", "time-limit"),
    ("CANCELLED", "cancelled"),
)
"""Beginnings of states (a table by width cuts them) and what they are."""
_SIGNALS = {"9": "sigkill", "15": "sigterm", "125": "oom-slurm"}
"""Of `exit:signal`, by signal; 125 is Slurm's own for a kill by the memory's control group."""
_HELD = (
    "AccountNotAllowed",
    "BadConstraints",
    "DependencyNeverSatisfied",
    "InvalidAccount",
    "InvalidQOS",
    "JobHeldAdmin",
    "JobHeldUser",
    "JobHoldMaxRequeue",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "QOSNotAllowed",
    "ReservationDeleted",
    "ReservationInvalid",
    "launch_failed_requeued_held",
)
"""Slurm's reasons of a job that waits, which do not pass by themselves."""


@frozen
class SlurmRecord:
    """What Slurm says of a job or a step."""

    job: str
    """Its number; what belongs to one job has the same."""
    head: bool
    """Whether it is the row of the job itself, which its steps follow."""
    line: int
    """1-based."""
    text: str
    """The record as it stands, in one line."""
    kind: str
    """The wording of a death that it is (`time-limit`); "" for one that tells of none."""
    healthy: bool
    """Whether it ended well."""
    node: str
    stamp: str
    """ISO 8601, where the record has its end."""
    values: Mapping[str, str]
    """Named parts for the wording: `limit`, `used`, `when`, `who`."""


def is_sacct(lines: list[str]) -> bool:
    """Whether a text is a table of sacct and nothing else; blank lines left out before."""
    cut = _cutter(lines)
    if cut is None:
        return False
    rows = [row for row in lines[1:] if not _RULE.match(row)]
    states = [_cells(lines[0], cut, row).get("state", "") for row in rows[-5:]]
    return all(re.match(r"[A-Z][A-Z_]+\+?(?: by \d+)?$", state) for state in states)


def names_columns(line: str) -> bool:
    """Whether a line is the head of a table of sacct, cut by whatever."""
    names = set(re.split(rf"[\s{re.escape(_DELIMITERS)}]+", line.strip().lower()))
    return "state" in names and len(names & _COLUMNS) > 1


def is_scontrol(lines: list[str]) -> bool:
    """Whether a text is of `scontrol show job` and nothing else."""
    return bool(lines) and lines[0].startswith("JobId=") and all(_SETTING.match(line) for line in lines[-5:])


def records(lines: list[tuple[int, str]]) -> Iterator[SlurmRecord]:
    """The records of one of these two texts, its blank lines left out; none of another text."""
    texts = [text for _, text in lines]
    if is_scontrol(texts):
        yield from _of_scontrol(lines)
    elif is_sacct(texts) and (cut := _cutter(texts)) is not None:
        for number, text in lines[1:]:
            if not _RULE.match(text) and text != texts[0]:
                row = _cells(texts[0], cut, text)
                name = row.get("jobid") or row.get("jobidraw") or row.get("jobname") or ""
                yield _record(row, name, number, " ".join(text.split()))


def _of_scontrol(lines: list[tuple[int, str]]) -> Iterator[SlurmRecord]:
    """Its jobs, which begin with JobId."""
    blocks: list[list[tuple[int, str]]] = []
    for number, text in lines:
        if text.startswith("JobId="):
            blocks.append([])
        blocks[-1].append((number, text))
    for block in blocks:
        pairs = {key.lower(): value for _, text in block for key, value in _PAIR.findall(text)}
        number, text = next(((number, text) for number, text in block if "JobState=" in text), block[0])
        row = {
            "state": pairs.get("jobstate", ""),
            "exitcode": pairs.get("exitcode", ""),
            "elapsed": pairs.get("runtime", ""),
            "timelimit": pairs.get("timelimit", ""),
            "end": pairs.get("endtime", ""),
            "nodelist": pairs.get("nodelist", ""),
            "reqmem": pairs.get("minmemorynode", ""),
            "reason": pairs.get("reason", ""),
        }
        yield _record(row, pairs.get("jobid", ""), number, " ".join(text.split()))


def _cutter(lines: list[str]) -> str | list[tuple[int, int]] | None:
    """What cuts a line into columns: a delimiter, or the places that a rule of dashes shows."""
    if not lines:
        return None
    for delimiter in _DELIMITERS:
        names = {name.strip().lower() for name in lines[0].split(delimiter)}
        if "state" in names and len(names & _COLUMNS) > 1:
            return delimiter
    if len(lines) > 1 and _RULE.match(lines[1].strip()):
        spans = [found.span() for found in re.finditer(r"-+", lines[1])]
        names = {lines[0][begin:end].strip().lower() for begin, end in spans}
        if "state" in names and len(names & _COLUMNS) > 1:
            return spans
    return None


def _cells(header: str, cut: str | list[tuple[int, int]], line: str) -> dict[str, str]:
    if isinstance(cut, str):
        pairs = zip(header.split(cut), line.split(cut), strict=False)
        return {name.strip().lower(): value.strip() for name, value in pairs}
    return {header[begin:end].strip().lower(): line[begin:end].strip() for begin, end in cut}


def _record(row: Mapping[str, str], name: str, line: int, text: str) -> SlurmRecord:
    state = row.get("state", "").upper()
    end = row.get("end", "")
    kind = next((kind for beginning, kind in _STATES if state.startswith(beginning)), "")
    if not kind and state.startswith("FAILED"):
        kind = _of_exit(row.get("exitcode", ""))
    reason = row.get("reason", "")
    if not kind and state.startswith("PENDING") and reason in _HELD:
        kind = "held"
    if state.startswith("FAILED") and reason == "JobLaunchFailure":
        kind = "launch"
    asked = re.search(r"BY (\d+)", state)
    limit = row.get("timelimit", "") if kind == "time-limit" else _memory(row.get("reqmem", ""))
    values = {
        "limit": limit if limit.lower() not in ("unlimited", "partition_limit") else "",
        "used": _memory(row.get("maxrss", "")) if kind == "oom-slurm" else "",
        "elapsed": row.get("elapsed", ""),
        "why": reason if kind in ("held", "launch") else "",
        "when": end if re.match(r"\d{4}-", end) else "",
        "who": f"user {asked[1]}" if asked else "",
    }
    nodes = row.get("nodelist", "")
    job = name.partition(".")[0]
    return SlurmRecord(
        job=job,
        head=job == name != "",
        line=line,
        text=text,
        kind=kind,
        healthy=state.startswith("COMPLETED"),
        node=nodes if re.fullmatch(r"[\w.-]+", nodes) and nodes != "None" else "",
        stamp=values["when"],
        values={key: value for key, value in values.items() if value},
    )


def _of_exit(code: str) -> str:
    """What `exit:signal` tells: a signal, or an exit code that a shell makes of one."""
    exit_code, _, signal = code.partition(":")
    shell = {"137": "sigkill", "143": "sigterm"}
    return _SIGNALS.get(signal, "") or shell.get(exit_code, "")


def _memory(text: str) -> str:
    """`65536000K`, `64Gn` as people write it; "" for none. Slurm's units are binary."""
    found = _MEMORY.match(text.strip())
    if not found or not float(found[1]):
        return ""
    unit = found[2].upper() or "M"
    per = " per CPU" if text.strip().endswith("c") else ""
    return size(float(found[1]) * 1024.0 ** (" KMGTP".index(unit))) + per
