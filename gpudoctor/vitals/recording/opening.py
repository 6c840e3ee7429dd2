"""Whatever the user names as a recording: a folder of ours, or a saved kernel log."""

import os
from contextlib import suppress
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Recording
from gpudoctor.vitals.file_kinds import FileKind, kind_of
from gpudoctor.vitals.recording.reader import read_recording
from gpudoctor.vitals.saved_kernel_log import read_saved_log

_PROFILES = (".nsys-rep", ".qdrep", ".trace.json", ".pftrace")


def open_recording(path: str, *more: str) -> Recording:
    """The recording at these paths; several are the nodes of one run.

    Raises `UsageError` for what is no recording, `Unavailable` for one that cannot be read.
    """
    paths = (path, *more)
    for name in paths:
        if name.removesuffix(".gz").endswith(_PROFILES) and os.path.isfile(name):
            raise UsageError(
                "{name}: gpudoctor does not read reports of profilers; record with `gpudoctor run`", name=name
            )
    logs = [name for name in paths if _is_kernel_log(Path(name))]
    if not logs:
        return read_recording(*paths)
    if len(paths) > 1:
        raise UsageError("such files cannot be joined; report on each separately")
    return Recording(
        path=path, command=(), cwd="", started="", kernel_log=read_saved_log(Path(path)), origin="kernel log"
    )


def _is_kernel_log(path: Path) -> bool:
    with suppress(OSError):
        return path.is_file() and kind_of(path) is FileKind.KERNEL_LOG
    return False
