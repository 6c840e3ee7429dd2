"""What the user named: scripts, notebooks, configs, job scripts, logs, folders of them."""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.lang import SpokenError, say
from gpudoctor.model.external_files import read_head

_HEAD = 4096
_SCRIPTS = {".py", ".pyw", ".ipynb"}
_JOBS = {".sh", ".bash", ".sbatch", ".slurm", ".pbs", ".job", ".lsf"}
_CONFIGS = {".json", ".yaml", ".yml", ".toml", ".jsonc"}
_LOGS = {".log", ".out", ".err"}
_READABLE = _SCRIPTS | _JOBS | _CONFIGS
_ENOUGH_FILES = 20_000
"""Files after which a folder counts as not empty without further looking."""
_SHELL = re.compile(rb"#!.*\b(ba|z|k|da)?sh\b")


class TargetKind(Enum):
    """What a named file is to us."""

    SCRIPT = "script"
    FOLDER = "folder"
    JOB = "job script"
    CONFIG = "config"
    LOG = "log"
    LEFT = "left behind"
    """What a dead job left beside its log: dumps, snapshots, records of the kernel and of a scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTarget:
    """One thing the user named."""

    name: str
    path: Path
    kind: TargetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Everything the user named, sorted out."""

    items: tuple[NamedTarget, ...]
    problems: tuple[str, ...] = ()
    """Targets that could not be read, a sentence each."""

    def of(self, *kinds: TargetKind) -> list[Path]:
        """Paths of the targets of some kinds, in order."""
        return [item.path for item in self.items if item.kind in kinds]


def sort_targets(names: Sequence[str]) -> Targets:
    """Tell what each name is. A missing file is `UsageError`; one that cannot be read is a problem."""
    items: list[NamedTarget] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        path = Path(name)
        try:
            kind = TargetKind.LEFT if _is_left_behind(path) else _kind(path)
            target = NamedTarget(name=name, path=path, kind=kind)
            items.append(target)
            if target.kind is TargetKind.LOG and (other := _reported(path)):
                problems.append(say("{name}: {other}", name=name, other=other))
                items.pop()
        except _Unreadable as error:
            problems.append(str(error))
    return Targets(items=tuple(items), problems=tuple(problems))


def _is_left_behind(path: Path) -> bool:
    """Whether a file is a dump, a snapshot or a record of a job that died, by its content."""
    from gpudoctor.vitals.left_behind_kinds import LeftKind, kind_of

    suffix = path.suffix.lower()
    if suffix in _SCRIPTS | _JOBS | (_CONFIGS - {".json"}) or "\0" in str(path) or not path.is_file():
        return False
    try:
        kind = kind_of(path)
        if kind is LeftKind.SNAPSHOT:
            head = read_head(path, _HEAD)
            return b"segments" in head or b"device_traces" in head
    except OSError:
        return False
    return kind not in (LeftKind.LOG, LeftKind.CONFIG, LeftKind.SURVEY)


def _reported(path: Path) -> str:
    """A clause that says that another command reads a file; "" for one that no command reads."""
    from gpudoctor.vitals.recording.opening import is_log

    if not is_log(path):
        return ""
    named = shlex.quote(str(path))
    return say("check does not read such logs; read this one with `gpudoctor report {named}`", named=named)


class _Unreadable(SpokenError):
    """A target is there and cannot be read."""


def _unreadable(path: Path, error: OSError) -> _Unreadable:
    if isinstance(error, PermissionError):
        return _Unreadable(say("{path}: no permission to read it; run as its owner, or chmod +r", path=path))
    return _Unreadable(say("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error))


def _kind(path: Path) -> TargetKind:
    if "\0" in str(path):
        raise UsageError(say("{path!r}: a path cannot contain a NUL byte; remove it", path=str(path)))
    try:
        os.stat(path)
    except FileNotFoundError:
        raise UsageError(
            say("{path}: no such file or folder{near_name}", path=path, near_name=near_name(path))
        ) from None
    except NotADirectoryError:
        raise UsageError(say("{path}: a part of this path is a file, not a folder", path=path)) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if path.is_dir():
        _refuse_empty(path)
        return TargetKind.FOLDER
    if not path.is_file():
        raise UsageError(say("{path}: neither a file nor a folder; name a script, a config or a job script", path=path))
    return _kind_of_file(path)


def _refuse_empty(folder: Path) -> None:
    """Raise when a folder holds nothing that check reads; a look at its first files, links not followed."""
    from gpudoctor.vitals.recording.archive import MACHINE, MANIFEST

    try:
        if {MACHINE, MANIFEST}.intersection(os.listdir(folder)):
            raise UsageError(
                say(
                    "{folder}: a recording of `gpudoctor run`; read it with `gpudoctor report {quote}`",
                    folder=folder,
                    quote=shlex.quote(str(folder)),
                )
            )
    except OSError as error:
        raise _unreadable(folder, error) from None
    seen = 0
    for _, _, files in os.walk(folder):
        seen += len(files)
        if seen > _ENOUGH_FILES or any(os.path.splitext(name)[1].lower() in _READABLE for name in files):
            return
    raise UsageError(
        say("{folder}: nothing to examine in it (no script, notebook, config or job script)", folder=folder)
    )


def near_name(path: Path) -> str:
    """A clause that names a file of nearly this name beside it."""
    try:
        names = os.listdir(path.parent)
    except OSError:
        return ""
    alike = get_close_matches(path.name, names, n=5, cutoff=0.6)
    # a suffix in common is no likeness: `nothere.py` is not `secret.py`
    found = [name for name in alike if get_close_matches(path.stem, [os.path.splitext(name)[0]], cutoff=0.6)]
    return say("; did you mean {parent}?", parent=path.parent / found[0]) if found else ""


def _kind_of_file(path: Path) -> TargetKind:
    try:
        head = read_head(path, _HEAD)
    except OSError as error:
        raise _unreadable(path, error) from None
    suffix = path.suffix.lower()
    if suffix in _SCRIPTS:
        return TargetKind.SCRIPT
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _Unreadable(
            say(
                "{path}: {reported}; check reads scripts, notebooks, configs and job scripts",
                path=path,
                reported=_reported(path) or say("a binary file"),
            )
        )
    if suffix in _JOBS:
        return TargetKind.JOB
    if suffix in {".yaml", ".yml"}:
        from gpudoctor.vitals.configs import looks_like_kubernetes_job

        return TargetKind.JOB if looks_like_kubernetes_job(path) else TargetKind.CONFIG
    if suffix in _CONFIGS:
        return TargetKind.CONFIG
    if suffix in _LOGS:
        return TargetKind.LOG
    return _by_shebang(path, head)


def _by_shebang(path: Path, head: bytes) -> TargetKind:
    """A file without a telling suffix: its first line, then Slurm or PBS directives."""
    first = head.split(b"\n", 1)[0]
    if first.startswith(b"#!") and b"python" in first:
        return TargetKind.SCRIPT
    if _SHELL.match(first) or b"#SBATCH" in head or b"#PBS" in head:
        return TargetKind.JOB
    if path.suffix.lower() == ".txt" or _reported(path):
        return TargetKind.LOG
    raise UsageError(
        say(
            "{path}: not recognised; check reads scripts (.py, .ipynb), configs (.yaml, .json, "
            ".toml), job scripts (.sh, .sbatch) and folders of them",
            path=path,
        )
    )
