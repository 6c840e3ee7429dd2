"""Set-up that every test shares."""

import compileall
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same few examples at every run, so that a red suite is the change's fault; `--hypothesis-profile explore`
# looks for new ones (what it finds becomes a test of its own). A busy machine is no failure: no clock decides.
SLOW = [HealthCheck.too_slow]
settings.register_profile("same", max_examples=25, derandomize=True, deadline=None, suppress_health_check=SLOW)
settings.register_profile("explore", max_examples=2000)
settings.load_profile("same")

ROOT = Path(__file__).resolve().parent.parent
UNWRITTEN = pytest.StashKey[bool]()
"""Whether Python was told to write no compiled files."""
OWN_STATE = pytest.StashKey[str]()
"""The folder in which the tests' commands keep recordings and calibrations: never the home of whoever runs them."""

MEMORY = "/dev/shm"
ROOM = 2 << 30
"""Bytes that have to be free there."""
COLLECT_AFTER = 100_000
"""New objects between two passes of the garbage collector: as in a command, looking for cycles finds hardly one."""


def keep_files_in_memory() -> None:
    """Unless the user has named a place for them: to delete a file of a disk takes up to 8 ms, and there are thousands."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C means something to the programs that tests start, and the packages and tests are compiled once.

    A shell that starts the suite in the background has it ignore SIGINT, and its children would inherit that;
    PYTHONDONTWRITEBYTECODE may be set, and tests start many interpreters. To give the assertions of 380 files
    their messages takes half of a collection: while tests are collected, pytest may write down what it made.
    """
    config.stash[UNWRITTEN] = sys.dont_write_bytecode
    os.environ["GPUDOCTOR_LANG"] = "en"  # whatever the locale of whoever runs the tests
    gc.set_threshold(COLLECT_AFTER)
    sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if (worker := getattr(config, "workerinput", None)) is not None:
        backwards = int(worker["workerid"].removeprefix("gw")) % 2 == 1
        config.pluginmanager.register(LastFilesFirst(backwards), "last-files-first")
        return
    keep_files_in_memory()
    own = config.stash[OWN_STATE] = tempfile.mkdtemp(prefix="gpudoctor-tests-")
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):  # workers and commands inherit them
        os.environ[name] = os.path.join(own, name)
    for folder in ("gpudoctor", "checks", "rules"):
        compileall.compile_dir(ROOT / folder, quiet=2, workers=0)


def pytest_unconfigure(config: pytest.Config) -> None:
    """What the tests' commands kept goes with them."""
    if own := config.stash.get(OWN_STATE, None):
        shutil.rmtree(own, ignore_errors=True)


class LastFolderFirst(pytest.Dir):
    """A folder whose files and folders are collected in the opposite order."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """What pytest collects, from the last to the first."""
        return list(super().collect())[::-1]


TORCH = re.compile("cli/test_(estimate_t|run_|verify)|estimate|examples|hooks|preflight|probe|recorder|trial|virtual_")
"""Folders and files of tests that need torch, here or in a process that forks: the first ones of all.

Each worker of `-n N` begins with a run of files: one has most of these then, and torch is loaded once for them.
They are the longest, too; what is left at the end is short and can be shared out.
"""


def place(item: pytest.Item) -> tuple[bool, tuple[str, ...]]:
    """By what tests are ordered."""
    path = item.path.relative_to(ROOT)
    return not TORCH.match("/".join(path.parts[1:])), path.parts


class LastFilesFirst:
    """Collects the files from the last to the first, and orders the tests by their files.

    Every worker of `-n N` collects all files, and whoever comes first to one writes down its assertions' messages.
    From both ends, each of two workers does that for one half.
    """

    def __init__(self, backwards: bool) -> None:
        self.backwards = backwards

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """The folder, from its end; a package is left to pytest."""
        if not self.backwards or (path / "__init__.py").exists():
            return None
        return LastFolderFirst.from_parent(parent, path=path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """All workers have to give xdist their tests in one order."""
        items.sort(key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was loaded to collect the tests stays: going through it again at each collection takes 0.2 s and more."""
    sys.dont_write_bytecode = session.config.stash[UNWRITTEN]
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Iterator[int]:
    """`-n auto` is one worker more than there are CPUs: nearly a third of its time a worker waits, for a limit or a child.

    (On 2 CPUs, two workers had 742 s of CPU in 2 x 538 s.)
    """
    count = yield
    return count if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") else count + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Each worker of `-n N` has a run of whole files, and who is done first takes half of what another has left.

    What a file's tests share (a process that has torch, a recording, a baseline) is then made once, not in each worker.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)
