"""Set-up that every test shares."""

import compileall
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples at every run, so that a red suite is the change's fault; `--hypothesis-profile explore`
# looks for new ones (what it finds becomes a test of its own).
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", max_examples=2000)
settings.load_profile("same")

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Compile the packages once: tests start many interpreters, and PYTHONDONTWRITEBYTECODE may be set."""
    if hasattr(config, "workerinput"):
        return
    for folder in ("gpudoctor", "checks", "rules"):
        compileall.compile_dir(ROOT / folder, quiet=2, workers=1)
