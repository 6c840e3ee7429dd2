"""Runs the real command in a child process, as a user would."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from forks import FORKS_TRAININGS, Begun, Request, zygote

TIMEOUT = 60


def _program(trainings: int) -> str:
    return "zygote_training.py" if trainings and FORKS_TRAININGS else "zygote_command.py"


def begin(*words: str, cwd: Path, said: Path, name: str, timeout: float, trainings: int, **variables: str) -> Begun:
    """`gpudoctor WORDS` as a forked process that may be watched, and ended, while it runs.

    It and all that it forks have a name in /proc; what it says is kept in the folder `said`.
    """
    said.mkdir()
    request = Request(
        words=["-m", *words], folder=cwd, environment={**os.environ, "PYTHONUTF8": "1", **variables}, said=said,
        limit=timeout, trainings=trainings, name=name,
    )  # fmt: skip
    return zygote(_program(trainings)).begin(request)


def gpudoctor(
    *words: str,
    cwd: Path | None = None,
    timeout: float = TIMEOUT,
    start: bool = False,
    trainings: int = 0,
    loaded: Sequence[str] = (),
    path: Sequence[str] = (),
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """`gpudoctor WORDS` with extra environment variables; output captured as text.

    `start` starts an interpreter for it (so do variables that Python itself reads); else a process that has
    gpudoctor loaded is forked. The first `trainings` Python scripts that the command starts are forked too, from
    one that has torch and what is `loaded`. `path` is PYTHONPATH's.
    """
    environment = {**os.environ, "PYTHONUTF8": "1", **variables}
    if not start and hasattr(os, "fork") and not any(name.startswith("PYTHON") for name in variables):
        with TemporaryDirectory() as said:
            return zygote(_program(trainings)).run(
                Request(
                    words=["-m", *words], folder=cwd or Path.cwd(), environment=environment, said=Path(said),
                    limit=timeout, trainings=trainings, loaded=loaded, path=path,
                )
            )  # fmt: skip
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(path)
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        timeout=timeout,
        check=False,
    )
