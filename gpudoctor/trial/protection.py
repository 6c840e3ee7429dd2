"""How the runs of a trial are kept away from the user's files: the strongest way that this machine allows.

Every folder that the user may write to is covered by an overlay in a mount namespace of the run's own
(`jail/covering.py`): whatever a run saves, appends or deletes lands in the scratch place and is gone with
it. Where no namespace can be had, Landlock refuses every write (`jail/landlock.py`) and the probe redirects the
writers of Python into the scratch place (`probe/overrides/writes.py`), so that a training saves as it would
have. Where there is no Landlock either, the redirection is all there is. The report says which.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

import gpudoctor
from gpudoctor.lang import say
from gpudoctor.trial.scratch import cache_folders, link_entries, linked_caches, remove_scratch
from gpudoctor.trial.trial_runner import Protection
from gpudoctor.trial.trial_sites import CoveredPlaces, inside

_NOISE = {"__pycache__", ".cache", ".triton", ".nv", "torchinductor", ".config"}
"""Caches that any program leaves: kept out like everything, and not worth a line."""
_TEMPORARY = re.compile(r"/(var/)?tmp/(tmp[a-z0-9_]{8}|pymp-|torch|wandb|nvidia|hsperfdata|\.|\w*cache)")
"""Names that `tempfile` and libraries give to what is nobody's."""
_NOTES = "not-sent"
"""The probe's file with what was kept from being sent (`probe/overrides/offline.py`)."""
_TRY_SECONDS = 20.0
_LISTED = 200
_VARIABLE = "GPUDOCTOR_PROTECTION"
"""The strongest level that is to be tried: for tests, and where a stronger one is in the way."""
_ENTER = f"import sys; sys.path.insert(0, {str(Path(gpudoctor.__file__).parents[1])!r}); "
_ENTER += "from gpudoctor.trial.jail.enter import main; main()"
_PROBING = "import os, sys\ntry: open(sys.argv[1], 'w')\nexcept OSError: sys.exit(0)\nsys.exit(1)"


class Level(Enum):
    """How strong, strongest first."""

    OVERLAY = "overlay"
    READ_ONLY = "read-only"
    LANDLOCK = "landlock"
    WRITERS = "writers"


WORDS = {
    Level.OVERLAY: say("every run wrote to an overlay"),
    Level.READ_ONLY: say("all files were mounted read-only; what Python writes was redirected"),
    Level.LANDLOCK: say("Landlock refused every write; what Python writes was redirected"),
    Level.WRITERS: say(
        "what Python writes was redirected; this kernel allows neither an overlay nor Landlock, so "
        "other programs could write"
    ),
}
REFUSED = say("other programs than Python cannot write to your files in a trial here")
"""Why something may fail that works without us, at the levels in between."""


class RunProtection:
    """Protects one run after the other, and remembers what was kept out."""

    def __init__(self, scratch: Path, command: Sequence[str] = (), strongest: Level | None = None) -> None:
        self._scratch = scratch
        self._found: dict[str, None] = {}
        self._unsent: dict[str, None] = {}
        self._runs = 0
        self._sealed: list[str] = []
        """Folders that are read-only."""
        self._own = False
        """Whether the overlays are those of a user namespace."""
        self._foreign: list[str] = []
        """Folders whose overlay takes new files only."""
        self._caches = scratch / "caches"
        self._variables: dict[str, str] = {}
        self._places = CoveredPlaces(scratch, command) if sys.platform == "linux" else None
        self.level = self._strongest(strongest or _asked())
        """The level of all runs."""
        if self.level is not Level.OVERLAY:
            self._variables = linked_caches(self._caches)

    @property
    def words(self) -> str:
        """How, in one clause."""
        sealed = self._redirected
        if self.level is Level.OVERLAY and sealed:
            return say(
                "{words}; in {sealed} what Python writes was redirected",
                words=WORDS[self.level],
                sealed=", ".join(sealed[:3]),
            )
        return WORDS[self.level]

    @property
    def promised(self) -> bool:
        """Whether the kernel holds every program back, everywhere."""
        return self.level is not Level.WRITERS and not (self.level is Level.OVERLAY and self._redirected)

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
            for path in _written(place):
                self._found.setdefault(path)
            with suppress(OSError):
                notes = (place / _NOTES).read_text(encoding="utf-8", errors="replace")
                self._unsent.update(dict.fromkeys(notes.splitlines()))
            remove_scratch(place)

    def _protection(self, level: Level, folder: Path, place: Path) -> Protection:
        overrides: dict[str, object] = {"offline.scratch": str(place)}
        environment = _offline(place)
        sealed = self._redirected if level is Level.OVERLAY else None
        if sealed is None or sealed:
            overrides["writes.redirected"] = {
                "place": str(place / "files"),
                "free": [str(folder), str(place), str(self._caches)],
                "only": sealed,
                "strict": level is Level.WRITERS,
            }
        if level is Level.OVERLAY and self._own:
            overrides["writes.moves"] = True
        if level in (Level.LANDLOCK, Level.WRITERS):
            environment |= {"TMPDIR": str(_temporary(place)), "PYTHONDONTWRITEBYTECODE": "1", **self._variables}
        config = self._config(level, folder, place)
        prefix: tuple[str, ...] = ()
        if config:
            path = place / "jail.json"
            path.write_text(json.dumps(config), encoding="utf-8")
            prefix = (sys.executable, "-I", "-S", "-c", _ENTER, str(path))
        return Protection(
            prefix=prefix,
            overrides=overrides,
            environment=environment,
            hint=REFUSED if level in (Level.READ_ONLY, Level.LANDLOCK) or self._redirected else "",
        )

    def _config(self, level: Level, folder: Path, place: Path) -> dict[str, object]:
        """For the program that closes the door; empty where there is none."""
        if self._places is None or level is Level.WRITERS:
            return {}
        if level is Level.LANDLOCK:
            writable = [str(folder), str(place), str(self._caches), "/dev/shm"]
            return {"how": "landlock", "writable": writable, "devices": ["/dev", "/proc", *self._places.through]}
        upper = place / "upper"
        upper.mkdir()
        caches = [(path, str(self._caches / str(number))) for number, path in enumerate(cache_folders()) if number < 99]
        return {
            "how": "mounts",
            "cover": self._places.cover,
            "mounts": self._places.mounts,
            "known": self._places.known,
            "through": [str(folder), *self._places.through],
            "caches": [] if level is Level.READ_ONLY else caches,
            "root": self._places.root,
            "scratch": str(self._scratch),
            "upper": str(upper),
            "told": str(place / "told.json"),
            "overlays": level is not Level.READ_ONLY,
        }

    def _strongest(self, first: Level) -> Level:
        levels = list(Level)
        for level in levels[levels.index(first) : -1]:
            self._sealed, self._foreign = [], []
            if self._places is not None and self._tried(level):
                here = any(inside(os.getcwd(), path) for path in self._sealed if path != "/")
                if level is not Level.OVERLAY or not here:
                    return level
        self._sealed, self._foreign = [], []
        return Level.WRITERS

    @property
    def _redirected(self) -> list[str]:
        """Folders that an overlay could not cover. `/` itself is read-only; few have their project there."""
        sealed = [path for path in self._sealed if path != "/" or os.getcwd() == "/"]
        return sealed + self._foreign

    def _tried(self, level: Level) -> bool:
        """Whether a command can be run so, and is held back."""
        place = self._scratch / f"try-{level.value}"
        place.mkdir(mode=0o700)
        refused = self._scratch / "refused"
        try:
            prefix = self._protection(level, place, place).prefix
            words = [*prefix, sys.executable, "-I", "-S", "-c"]
            words += [_PROBING, str(refused)] if level is Level.LANDLOCK else [""]
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRY_SECONDS, check=False
            )
            if level is not Level.LANDLOCK and done.returncode == 0:
                told = json.loads((place / "told.json").read_text(encoding="utf-8"))
                self._sealed = told["sealed"]
                self._own = told["own"]
                self._foreign = self._places.foreign() if self._own and self._places else []
            return done.returncode == 0
        except (OSError, ValueError, subprocess.SubprocessError):
            return False
        finally:
            remove_scratch(place)
            refused.unlink(missing_ok=True)


def _asked() -> Level:
    """The level that the environment names; an unknown one is none."""
    name = os.environ.get(_VARIABLE, "")
    return next((level for level in Level if level.value == name), Level.OVERLAY)


def _temporary(place: Path) -> Path:
    """A temporary folder of the run's own; what lies in one that the user has chosen is found there."""
    folder = place / "tmp"
    link_entries(os.environ.get("TMPDIR", ""), folder)
    return folder


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


def _written(place: Path) -> Iterator[str]:
    """Paths of files in the upper layers, and of redirected ones."""
    for layer in sorted(place.glob("upper/*/path")):
        base = layer.read_text(encoding="utf-8", errors="surrogateescape")
        own: dict[str, int] = {}
        with suppress(OSError):
            own = json.loads((layer.parent / "own").read_text(encoding="utf-8"))
        for path in _files(layer.parent / "upper", own):
            whole = os.path.join(base, path)
            if not whole.endswith((".pyc", ".lock")) and not _TEMPORARY.match(whole):
                yield whole
    for path in _files(place / "files", {}):
        if not _TEMPORARY.match("/" + path):
            yield "/" + path
    for path in _files(place / "files.gone", {}):  # marks: a file in a folder of the name
        yield "/" + os.path.dirname(path)


def _files(root: Path, own: dict[str, int]) -> Iterator[str]:
    """Files below a folder, relative to it; its `own` ones count when they were changed since."""
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _NOISE]
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), root)
            with suppress(OSError):
                if own.get(path) != os.lstat(os.path.join(folder, name)).st_mtime_ns:
                    yield path
