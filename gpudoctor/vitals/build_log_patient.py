"""From the logs of a dead job, and the scripts and configs beside them, to a patient."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.errors import UsageError
from gpudoctor.model import LogMessage, Patient, PatientKind, Sign, Signs, Unavailable
from gpudoctor.vitals.job_log.opening import STANDARD_INPUT
from gpudoctor.vitals.targets import near_name

if TYPE_CHECKING:
    from gpudoctor.model.signs.configs import Configs
    from gpudoctor.model.signs.job_log import JobLog
    from gpudoctor.model.signs.kernel_log import KernelLog
    from gpudoctor.model.signs.source import Source

_SCRIPTS = {".py", ".pyw", ".ipynb"}
_CONFIGS = {".yaml", ".yml", ".toml", ".jsonc"}
_PACKED = (".gz", ".xz", ".zst")
_LOGS = {".log", ".out", ".err", ".txt", ".stdout", ".stderr", ".json", ".jsonl", ""}
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
    scripts: tuple[Path, ...] = ()
    configs: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()


def sort_left_behind(names: Sequence[str]) -> LeftBehind:
    """Sort files, folders, patterns and "-". Raises `UsageError` for a name that nothing answers to."""
    logs: list[str] = []
    kernel: list[str] = []
    snapshots: list[str] = []
    scripts: list[Path] = []
    configs: list[Path] = []
    problems: list[str] = []
    for name in _expanded(names):
        if name == STANDARD_INPUT:
            logs.append(name)
            continue
        path = Path(name)
        suffix = path.suffix.lower()
        if suffix in _SCRIPTS:
            scripts.append(path)
        elif suffix in _CONFIGS:
            configs.append(path)
        else:
            _sort_by_content(path, logs, kernel, snapshots, configs, problems)
    return LeftBehind(
        logs=tuple(logs),
        kernel_logs=tuple(kernel),
        snapshots=tuple(snapshots),
        scripts=tuple(scripts),
        configs=tuple(configs),
        problems=tuple(problems),
    )


def _sort_by_content(
    path: Path,
    logs: list[str],
    kernel: list[str],
    snapshots: list[str],
    configs: list[Path],
    problems: list[str],
) -> None:
    from gpudoctor.model.external_files import read_head
    from gpudoctor.vitals.recording.snapshot import is_pickle
    from gpudoctor.vitals.saved_kernel_log import is_kernel_log

    try:
        head = read_head(path, 4096)
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror or error}")
        return
    if is_pickle(path):
        snapshots.append(str(path))
    elif (
        path.suffix.lower() == ".json"
        and head.lstrip()[:1] == b"{"
        and b'"events"' not in head
        and b'"kind"' not in head
    ):
        configs.append(path)
    else:
        if is_kernel_log(path):
            kernel.append(str(path))
        logs.append(str(path))


def _expanded(names: Sequence[str]) -> Iterator[str]:
    """Every file, once: folders walked, patterns followed."""
    seen: set[str] = set()
    for name in names:
        for found in _files(name):
            if found not in seen:
                seen.add(found)
                yield found
                if len(seen) > _MOST_FILES:
                    raise UsageError(f"{name}: more than {_MOST_FILES:,} files; name the logs of one job")


def _files(name: str) -> Iterable[str]:
    if name == STANDARD_INPUT:
        return (name,)
    if "\0" in name:
        raise UsageError(f"{name!r}: a path cannot hold a NUL byte")
    if os.path.isdir(name):
        found = sorted(_logs_in(name))
        if not found:
            raise UsageError(f"{name}: no log in this folder (.log, .out, .err, .txt, also .gz, .xz, .zst)")
        return found
    if os.path.exists(name):
        return (name,)
    if _WILD & set(name):
        matching = sorted(item for item in glob.glob(name, recursive=True) if os.path.isfile(item))
        if matching:
            return matching
        raise UsageError(f"{name}: no file matches this pattern")
    raise UsageError(f"{name}: no such file or folder{near_name(Path(name))}")


def _logs_in(folder: str) -> Iterator[str]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(item for item in folders if not item.startswith("."))
        for file in files:
            bare = file.lower()
            for packed in _PACKED:
                bare = bare.removesuffix(packed)
            suffix = os.path.splitext(bare)[1]
            job = suffix in (".log", ".out", ".err", ".txt", ".stdout", ".stderr") or bare in (
                "stdout",
                "stderr",
            )
            if job or suffix[1:].isdigit():
                yield os.path.join(root, file)


def admit_log(found: LeftBehind, messages: Iterable[tuple[str, LogMessage]]) -> Patient:
    """A patient whose signs are those of the files: the job may have run on another machine."""
    table = tuple(messages)
    names = [*found.logs, *found.snapshots, *map(str, found.scripts), *map(str, found.configs)]
    first = "standard input" if names[:1] == [STANDARD_INPUT] else Path(names[0]).name if names else "nothing"
    return Patient(
        PatientKind.LOG,
        first if len(names) <= 1 else f"{first} and {len(names) - 1} more",
        Signs(
            job_log=Sign("the log", lambda: _log(found, table)),
            kernel_log=Sign("the kernel log", lambda: _kernel_log(found)),
            source=Sign("the source", lambda: _source(found)),
            configs=Sign("the configs", lambda: _configs(found)),
        ),
        targets=tuple(names),
    )


def _log(found: LeftBehind, messages: tuple[tuple[str, LogMessage], ...]) -> "JobLog":
    if not found.logs:
        raise Unavailable("no log was named")
    from gpudoctor.vitals.job_log import read_job_log

    return read_job_log(found.logs, messages)


def _kernel_log(found: LeftBehind) -> "KernelLog":
    if len(found.kernel_logs) != 1:
        raise Unavailable(
            "no kernel log was named" if not found.kernel_logs else "several kernel logs were named"
        )
    from gpudoctor.vitals.saved_kernel_log import read_saved_log

    return read_saved_log(Path(found.kernel_logs[0]))


def _source(found: LeftBehind) -> "Source":
    if not found.scripts:
        raise Unavailable("no script was given")
    from gpudoctor.vitals.source import read_source

    return read_source(list(found.scripts), {})


def _configs(found: LeftBehind) -> "Configs":
    if not found.configs:
        raise Unavailable("no config was given")
    from gpudoctor.vitals.configs import read_configs

    return read_configs(list(found.configs))
