"""Runs the real command in a child process, as a user would."""

import os
import subprocess
import sys
from pathlib import Path

TIMEOUT = 60


def gpudoctor(
    *words: str, cwd: Path | None = None, timeout: float = TIMEOUT, **variables: str
) -> subprocess.CompletedProcess[str]:
    """`gpudoctor WORDS` with extra environment variables; output captured as text."""
    environment = {**os.environ, "PYTHONUTF8": "1", **variables}
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        timeout=timeout,
        check=False,
    )
