"""How the runs of a trial are kept away from the user's files: the strongest way that this machine allows, or none.

Every folder that the user may write to is covered by an overlay in a mount namespace of the run's own
(`jail/covering.py`): whatever a run saves, appends or deletes lands in the scratch place and is gone with it. Where no
overlay can be had, each run works in a fresh copy of the working folder, and the kernel refuses every write outside
it: Landlock (`jail/landlock.py`), else read-only mounts. Without either no run is started.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

import gpudoctor
from gpudoctor.errors import DoctorError
from gpudoctor.lang import say
from gpudoctor.trial.scratch import cache_folders, inside, link_entries, linked_caches, mounts, remove_scratch
from gpudoctor.trial.trial_runner import EDITS, Protection

_NOISE = {"__pycache__", ".cache", ".triton", ".nv", "torchinductor", ".config"}
"""Caches that any program leaves: kept out like everything, and not worth a line."""
_TEMPORARY = re.compile(r"/(var/)?tmp/(tmp[a-z0-9_]{8}|pymp-|torch|wandb|nvidia|hsperfdata|\.|\w*cache)")
"""Names that `tempfile` and libraries give to what is nobody's."""
_NOTES = "not-sent"
"""The probe's file with what was kept from being sent (`probe/overrides/offline.py`)."""
_TRY_SECONDS = 20.0
_LISTED = 200
_VARIABLE = "GPUDOCTOR_PROTECTION"
"""The level that is to be tried, `overlay` or `copy`: for tests, and where an overlay is in the way."""
_ENTER = f"import sys; sys.path.insert(0, {str(Path(gpudoctor.__file__).parents[1])!r}); "
_ENTER += "from gpudoctor.trial.jail.enter import main; main()"
_PROBING = "import os, sys\ntry: open(sys.argv[1], 'w')\nexcept OSError: sys.exit(0)\nsys.exit(1)"


class Level(Enum):
    """How strong, strongest first."""

    OVERLAY = "overlay"
    COPY = "copy"


class NoProtectionError(DoctorError):
    """Nothing here keeps the runs from the user's files, so none is started."""

    exit_code = 2


class RunProtection:
    """Protects one run after the other, and remembers what was kept out. Raises `NoProtectionError`."""

    def __init__(
        self, scratch: Path, command: Sequence[str] = (), level: Level | None = None, *, project: bool = True
    ) -> None:
        """`level` is the only one to try; without `project` the command uses nothing of the working folder."""
        self._scratch = scratch
        self._project = os.path.realpath(os.getcwd()) if project else ""
        self._found: dict[str, None] = {}
        self._unsent: dict[str, None] = {}
        self._runs = 0
        self._sealed: list[str] = []
        """Folders that are read-only."""
        self._foreign: list[str] = []
        """Folders whose overlay takes new files only."""
        self._own = False
        """Whether the overlays are those of a user namespace."""
        self._here = self._temporary = True
        """Whether the working folder, and the one for temporary files, can be written to in an overlay."""
        self._landlock = True
        self._caches = scratch / "caches"
        self._variables: dict[str, str] = {}
        self._copied: dict[str, int] = {}
        """Files of the copy and their times, in ns."""
        if sys.platform != "linux":
            raise NoProtectionError(say("verify can protect your files on Linux only; run it on a Linux machine"))
        self._places = CoveredPlaces(scratch, command)
        named = os.environ.get(_VARIABLE, "")
        asked = next((each for each in Level if each.value == named), None)
        self.level = self._choose(level or asked)
        """The level of all runs."""
        if self.level is Level.COPY:
            self._variables = linked_caches(self._caches)

    @property
    def words(self) -> str:
        """How, in one clause."""
        if self.level is Level.COPY:
            return say("every run worked in a copy of the working folder; it could write nowhere else")
        if fixed := self._fixed:
            return say("every run wrote to an overlay; it could not change the files in {folders}", folders=fixed)
        return say("every run wrote to an overlay")

    @property
    def _fixed(self) -> str:
        """Folders in which an overlay cannot change what is there."""
        return ", ".join([*self._sealed, *self._foreign][:3])

    @property
    def kept_out(self) -> tuple[str, ...]:
        """Files that the runs wrote, changed or deleted: none of it reached the user's."""
        return tuple(self._found)[:_LISTED]

    @property
    def not_sent(self) -> tuple[str, ...]:
        """Trackers that were kept offline, and pushes that were refused."""
        return tuple(self._unsent)[:_LISTED]

    @contextmanager
    def protect(self, folder: Path) -> Iterator[Protection]:
        """What a run needs to be protected; afterwards what it wrote is noted and thrown away."""
        self._runs += 1
        place = self._scratch / f"writes-{self._runs}"
        place.mkdir(mode=0o700)
        try:
            yield self._protection(self.level, folder, place)
        finally:
            edited: list[tuple[str, str, str]] = []
            with suppress(OSError):
                edited = json.loads((folder / EDITS).read_text(encoding="utf-8"))
            ours = {path for path, _, _ in edited}
            self._found.update(dict.fromkeys(path for path in self._written(place) if path not in ours))
            with suppress(OSError):
                notes = (place / _NOTES).read_text(encoding="utf-8", errors="replace")
                self._unsent.update(dict.fromkeys(notes.splitlines()))
            remove_scratch(place)

    def _protection(self, level: Level, folder: Path, place: Path) -> Protection:
        overrides: dict[str, object] = {"offline.scratch": str(place)}
        environment = _offline(place)
        copied, hint = None, ""
        if level is Level.OVERLAY:
            if fixed := self._fixed:
                hint = say("a trial cannot change the files in {folders} here", folders=fixed)
            if not self._temporary:
                (place / "tmp").mkdir()
                environment["TMPDIR"] = str(place / "tmp")
        else:
            temporary = place / "tmp"  # what lies in one that the user has chosen is found there
            link_entries(os.environ.get("TMPDIR", ""), temporary)
            environment |= {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1", **self._variables}
            hint = say("a trial can write to the working folder only here")
            if self._project:
                self._copied = copy_project(self._project, str(place / "copy"), str(self._scratch))
                copied = str(place / "copy"), self._project
        path = place / "jail.json"
        path.write_text(json.dumps(self._config(level, folder, place)), encoding="utf-8")
        return Protection(
            prefix=(sys.executable, "-I", "-S", "-c", _ENTER, str(path)),
            overrides=overrides,
            environment=environment,
            hint=hint,
            copied=copied,
        )

    def _config(self, level: Level, folder: Path, place: Path) -> dict[str, object]:
        """For the program that closes the door."""
        through, edits = [str(folder), *self._places.through], str(folder / EDITS)
        if level is Level.COPY and self._landlock:
            writable = [str(folder), str(place), str(self._caches), "/dev/shm"]
            devices = ["/dev", "/proc", *self._places.through]
            return {"how": "landlock", "edits": edits, "writable": writable, "devices": devices}
        upper = place / "upper"
        upper.mkdir()
        caches = [(path, str(self._caches / str(number))) for number, path in enumerate(cache_folders()) if number < 99]
        return {
            "how": "mounts",
            "edits": edits,
            "cover": self._places.cover,
            "mounts": self._places.mounts,
            "known": self._places.known,
            "through": through,
            "caches": caches if level is Level.OVERLAY else [],
            "root": self._places.root,
            "scratch": str(self._scratch),
            "upper": str(upper),
            "told": str(place / "told.json"),
            "temporary": tempfile.gettempdir(),
            "overlays": level is Level.OVERLAY,
        }

    def _choose(self, only: Level | None) -> Level:
        """An overlay; where the working folder itself could not be changed in one, rather a copy."""
        overlay = only is not Level.COPY and self._tried(Level.OVERLAY)
        if overlay and (only or (self._here and self._project not in self._foreign)):
            return Level.OVERLAY
        if only is not Level.OVERLAY:
            try:
                for self._landlock in (True, False):
                    if self._tried(Level.COPY):
                        return Level.COPY
            except NoProtectionError:
                if not overlay:
                    raise
        if overlay:
            return Level.OVERLAY
        raise NoProtectionError(
            say(
                "Nothing here keeps the trials from changing your files: allow user namespaces (docker run "
                "--security-opt seccomp=unconfined, or --cap-add SYS_ADMIN), or run verify on another machine"
            )
        )

    def _tried(self, level: Level) -> bool:
        """Whether a command can be run so, and is held back."""
        place = self._scratch / f"try-{level.value}"
        place.mkdir(mode=0o700)
        refused = self._scratch / "refused"
        try:
            prefix = self._protection(level, place, place).prefix
            probing = [_PROBING, str(refused)] if level is Level.COPY and self._landlock else [""]
            words = [*prefix, sys.executable, "-I", "-S", "-c", *probing]
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRY_SECONDS, check=False
            )
            if level is Level.OVERLAY and done.returncode == 0:
                told = json.loads((place / "told.json").read_text(encoding="utf-8"))
                self._own, self._here, self._temporary = told["own"], told["here"], told["temporary"]
                # `/` itself is read-only; few have their project there.
                self._sealed = [path for path in told["sealed"] if path != "/" or self._project == "/"]
                self._foreign = self._places.foreign() if self._own else []
            return done.returncode == 0
        except (OSError, ValueError, subprocess.SubprocessError):
            return False
        finally:
            remove_scratch(place)
            refused.unlink(missing_ok=True)

    def _written(self, place: Path) -> Iterator[str]:
        """Paths of files in the upper layers and in the copy that are new or different, and of those that are gone."""
        for layer in sorted(place.glob("upper/*/path")):
            base = layer.read_text(encoding="utf-8", errors="surrogateescape")
            yield from _changed(layer.parent / "upper", {}, base)
        if (place / "copy").exists():
            yield from _changed(place / "copy", self._copied, self._project)
            for path in self._copied:
                if not os.path.lexists(place / "copy" / path):
                    yield os.path.join(self._project, path)


def _offline(place: Path) -> dict[str, str]:
    """Variables of trackers: their files go to the scratch place, nothing is sent."""
    scratch = str(place)
    return {
        "WANDB_MODE": "offline",
        "WANDB_DIR": scratch,
        "WANDB_SILENT": "true",
        "MLFLOW_TRACKING_URI": f"file:{scratch}/mlruns",
        "MLFLOW_REGISTRY_URI": f"file:{scratch}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "COMET_START_ONLINE": "false",
        "COMET_OFFLINE_DIRECTORY": scratch,
        "NEPTUNE_MODE": "offline",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "offline",
    }


def _changed(root: Path, own: Mapping[str, int], base: str) -> Iterator[str]:
    """Files below a folder that stands for `base`; its `own` ones count when they were changed since."""
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _NOISE]
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), root)
            whole = os.path.join(base, path)
            with suppress(OSError):
                changed = own.get(path) != os.lstat(os.path.join(folder, name)).st_mtime_ns
                if changed and not whole.endswith((".pyc", ".lock")) and not _TEMPORARY.match(whole):
                    yield whole


# The copy of the working folder.

_FILES, _BYTES = 20_000, 2 << 30
"""The most that each run copies."""
_LARGE = 256 << 20
"""Bytes of a file that is linked instead: data sets are read, and Landlock refuses to write through the link."""
_LINKED = {".git", ".hg", "node_modules", "__pycache__"}
"""Folders that are linked instead, as environments of Python are."""


def copy_project(source: str, target: str, without: str) -> dict[str, int]:
    """Copy a folder and return its files' times. Raises `NoProtectionError` where it is too large.

    A link within the folder leads within the copy. `without` is a folder that is left out.
    """
    copied: dict[str, int] = {}
    size = 0
    for folder, names, files in os.walk(source):
        here = target + folder[len(source) :]
        os.makedirs(here, exist_ok=True)
        for name in [*names, *files]:
            path, there = os.path.join(folder, name), f"{here}/{name}"
            with suppress(PermissionError, FileNotFoundError):
                status = os.lstat(path)
                if path == without:
                    names.remove(name)
                elif stat.S_ISLNK(status.st_mode):
                    leads = os.path.realpath(path)
                    os.symlink(target + leads[len(source) :] if inside(leads, source) else leads, there)
                elif stat.S_ISDIR(status.st_mode):
                    if name in _LINKED or os.path.exists(f"{path}/pyvenv.cfg") or os.path.isdir(f"{path}/conda-meta"):
                        names.remove(name)
                        os.symlink(path, there)
                elif stat.S_ISREG(status.st_mode):
                    if status.st_size > _LARGE:
                        os.symlink(path, there)
                    else:
                        size += status.st_size
                        shutil.copy2(path, there)
                    copied[os.path.relpath(path, source)] = os.lstat(there).st_mtime_ns
            if len(copied) > _FILES or size > _BYTES:
                raise NoProtectionError(
                    say(
                        "each trial would copy {folder}, which has more than {files:,} files or 2 GiB: start verify in "
                        "a smaller folder, or allow user namespaces (docker run --security-opt seccomp=unconfined)",
                        folder=source,
                        files=_FILES,
                    )
                )
    return copied


# The folders of this machine that a run may write to.

_LIVING = {"proc", "sys", "dev", "run", "boot", "lost+found"}
"""Folders of `/` that hold no files of anyone's."""
_INSTALLED = {"bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr", "etc"}
"""Folders of `/` that are covered where we may write to them."""
_VIRTUAL = {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs", "securityfs",
            "debugfs", "tracefs", "bpf", "pstore", "fusectl", "configfs", "nsfs", "autofs", "binfmt_misc",
            "efivarfs", "rpc_pipefs", "squashfs", "ramfs"}  # fmt: skip
_MEETING = ("nvidia-mps", "nvidia-log", ".X11-unix", ".ICE-unix")
"""Folders of pipes and sockets: an overlay of one leads nowhere."""
_VALUES = 200
"""Variables that are looked at."""
_LOOKED_AT = 1000
"""Entries of a folder that are looked at for their owner."""


class CoveredPlaces:
    """What is to be covered on this machine; `command` names folders that it may write to."""

    def __init__(self, scratch: Path, command: Sequence[str] = ()) -> None:
        self.scratch = str(scratch)
        self.mounts = [path for path, kind in mounts() if kind not in _VIRTUAL and _top(path) not in _LIVING]
        tops = [os.path.join("/", name) for name in sorted(os.listdir("/"))]
        self.cover = [path for path in tops if _covered(path)]
        self.through = list(_meeting_places())
        self.known = [path for path in _named(command) if not inside(path, self.scratch)]
        self.root = os.access("/", os.W_OK)
        for path in self.known:
            if path != "/" and _top(path) not in ("proc", "sys") and not any(inside(path, top) for top in self.cover):
                self.cover.append(path)

    def foreign(self) -> list[str]:
        """Known folders with entries of other users or groups: a user namespace cannot change those."""
        return [path for path in self.known if os.access(path, os.W_OK) and _foreign(path)]


def _covered(path: str) -> bool:
    """Whether a folder of `/` is to be covered."""
    name = path[1:]
    if os.path.islink(path) or not os.path.isdir(path) or name in _LIVING:
        return False
    return name not in _INSTALLED or os.access(path, os.W_OK)


def _top(path: str) -> str:
    """The folder of `/` that it is in."""
    return path[1:].partition("/")[0]


def _named(command: Sequence[str]) -> list[str]:
    """The working folder, the home, and folders that the command or the environment speak of."""
    words = [word.rpartition("=")[2] for word in command]
    values = [value for value in os.environ.values() if value.startswith("/") and ":" not in value]
    found = [os.getcwd(), os.path.expanduser("~")]
    for word in (*words, *values[:_VALUES]):
        path = word if os.path.isdir(word) else os.path.dirname(word)
        if "/" in word and os.path.isdir(path) and os.access(path, os.W_OK):
            found.append(path)
    found = [os.path.realpath(path) for path in found]
    return [path for path in dict.fromkeys(found) if os.path.isdir(path)]


def _foreign(folder: str) -> bool:
    looked = 0
    for path, names, files in os.walk(folder):
        if path.count("/") > folder.count("/") + 1:
            names.clear()
        for name in (".", *names, *files):
            with suppress(OSError):
                status = os.lstat(os.path.join(path, name))
                if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                    return True
            looked += 1
        if looked > _LOOKED_AT:
            break
    return False


def _meeting_places() -> Iterator[str]:
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
