"""Whatever the user names as a recording: a folder of ours, or another tool's log."""

import os
from contextlib import suppress
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Recording
from gpudoctor.vitals.file_kinds import FileKind, kind_of
from gpudoctor.vitals.recording.archive import MANIFEST
from gpudoctor.vitals.recording.kineto import read_trace
from gpudoctor.vitals.recording.reader import read_recording
from gpudoctor.vitals.saved_kernel_log import read_saved_log

_TRACES = ("*.pt.trace.json", "*.pt.trace.json.gz")
"""Names that torch.profiler.tensorboard_trace_handler gives, and Perfetto's."""
_NSIGHT = (".nsys-rep", ".qdrep")


def open_recording(path: str, *more: str) -> Recording:
    """The recording at these paths; several are the nodes of one run, or one trace a rank.

    Raises `UsageError` for what is no recording, `Unavailable` for one that cannot be read.
    """
    paths = [name for each in (path, *more) for name in _traces_in(each) or [each]]
    for name in paths:
        if name.removesuffix(".gz").endswith(_NSIGHT) and os.path.isfile(name):
            raise UsageError(
                "{name}: gpudoctor does not read reports of Nsight Systems; record with torch.profiler, or with "
                "`gpudoctor run`",
                name=name,
            )
    kinds = {_kind(Path(name)) for name in paths}
    if len(kinds) > 1:
        raise UsageError(
            "{paths}: recordings of different kinds cannot be joined; report on each separately", paths=", ".join(paths)
        )
    kind = kinds.pop()
    if kind is FileKind.TRACE:
        return read_trace(*paths)
    if kind is FileKind.FOLDER:
        return read_recording(*paths)
    if len(paths) > 1:
        raise UsageError("such files cannot be joined; report on each separately")
    log = read_saved_log(Path(paths[0]))
    return Recording(path=paths[0], command=(), cwd="", started="", kernel_log=log, origin="kernel log")


def _traces_in(name: str) -> list[str]:
    """Traces in a folder that is no recording of ours."""
    folder = Path(name)
    if not os.path.isdir(folder) or os.path.exists(folder / MANIFEST):
        return []
    return sorted(str(found) for pattern in _TRACES for found in folder.glob(pattern))


def _kind(path: Path) -> FileKind:
    """Another tool's file; FOLDER for a recording of ours, and for what is none."""
    with suppress(OSError):
        if os.path.isfile(path) and (kind := kind_of(path)) in (FileKind.KERNEL_LOG, FileKind.TRACE):
            return kind
    return FileKind.FOLDER
