"""The scratch place: everything that the runs of a trial write lies there, and goes with it."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gpudoctor.trial.trial_sites import inside, mounts

_STACKED = {"overlay", "nfs", "nfs4", "fuse", "lustre", "beegfs", "gpfs", "cifs", "smb3", "9p", "virtiofs",
            "ceph"}  # fmt: skip
"""File systems that cannot hold what is written to an overlay."""
_ROOM = 2 << 30
"""Bytes that should be free where the runs' files go: a checkpoint or two."""


def scratch_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """A new folder for everything that the runs write; where a project hardly ever lies.

    The user's own TMPDIR comes first (a job scheduler's fast disk), then /var/tmp, then what Python calls the
    temporary folder; one that can hold an overlay and has room before one that has not. Raises `OSError`.
    """
    own = environment.get("TMPDIR")
    bases = [own] if own and not inside(os.path.realpath(own), "/tmp") else []
    bases += ["/var/tmp", tempfile.gettempdir()]
    usable = [
        base for base in dict.fromkeys(map(os.path.realpath, bases)) if os.access(base, os.W_OK | os.X_OK)
    ]
    usable.sort(key=_hindrance)
    for base in usable:
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="gpudoctor-trial-", dir=base))
    raise OSError("no temporary folder can be made")


def _hindrance(base: str) -> tuple[bool, bool, bool]:
    """What speaks against a place: no overlay can lie there, it is among the user's own files, it is full."""
    kinds = [kind for path, kind in mounts() if inside(base, path)]
    kind = kinds[-1].partition(".")[0] if kinds else ""
    found = os.statvfs(base)
    own = any(inside(base, folder) for folder in (os.getcwd(), os.path.realpath(os.path.expanduser("~"))))
    return kind in _STACKED, own, found.f_bavail * found.f_frsize < _ROOM


def remove_scratch(folder: Path) -> None:
    """Delete it, with the folders that an overlay leaves without permissions."""

    for path, names, _ in os.walk(folder):  # from the top: what is opened here is walked next
        for name in names:
            inner = os.path.join(path, name)
            if not os.path.islink(inner):
                with suppress(OSError):
                    os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
