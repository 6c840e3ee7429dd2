"""From the logs of a dead job, and the scripts and configs beside them, to a patient."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import LogMessage, Patient, PatientKind, Sign, Signs, Unavailable
from gpudoctor.model.records import frozen
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
    from gpudoctor.model.signs.kernel_log import KernelLog
    from gpudoctor.model.signs.source import Source

_LOGS = {".log", ".out", ".err", ".txt", ".stdout", ".stderr"}
_DUMPS = {"", ".pickle", ".pkl"}
"""Endings of dumps and records in a folder, which holds much else that ends so."""
_MOST_FILES = 10_000
_WILD = set("*?[")


@frozen(kw_only=False)
class LeftBehind:
    """What a job left behind, sorted out."""

    files: Mapping[FileKind, Sequence[str]]
    """Logs are all files of text, those of the kernel among them, and "-" for the standard input."""
    problems: tuple[str, ...] = ()

    def of(self, kind: FileKind) -> Sequence[str]:
        """The files of a kind."""
        return self.files.get(kind, ())


def sort_left_behind(names: Sequence[str]) -> LeftBehind:
    """Sort files, folders, patterns and "-". Raises `UsageError` for a name that nothing answers to."""
    found: dict[FileKind, list[str]] = {}
    problems: list[str] = []
    for name in _expanded(names):
        try:
            kind = FileKind.LOG if name == STANDARD_INPUT else as_left(Path(name))
            found.setdefault(kind, []).append(name)
        except OSError as error:
            problems.append(say("{name}: cannot be read: {reason}", name=name, reason=error.strerror or error))
    problems += [
        say("{name}: a page of HTML, not a log; save its text", name=name) for name in found.get(FileKind.PAGE, ())
    ]
    logs, others = last_job([*found.get(FileKind.LOG, ()), *found.get(FileKind.KERNEL_LOG, ())])
    if others:
        problems.append(_of_other_jobs(logs, others))
    return LeftBehind({**found, FileKind.LOG: logs}, tuple(problems))


def _of_other_jobs(logs: Sequence[str], others: Sequence[str]) -> str:
    words = (
        "this is about job {job}, which wrote last; gpudoctor left out {files} of {jobs}; "
        "to read one: gpudoctor autopsy {example}"
    )
    job = next(filter(None, map(job_of, logs)))
    files, jobs = count(len(others), "file"), count(len(set(map(job_of, others))), "other job")
    return say(words, job=job, files=files, jobs=jobs, example=others[-1])


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
            raise UsageError("{name}: no log in this folder (.log, .out, .err, .txt, also .gz)", name=name)
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
        for file in files:
            bare = file.lower().removesuffix(".gz")
            suffix = os.path.splitext(bare)[1]
            job = suffix in _LOGS or suffix[1:].isdigit() or bare in ("stdout", "stderr")
            path = os.path.join(root, file)
            if job or (suffix in _DUMPS and is_left_behind(Path(path))):
                yield path


def signs_of(found: LeftBehind, messages: Iterable[tuple[str, LogMessage]]) -> dict[str, Sign[Any]]:
    """The signs that these files give, by name; a sign of which no file was named is not among them."""
    kinds = {
        "job_log": (FileKind.LOG, FileKind.SCHEDULER),
        "kernel_log": (FileKind.KERNEL_LOG,),
        "flight_records": (FileKind.FLIGHT,),
    }
    signs = _signs(found, messages)
    return {name: signs[name] for name, own in kinds.items() if any(map(found.of, own))}


_TOLD = (*(FileKind.LOG, FileKind.FLIGHT, FileKind.SCHEDULER), *(FileKind.SCRIPT, FileKind.CONFIG))
"""Kinds in the order in which a report names the files."""


def admit_log(found: LeftBehind, messages: Iterable[tuple[str, LogMessage]]) -> Patient:
    """A patient whose signs are those of the files: the job may have run on another machine."""
    names = [name for kind in _TOLD for name in found.of(kind)]
    first = Path(names[0]).name if names else say("nothing")
    first = say("standard input") if names[:1] == [STANDARD_INPUT] else first
    title = first if len(names) <= 1 else say("{first} and {names} more", first=first, names=len(names) - 1)
    return Patient(PatientKind.LOG, title, Signs(**_signs(found, messages)), targets=tuple(names))


def _signs(found: LeftBehind, messages: Iterable[tuple[str, LogMessage]]) -> dict[str, Sign[Any]]:
    of = found.of
    return {
        "job_log": Sign("the log", lambda: _log(found, tuple(messages))),
        "kernel_log": Sign("the kernel log", lambda: _kernel_log(of(FileKind.KERNEL_LOG))),
        "flight_records": Sign("the flight recorder", lambda: _flight_records(of(FileKind.FLIGHT))),
        "source": Sign("the source", lambda: _source(of(FileKind.SCRIPT))),
        "configs": Sign("the configs", lambda: _configs(of(FileKind.CONFIG))),
    }


def _log(found: LeftBehind, messages: tuple[tuple[str, LogMessage], ...]) -> JobLog:
    logs, records = map(found.of, (FileKind.LOG, FileKind.SCHEDULER))
    if not (logs or records):
        raise Unavailable("no log was named")
    from gpudoctor.vitals.job_log import read_job_log
    from gpudoctor.vitals.job_log.kernel_events import with_kernel_logs
    from gpudoctor.vitals.scheduler_records.sacct import with_sacct

    log = read_job_log(logs, messages) if logs else JobLog(files=(), events=())
    return with_sacct(with_kernel_logs(log, found.of(FileKind.KERNEL_LOG), messages), records, messages)


def _kernel_log(paths: Sequence[str]) -> "KernelLog":
    if len(paths) != 1:
        raise Unavailable(say("several kernel logs were named") if paths else say("no kernel log was named"))
    from gpudoctor.vitals.saved_kernel_log import read_saved_log

    return read_saved_log(Path(paths[0]))


def _flight_records(paths: Sequence[str]) -> "FlightRecords":
    if not paths:
        raise Unavailable("no flight-recorder dump was named")
    from gpudoctor.vitals.flight_recorder.read_dumps import read_flight_records

    records = read_flight_records(paths)
    if not records.ranks:
        raise Unread(concatenated("; ", records.problems))
    return records


def _source(paths: Sequence[str]) -> "Source":
    if not paths:
        raise Unavailable("no script was given")
    from gpudoctor.vitals.source import read_source

    return read_source(list(map(Path, paths)), {})


def _configs(paths: Sequence[str]) -> "Configs":
    if not paths:
        raise Unavailable("no config was given")
    from gpudoctor.vitals.configs.reading import read_configs

    return read_configs(list(map(Path, paths)))
