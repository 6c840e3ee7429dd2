"""`train-doctor fix --keep` on the same patients, its words read generously."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from trials.corpus import Patient, twins
from trials.cure import REACHED, environment, own_clock

SUGGESTION = "no_torch_compile"
"""It comes with almost every program: neither a wrong first place nor a right one."""


@dataclass(kw_only=True)
class Theirs:
    """What it made of one patient."""

    name: str
    findings: tuple[str, ...] = ()
    """Its candidates and suggestions, in its order."""
    found: bool = False
    """Whether one of them could mean the cause."""
    remedy: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    loss: str = ""
    proven: bool = False
    """Whether it kept a change."""
    kept: bool = False
    """Whether it changed the program."""
    ratio_to_well: float | None = None
    reached: bool = False
    seconds: float = 0.0
    error: str = ""


def treat_theirs(patient: Patient, folder: Path, tool: Path, pairs: int) -> Theirs:
    """Let it fix a patient in an empty folder; the mended program is timed beside the well twin."""
    outcome = Theirs(name=patient.name)
    sick, well = twins(patient.text)
    for name, text in (("mended", sick), ("well", well)):
        (folder / name).mkdir(parents=True)
        (folder / name / "patient.py").write_text(text, encoding="utf-8")
    words = [str(tool), "fix", "--json", "--keep", "--no-card", "--quiet", "--", sys.executable]
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*words, *patient.arguments], cwd=folder / "mended", env=environment(),
            capture_output=True, text=True, timeout=3600, check=False,
        )  # fmt: skip
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        outcome.error = "no end within an hour"
        return outcome
    except ValueError:
        outcome.error = f"no report: {(done.stderr or done.stdout)[-300:]}"
        return outcome
    finally:
        outcome.seconds = round(time.monotonic() - began, 1)
    judge_theirs(report, patient.theirs, outcome)
    outcome.kept = (folder / "mended" / "patient.py").read_text(encoding="utf-8") != sick
    if outcome.kept:
        _time(patient, folder, pairs, outcome)
    return outcome


def judge_theirs(report: dict[str, Any], names: tuple[str, ...], outcome: Theirs) -> None:
    """What its report says: causes by whatever name, the change that it kept."""
    tried, said = report.get("candidates") or [], report.get("suggestions") or []
    causes = [item.get("from_finding") or item["candidate"] for item in tried]
    causes += [item.get("from_finding") or item["id"] for item in said]
    outcome.findings = tuple(name for name in dict.fromkeys(causes) if name != SUGGESTION)
    outcome.found = any(name in names for name in outcome.findings)
    proven = report.get("proven") or {}
    ratio, loss = proven.get("ratio") or {}, proven.get("loss_check") or {}
    outcome.proven, outcome.remedy = bool(ratio), str(proven.get("describe") or "")
    outcome.ratio, outcome.low, outcome.high = (ratio.get(key) for key in ("point", "low", "high"))
    outcome.loss = str(loss.get("status") or "")


def _time(patient: Patient, folder: Path, pairs: int, outcome: Theirs) -> None:
    ratios = []
    for _ in range(pairs):
        mended, well = (
            own_clock([sys.executable, *patient.arguments], folder / name) for name in ("mended", "well")
        )
        if mended is None or well is None:
            outcome.error = "a program told no step time"
            return
        ratios.append(mended / well)
    outcome.ratio_to_well = round(median(ratios), 4)
    outcome.reached = outcome.ratio_to_well <= 1 + REACHED
