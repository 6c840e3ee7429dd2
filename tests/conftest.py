"""Set-up that every test shares."""

import compileall
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Compile the packages once: tests start many interpreters, and PYTHONDONTWRITEBYTECODE may be set."""
    if hasattr(config, "workerinput"):
        return
    for folder in ("gpudoctor", "checks", "rules"):
        compileall.compile_dir(ROOT / folder, quiet=2, workers=1)
