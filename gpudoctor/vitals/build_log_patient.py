"""From the logs of a dead job, and the scripts and configs beside them, to a patient."""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import LogMessage, Patient, PatientKind, Sign, Signs, Unavailable
from gpudoctor.model.signs.job_log import JobLog
from gpudoctor.model.unavailable import Unread
from gpudoctor.text import count
from gpudoctor.vitals.file_kinds import FileKind, as_left, is_left_behind
from gpudoctor.vitals.job_log.lines import STANDARD_INPUT
from gpudoctor.vitals.jobs_of_logs import job_of, last_job
from gpudoctor.vitals.targets import near_name

if TYPE_CHECKING:
    from gpudoctor.model.signs.configs import Configs
    from gpudoctor.model.signs.flight_recorder import FlightRecords
    from gpudoctor.model.signs.gpu import GpuSurvey
    from gpudoctor.model.signs.kernel_log import KernelLog
    from gpudoctor.model.signs.memory_snapshot import MemorySnapshot
    from gpudoctor.model.signs.source import Source

_PACKED = (".gz", ".xz", ".zst")
_DUMPS = {"", ".json", ".jsonl", ".xml", ".pickle", ".pkl"}
"""Endings of dumps and records in a folder, which holds much else that ends so."""
_MOST_FILES = 10_000
_WILD = set("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What a job left behind, sorted out."""

    logs: tuple[str, ...] = ()
    """Files of text, and "-" for the standard input."""
    kernel_logs: tuple[str, ...] = ()
    """Those among them that are the kernel's."""
    snapshots: tuple[str, ...] = ()
    """Memory snapshots of torch."""
    flight_dumps: tuple[str, ...] = ()
    """Dumps of torch's flight recorder, one a rank."""
    surveys: tuple[str, ...] = ()
    """Outputs of `nvidia-smi -q`."""
    stacks: tuple[str, ...] = ()
    """Stack dumps in JSON."""
    records: tuple[str, ...] = ()
    """What a scheduler kept of the job."""
    scripts: tuple[Path, ...] = ()
    configs: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()


def sort_left_behind(names: Sequence[str]) -> LeftBehind:
    """Sort files, folders, patterns and "-". Raises `UsageError` for a name that nothing answers to."""
    found: dict[FileKind, list[str]] = {kind: [] for kind in FileKind}
    problems: list[str] = []
    for name in _expanded(names):
        try:
            found[FileKind.LOG if name == STANDARD_INPUT else as_left(Path(name))].append(name)
        except OSError as error:
            problems.append(say("{name}: cannot be read: {reason}", name=name, reason=error.strerror or error))
    _take_siblings(found)
    logs, others = last_job([*found[FileKind.LOG], *found[FileKind.KERNEL_LOG]])
    if others:
        problems.append(_of_other_jobs(logs, others))
    return LeftBehind(
        logs=logs,
        kernel_logs=tuple(found[FileKind.KERNEL_LOG]),
        snapshots=tuple(found[FileKind.SNAPSHOT]),
        flight_dumps=tuple(found[FileKind.FLIGHT]),
        surveys=tuple(found[FileKind.SURVEY]),
        stacks=tuple(found[FileKind.STACKS]),
        records=tuple(found[FileKind.SCHEDULER]),
        scripts=tuple(map(Path, found[FileKind.SCRIPT])),
        configs=tuple(map(Path, found[FileKind.CONFIG])),
        problems=tuple(problems),
    )


def _of_other_jobs(logs: Sequence[str], others: Sequence[str]) -> str:
    words = (
        "this is about job {job}, which wrote last; gpudoctor left out {files} of {jobs}; "
        "to read one: gpudoctor autopsy {example}"
    )
    job = next(filter(None, map(job_of, logs)))
    files, jobs = count(len(others), "file"), count(len(set(map(job_of, others))), "other job")
    return say(words, job=job, files=files, jobs=jobs, example=others[-1])


def _take_siblings(found: dict[FileKind, list[str]]) -> None:
    """Add to the dumps what is named like one but for its number: cut and empty files."""
    alike = {_without_numbers(name) for name in found[FileKind.FLIGHT]}
    for kind in (FileKind.LOG, FileKind.SNAPSHOT):
        siblings = [name for name in found[kind] if alike and _without_numbers(name) in alike]
        found[FileKind.FLIGHT] += siblings
        found[kind] = [name for name in found[kind] if name not in set(siblings)]


def _without_numbers(name: str) -> str:
    folder, file = os.path.split(name)
    return os.path.join(folder, re.sub(r"\d+", "0", file))


def _expanded(names: Sequence[str]) -> Iterator[str]:
    """Every file, once: folders walked, patterns followed."""
    seen: set[str] = set()
    for name in names:
        for found in _files(name):
            if found not in seen:
                seen.add(found)
                yield found
                if len(seen) > _MOST_FILES:
                    raise UsageError(
                        "{name}: more than {most_files:,} files; name the logs of one job",
                        name=name,
                        most_files=_MOST_FILES,
                    )


def _files(name: str) -> Iterable[str]:
    if name == STANDARD_INPUT:
        return (name,)
    if "\0" in name:
        raise UsageError("{name!r}: a path cannot contain a NUL byte; remove it", name=name)
    if os.path.isdir(name):
        found = sorted(_logs_in(name))
        if not found:
            raise UsageError("{name}: no log in this folder (.log, .out, .err, .txt, also .gz, .xz, .zst)", name=name)
        return found
    if os.path.exists(name):
        return (name,)
    if _WILD & set(name):
        matching = sorted(item for item in glob.glob(name, recursive=True) if os.path.isfile(item))
        if matching:
            return matching
        raise UsageError("{name}: no file matches this pattern", name=name)
    raise UsageError("{name}: no such file or folder{near_name}", name=name, near_name=near_name(Path(name)))


def _logs_in(folder: str) -> Iterator[str]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(item for item in folders if not item.startswith("."))
        dumps: set[str] = set()
        others: list[str] = []
        for file in files:
            bare = file.lower()
            for packed in _PACKED:
                bare = bare.removesuffix(packed)
            suffix = os.path.splitext(bare)[1]
            job = suffix in (".log", ".out", ".err", ".txt", ".stdout", ".stderr") or bare in ("stdout", "stderr")
            path = os.path.join(root, file)
            if job or suffix[1:].isdigit():
                yield path
            elif suffix in _DUMPS and is_left_behind(Path(path)):
                dumps.add(_without_numbers(path))
                yield path
            elif suffix in _DUMPS:
                others.append(path)
        yield from (path for path in others if _without_numbers(path) in dumps)  # cut or empty ones


def signs_of(found: LeftBehind, messages: Iterable[tuple[str, LogMessage]]) -> dict[str, Sign[Any]]:
    """The signs that these files give, by name; a sign of which no file was named is not among them."""
    named = {
        "job_log": found.logs or found.stacks or found.records,
        "kernel_log": found.kernel_logs,
        "memory_snapshot": found.snapshots,
        "flight_records": found.flight_dumps,
    }
    signs = _signs(found, messages)
    return {name: signs[name] for name, files in named.items() if files}


def admit_log(found: LeftBehind, messages: Iterable[tuple[str, LogMessage]]) -> Patient:
    """A patient whose signs are those of the files: the job may have run on another machine."""
    names = [
        *(*found.logs, *found.snapshots, *found.flight_dumps, *found.surveys, *found.stacks, *found.records),
        *map(str, (*found.scripts, *found.configs)),
    ]
    first = Path(names[0]).name if names else say("nothing")
    first = say("standard input") if names[:1] == [STANDARD_INPUT] else first
    title = first if len(names) <= 1 else say("{first} and {names} more", first=first, names=len(names) - 1)
    return Patient(PatientKind.LOG, title, Signs(**_signs(found, messages)), targets=tuple(names))


def _signs(found: LeftBehind, messages: Iterable[tuple[str, LogMessage]]) -> dict[str, Sign[Any]]:
    return {
        "job_log": Sign("the log", lambda: _log(found, messages)),
        "kernel_log": Sign("the kernel log", lambda: _kernel_log(found)),
        "gpu_survey": Sign("the GPUs", lambda: _survey(found)),
        "memory_snapshot": Sign("the memory snapshot", lambda: _snapshot(found)),
        "flight_records": Sign("the flight recorder", lambda: _flight_records(found)),
        "source": Sign("the source", lambda: _source(found)),
        "configs": Sign("the configs", lambda: _configs(found)),
    }


def _log(found: LeftBehind, of_checks: Iterable[tuple[str, LogMessage]]) -> JobLog:
    if not (found.logs or found.stacks or found.records):
        raise Unavailable("no log was named")
    from gpudoctor.vitals.job_log import read_job_log
    from gpudoctor.vitals.job_log.kernel_events import with_kernel_logs
    from gpudoctor.vitals.job_log.stack_dumps import with_dump_files
    from gpudoctor.vitals.scheduler_records import with_scheduler_records

    messages = tuple(of_checks)
    log = read_job_log(found.logs, messages) if found.logs else JobLog(files=(), events=())
    log = with_kernel_logs(log, found.kernel_logs, messages)
    return with_scheduler_records(with_dump_files(log, found.stacks), found.records, messages)


def _kernel_log(found: LeftBehind) -> "KernelLog":
    if len(found.kernel_logs) != 1:
        raise Unavailable(
            say("no kernel log was named") if not found.kernel_logs else say("several kernel logs were named")
        )
    from gpudoctor.vitals.saved_kernel_log import read_saved_log

    return read_saved_log(Path(found.kernel_logs[0]))


def _survey(found: LeftBehind) -> "GpuSurvey":
    """The GPUs as `nvidia-smi -q` showed them: of several files one, for their numbers are those of a node."""
    if len(found.surveys) != 1:
        raise Unavailable(
            say("no output of nvidia-smi -q was named")
            if not found.surveys
            else say("those of several nodes were named")
        )
    from gpudoctor.vitals.recording.smi import read_smi_log

    try:
        survey = read_smi_log(found.surveys[0]).survey
    except UsageError as error:
        raise Unread(str(error)) from None
    if survey is None:
        raise Unread(say("{surveys}: it describes no GPU", surveys=found.surveys[0]))
    return survey


def _snapshot(found: LeftBehind) -> "MemorySnapshot":
    """The snapshot of the process that ran out of memory, where several were named: its history says so."""
    if not found.snapshots:
        raise Unavailable("no memory snapshot was named")
    from gpudoctor.vitals.recording.snapshot import read_snapshot

    first: MemorySnapshot | None = None
    refusals: list[str] = []
    for name in found.snapshots:
        try:
            snapshot = read_snapshot(name)
        except UsageError as error:
            refusals.append(str(error))
            continue
        if any(device.refused for device in snapshot.devices):
            return snapshot
        first = first or snapshot
    if first is None:
        raise Unread(concatenated("; ", refusals))
    return first


def _flight_records(found: LeftBehind) -> "FlightRecords":
    if not found.flight_dumps:
        raise Unavailable("no flight-recorder dump was named")
    from gpudoctor.vitals.flight_recorder.read_dumps import read_flight_records

    records = read_flight_records(found.flight_dumps)
    if not records.ranks:
        raise Unread(concatenated("; ", records.problems))
    return records


def _source(found: LeftBehind) -> "Source":
    if not found.scripts:
        raise Unavailable("no script was given")
    from gpudoctor.vitals.source import read_source

    return read_source(list(found.scripts), {})


def _configs(found: LeftBehind) -> "Configs":
    if not found.configs:
        raise Unavailable("no config was given")
    from gpudoctor.vitals.configs.reading import read_configs

    return read_configs(list(found.configs))
