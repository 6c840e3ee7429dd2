"""What the user named: scripts, notebooks, configs, job scripts, logs, folders of them."""

import os
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.lang import SpokenError, say, template
from gpudoctor.model.records import frozen
from gpudoctor.vitals.file_kinds import CONFIGS, JOBS, SCRIPTS, FileKind, kind_of

_READABLE = SCRIPTS | JOBS | CONFIGS | {".json"}
_ENOUGH_FILES = 20_000
"""Files after which a folder counts as not empty without further looking."""


@frozen
class NamedTarget:
    """One thing the user named."""

    name: str
    path: Path
    kind: FileKind


@frozen
class Targets:
    """Everything the user named, sorted out."""

    items: tuple[NamedTarget, ...]
    problems: tuple[str, ...] = ()
    """Targets that could not be read, a sentence each."""

    def of(self, *kinds: FileKind) -> list[Path]:
        """Paths of the targets of some kinds, in order."""
        return [item.path for item in self.items if item.kind in kinds]


def sort_targets(names: Sequence[str]) -> Targets:
    """Tell what each name is. A missing file is `UsageError`; one that cannot be read is a problem."""
    items: list[NamedTarget] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        try:
            items.append(NamedTarget(name=name, path=Path(name), kind=_kind(Path(name))))
        except _Unreadable as error:
            problems.append(str(error))
    return Targets(items=tuple(items), problems=tuple(problems))


class _Unreadable(SpokenError):
    """A target is there and cannot be read."""


def _unreadable(path: Path, error: OSError) -> _Unreadable:
    return _Unreadable("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error)


def _kind(path: Path) -> FileKind:
    if "\0" in str(path):
        raise UsageError("{path!r}: a path cannot contain a NUL byte; remove it", path=str(path))
    try:
        os.stat(path)
    except FileNotFoundError:
        raise UsageError("{path}: no such file or folder{near_name}", path=path, near_name=near_name(path)) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if path.is_dir():
        _refuse_empty(path)
        return FileKind.FOLDER
    if not path.is_file():
        raise UsageError("{path}: neither a file nor a folder; name a script, a config or a job script", path=path)
    return _kind_of_file(path)


def _refuse_empty(folder: Path) -> None:
    """Raise when a folder holds nothing that check reads; a look at its first files, links not followed."""
    from gpudoctor.vitals.recording.archive import MACHINE, MANIFEST

    try:
        if {MACHINE, MANIFEST}.intersection(os.listdir(folder)):
            said = template("{folder}: a recording of `gpudoctor run`; read it with `gpudoctor report {quote}`")
            raise UsageError(said, folder=folder, quote=shlex.quote(str(folder)))
    except OSError as error:
        raise _unreadable(folder, error) from None
    seen = 0
    for _, _, files in os.walk(folder):
        seen += len(files)
        if seen > _ENOUGH_FILES or any(os.path.splitext(name)[1].lower() in _READABLE for name in files):
            return
    raise UsageError("{folder}: nothing to examine in it (no script, notebook, config or job script)", folder=folder)


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


def _kind_of_file(path: Path) -> FileKind:
    try:
        kind = kind_of(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    if kind is FileKind.BINARY:
        said = template("{path}: {reported}; check reads scripts, notebooks, configs and job scripts")
        raise _Unreadable(said, path=path, reported=say("a binary file"))
    if kind in (FileKind.OTHER, FileKind.PAGE) and path.suffix.lower() != ".json":
        raise UsageError(
            "{path}: not recognised; check reads scripts (.py, .ipynb), configs (.yaml, .json, "
            ".toml), job scripts (.sh, .sbatch) and folders of them",
            path=path,
        )
    return FileKind.CONFIG if kind is FileKind.OTHER else kind
