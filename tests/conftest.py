"""Set-up that every test shares."""

import compileall
import gc
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples at every run, so that a red suite is the change's fault; `--hypothesis-profile explore`
# looks for new ones (what it finds becomes a test of its own). A busy machine is no failure: no clock decides.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", max_examples=2000)
settings.load_profile("same")

ROOT = Path(__file__).resolve().parent.parent
UNWRITTEN = pytest.StashKey[bool]()
"""Whether Python was told to write no compiled files."""


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C means something to the programs that tests start, and the packages and tests are compiled once.

    A shell that starts the suite in the background has it ignore SIGINT, and its children would inherit that;
    PYTHONDONTWRITEBYTECODE may be set, and tests start many interpreters. To give the assertions of 380 files
    their messages takes half of a collection: while tests are collected, pytest may write down what it made.
    """
    config.stash[UNWRITTEN] = sys.dont_write_bytecode
    sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    for folder in ("gpudoctor", "checks", "rules"):
        compileall.compile_dir(ROOT / folder, quiet=2, workers=0)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was loaded to collect the tests stays: going through it again at each collection takes 0.2 s and more."""
    sys.dont_write_bytecode = session.config.stash[UNWRITTEN]
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Each worker of `-n N` has a run of whole files, and who is done first takes half of what another has left.

    What a file's tests share (a process that has torch, a recording, a baseline) is then made once, not in each worker.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)
