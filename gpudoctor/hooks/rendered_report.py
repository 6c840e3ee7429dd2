"""The report of a recording, made by the command line in a process of its own: the training keeps its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gpudoctor.errors import IncompleteError
from gpudoctor.model.child_process import child_code
from gpudoctor.model.external_files import read_text
from gpudoctor.model.read_limits import REPORT

_REPORT = 120.0
"""Seconds that a report may take."""


def rendered_report(folder: "str | os.PathLike[str]", how: str) -> str:
    """`gpudoctor report FOLDER --format HOW`, made in a process of its own. Raises `IncompleteError`."""
    with tempfile.TemporaryDirectory(prefix="gpudoctor-") as place:
        out = Path(place) / "report"
        words = ["report", os.fspath(folder), f"--format={how}", f"--output={out}", "--fail-on=never", "--quiet"]
        try:
            done = subprocess.run(
                [sys.executable, "-c", child_code("gpudoctor.cli"), *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_REPORT,
                check=False,
            )
            return read_text(out, REPORT)
        except subprocess.TimeoutExpired:
            raise IncompleteError(f"the report of {folder} took longer than {_REPORT:g} s") from None
        except OSError:
            said = [line for line in done.stderr.splitlines() if line.startswith("gpudoctor: ")]
            reason = said[-1].removeprefix("gpudoctor: ") if said else f"exit code {done.returncode}"
            raise IncompleteError(f"the report of {folder} was not made: {reason}") from None
