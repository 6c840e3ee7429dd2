"""How the runs of a trial are kept away from the user's files: an overlay where the kernel lets us, else
writers.

Every folder that the user may write to is covered by an overlay in a mount namespace of the run's own
(`jail.py`), so that whatever a run saves, appends or deletes lands in the scratch place and is gone with it.
Where no namespace can be had, the writers of Python are redirected by the probe
(`probe/overrides/writes.py`), and the report says so.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpudoctor.trial import jail
from gpudoctor.trial.bench import Protection

_SYSTEM = {"bin", "boot", "dev", "lib", "lib32", "lib64", "libx32", "lost+found", "proc", "run", "sbin",
           "sys", "usr", "etc"}  # fmt: skip
"""Folders of `/` that no training writes to; where it may, what is installed there is no result of it."""
_VIRTUAL = {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs", "securityfs",
            "debugfs", "tracefs", "bpf", "pstore", "fusectl", "configfs", "nsfs", "autofs", "binfmt_misc",
            "efivarfs", "rpc_pipefs", "squashfs", "ramfs"}  # fmt: skip
_MEETING = ("nvidia-mps", "nvidia-log", ".X11-unix", ".ICE-unix")
"""Folders of pipes and sockets: an overlay of one leads nowhere."""
_NOISE = {"__pycache__", ".cache", ".triton", ".nv", "torchinductor", ".config"}
"""Caches that any program leaves: kept out like everything, and not worth a line."""
_TEMPORARY = re.compile(r"/tmp/(tmp[a-z0-9_]{8}|pymp-|torch|wandb|nvidia|hsperfdata|\.|\w*cache)")
"""Names that `tempfile` and libraries give to what is nobody's."""
_TRY_SECONDS = 20.0
_LISTED = 200

OVERLAY = "every run wrote to an overlay"
REDIRECTED = "Python's writers were redirected; this kernel allows no overlay"


class Guard:
    """Protects one run after the other, and remembers what was kept out."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._found: dict[str, None] = {}
        self._plan = _Places(scratch) if sys.platform == "linux" else None
        self._runs = 0
        self._overlay = self._plan is not None and self._tried()

    @property
    def words(self) -> str:
        """How, in one clause."""
        return OVERLAY if self._overlay else REDIRECTED

    @property
    def kept_out(self) -> tuple[str, ...]:
        """Files that the runs wrote, changed or deleted: none of it reached the user's."""
        return tuple(self._found)[:_LISTED]

    @contextmanager
    def protect(self, folder: Path) -> Iterator[Protection]:
        """What a run needs to be protected; afterwards what it wrote is noted and thrown away."""
        self._runs += 1
        place = self._scratch / f"writes-{self._runs}"
        place.mkdir(mode=0o700)
        try:
            yield self._jailed(folder, place) if self._overlay else self._redirected(folder, place)
        finally:
            for path in _written(place):
                self._found.setdefault(path)
            _remove(place)

    def _jailed(self, folder: Path, place: Path) -> Protection:
        assert self._plan is not None
        config = place / "jail.json"
        upper = place / "upper"
        upper.mkdir()
        through = [str(folder), *self._plan.through]
        table = {
            "protect": self._plan.protect,
            "mounts": self._plan.mounts,
            "through": through,
            "upper": str(upper),
        }
        config.write_text(json.dumps(table), encoding="utf-8")
        prefix = (sys.executable, "-I", "-S", str(jail.__file__), str(config))
        return Protection(prefix=prefix, overrides={"offline.scratch": str(place)}, environment=_offline(place))

    def _redirected(self, folder: Path, place: Path) -> Protection:
        redirect = {"place": str(place / "files"), "free": [str(folder), str(place)]}
        return Protection(
            overrides={"offline.scratch": str(place), "writes.redirected": redirect},
            environment=_offline(place),
        )

    def _tried(self) -> bool:
        """Whether a command can be run so."""
        place = self._scratch / "writes-0"
        place.mkdir(mode=0o700)
        try:
            words = [*self._jailed(self._scratch, place).prefix, sys.executable, "-I", "-S", "-c", ""]
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRY_SECONDS, check=False
            )
            return done.returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False
        finally:
            _remove(place)


def scratch_folder() -> Path:
    """A new folder for everything that the runs write; where a project hardly ever lies, so that `/tmp` can be
    protected too."""
    for base in ("/var/tmp", None):
        with suppress(OSError):
            return Path(os.path.realpath(tempfile.mkdtemp(prefix="gpudoctor-trial-", dir=base)))
    raise OSError("no temporary folder can be made")


def remove_scratch(folder: Path) -> None:
    """Delete it, with the folders that an overlay leaves without permissions."""
    _remove(folder)


def _offline(place: Path) -> dict[str, str]:
    """Variables of trackers: their files go to the scratch place, nothing is sent."""
    scratch = str(place)
    return {
        "WANDB_MODE": "offline",
        "WANDB_DIR": scratch,
        "WANDB_SILENT": "true",
        "MLFLOW_TRACKING_URI": f"file:{scratch}/mlruns",
        "COMET_START_MODE": "offline",
        "COMET_OFFLINE_DIRECTORY": scratch,
        "NEPTUNE_MODE": "offline",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "offline",
    }


class _Places:
    """Which folders are to be covered, on this machine."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = str(scratch)
        tops = [os.path.join("/", name) for name in sorted(os.listdir("/")) if name not in _SYSTEM]
        self.protect = [path for top in tops for path in self._cover(top)]
        self.mounts = [path for path in _mounts() if self._below(path)]
        self.through = list(self._meeting_places())

    def _cover(self, path: str) -> Iterator[str]:
        """The folder, or its children where the scratch place lies in it."""
        if os.path.islink(path) or not os.path.isdir(path):
            return
        if not _inside(self._scratch, path):
            if os.access(path, os.W_OK) or _holds_own(path):
                yield path
        elif path != self._scratch:
            with suppress(OSError):
                for name in sorted(os.listdir(path)):
                    yield from self._cover(os.path.join(path, name))

    def _below(self, path: str) -> bool:
        """Whether a mount point is hidden by what is covered."""
        return any(_inside(path, top) and path != top for top in self.protect)

    def _meeting_places(self) -> Iterator[str]:
        for name in _MEETING:
            if os.path.isdir(f"/tmp/{name}"):
                yield f"/tmp/{name}"
        pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
        if pipes and os.path.isdir(pipes):
            yield os.path.realpath(pipes)
        with suppress(OSError):
            for entry in os.scandir("/tmp"):
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                    yield entry.path


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _holds_own(path: str) -> bool:
    """Whether a folder that we may not write to leads to some that we may: `/home`, `/data`."""
    with suppress(OSError):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False) and os.access(entry.path, os.W_OK):
                return True
    here, home = os.getcwd(), os.path.expanduser("~")
    return _inside(here, path) or _inside(home, path)


def _mounts() -> list[str]:
    """Mount points of file systems that hold files, parents first."""
    found = []
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            fields = line.split()
            kind = fields[fields.index("-") + 1]
            path = fields[4].encode().decode("unicode_escape")
            if kind not in _VIRTUAL and not any(
                _inside(path, top) for top in ("/proc", "/sys", "/dev", "/run")
            ):
                found.append(path)
    return sorted(set(found), key=lambda item: item.count("/"))


def _written(place: Path) -> Iterator[str]:
    """Paths of files in the upper layers, and of redirected ones."""
    for layer in sorted(place.glob("upper/*/path")):
        base = layer.read_text(encoding="utf-8")
        root = layer.parent / "upper"
        for folder, names, files in os.walk(root):
            names[:] = [name for name in names if name not in _NOISE]
            for name in files:
                path = os.path.join(base, os.path.relpath(os.path.join(folder, name), root))
                if not path.endswith((".pyc", ".lock")) and not _TEMPORARY.match(path):
                    yield path
    root = place / "files"
    for folder, _, files in os.walk(root):
        for name in files:
            yield "/" + os.path.relpath(os.path.join(folder, name), root)


def _remove(folder: Path) -> None:
    def allow(function: Callable[..., object], path: str, _error: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700)
            function(path)

    shutil.rmtree(folder, onerror=allow)
    shutil.rmtree(folder, ignore_errors=True)
