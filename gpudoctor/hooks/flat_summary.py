"""The report of a recording for a program, made in a process of its own: the training keeps its own.

`gpudoctor.summary(recording)`: its numbers in a flat dict, for wandb, MLflow, TensorBoard.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpudoctor.errors import IncompleteError
from gpudoctor.model.child_process import child_code
from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.read_limits import REPORT

_PREFIX = "gpudoctor"


def summary(recording: Any) -> dict[str, float]:
    """Numbers of a recording: a folder, or what `gpudoctor.record()` gave. Names end with the unit.

    `wandb.log(gpudoctor.summary(recording))` or `mlflow.log_metrics(...)`. Raises `IncompleteError` where the
    recording cannot be read.
    """
    if hasattr(recording, "summary"):
        own: dict[str, float] = recording.summary()
        return own
    return flat(load_json(rendered_report(os.fspath(recording), "json")))


def flat(report: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a JSON report; what was not measured is left out."""
    counts = report["summary"]
    found: dict[str, Any] = {f"findings_{word}": counts[word] for word in ("error", "warning", "note")}
    run = report.get("run") or {}
    for word in ("steps", "ranks", "seconds", "warm_up_seconds"):
        found[word] = run.get(word)
    for word, value in (run.get("step_seconds") or {}).items():
        found[f"step_seconds/{word}"] = value
    for word in ("steps_per_second", "samples_per_second", "tokens_per_second", "mfu"):
        found[f"throughput/{word}"] = (run.get("throughput") or {}).get(word)
    for word, value in (run.get("phases") or {}).items():
        found[f"phase_share/{word}"] = value
    for word, value in (run.get("memory") or {}).items():
        found[f"memory_bytes/{word}"] = value
    for line, facts in (run.get("training") or {}).items():
        found |= {f"training/{line}/{word}": value for word, value in facts.items()}
    for index, gpu in enumerate(run.get("gpus") or ()):
        found |= {f"gpu{index}/{word}": value for word, value in gpu.items() if word != "index"}
    numbers = {name: value for name, value in found.items() if type(value) in (int, float)}
    return {f"{_PREFIX}/{name}": float(value) for name, value in numbers.items()}


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
