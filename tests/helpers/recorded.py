"""Runs the recorder in a child process of its own, as `gpudoctor run` does, without the report."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TIMEOUT = 60
_DRIVER = """
import json, sys
from pathlib import Path
from gpudoctor.recorder.run import RunPlan, record
folder, facts, *command = sys.argv[1:]
plan = RunPlan(command=tuple(command), folder=Path(folder), **json.loads(facts))
ending = record(plan, lambda now, passed: None)
sys.exit(ending.exit_code)
"""


def _hears_all() -> None:
    """What `nohup` or a shell in the background has the suite ignore, the command must not inherit."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


class Recorded:
    """A command under the recorder, in a session of its own, its output on pipes."""

    def __init__(self, folder: Path, command: Sequence[str], env: dict[str, str] | None = None, **facts: Any):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _DRIVER, str(folder), json.dumps(facts), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_hears_all,
            env={**os.environ, **(env or {})},
        )

    @property
    def pid(self) -> int:
        """Process id of the recorder, and of its process group."""
        return self.process.pid

    def line(self) -> str:
        """The next line of the command's standard output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self, text: str | None = None) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        out, err = self.process.communicate(text, timeout=TIMEOUT)
        return self.process.returncode, out, err

    def ending(self) -> dict[str, Any]:
        """What end.json says."""
        return json.loads((self.folder / "end.json").read_text())


def wait_for(condition: Any, seconds: float = 20.0) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
