"""Set-up that every test shares."""

import compileall
import gc
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples at every run, so that a red suite is the change's fault; `--hypothesis-profile explore`
# looks for new ones (what it finds becomes a test of its own). A busy machine is no failure: no clock decides.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", max_examples=2000)
settings.load_profile("same")

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C means something to the programs that tests start, and the packages are compiled once.

    A shell that starts the suite in the background has it ignore SIGINT, and its children would inherit that;
    PYTHONDONTWRITEBYTECODE may be set, and tests start many interpreters.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    for folder in ("gpudoctor", "checks", "rules"):
        compileall.compile_dir(ROOT / folder, quiet=2, workers=1)


def pytest_collection_finish() -> None:
    """What was loaded to collect the tests stays: going through it again at each collection takes 0.2 s and more."""
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
