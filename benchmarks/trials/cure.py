"""One patient examined, treated and timed: what `gpudoctor verify --keep` makes of it, called as users do."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from trials.corpus import Patient, said_seconds, twins

REACHED = 0.15
"""The mended program's step may take so much longer than the well twin's."""
_SICK_TIMES = 3
"""How often the sick program is timed beside the other two."""
_LIMIT = 900.0
"""Seconds for one run of a program."""


@dataclass(kw_only=True)
class Outcome:
    """What came of one patient."""

    name: str
    what: str
    code: str = ""
    """What came first."""
    found: bool = False
    """Whether that names the cause."""
    remedy: str = ""
    """The title of the best proven remedy of the cause."""
    proof: dict[str, Any] | None = None
    proven: bool = False
    kept: bool = False
    """Whether `--keep` has changed the program."""
    patch: str = ""
    left: list[str] = field(default_factory=list)
    """Codes that a run of the mended program still reports, as warnings or errors."""
    healthy: bool = False
    """Whether the cause is no longer found in the mended program."""
    sick_seconds: float | None = None
    mended_seconds: float | None = None
    well_seconds: float | None = None
    """A step, by the program's own clock: medians."""
    ratios: list[float] = field(default_factory=list)
    """Mended by well, pair by pair."""
    reached: bool = False
    verify_seconds: float = 0.0
    error: str = ""

    @property
    def ratio(self) -> float | None:
        """Mended by well, the median over the pairs."""
        return median(self.ratios) if self.ratios else None

    @property
    def cured(self) -> bool:
        """Whether all of it holds."""
        return self.found and self.proven and self.kept and self.healthy and self.reached


def environment() -> dict[str, str]:
    """Of every program: nothing asks the network."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def treat(patient: Patient, folder: Path, pairs: int, budget: str, say: Callable[[str], None]) -> Outcome:
    """Examine, treat, examine again, and time a patient in an empty folder."""
    outcome = Outcome(name=patient.name, what=patient.what)
    sick, well = twins(patient.text)
    places = {name: folder / name for name in ("sick", "mended", "well")}
    for name, text in (("sick", sick), ("mended", sick), ("well", well)):
        places[name].mkdir(parents=True)
        (places[name] / "patient.py").write_text(text, encoding="utf-8")
    say("verify")
    _verify(patient, places["mended"], budget, outcome)
    if outcome.kept:
        say("run again")
        _examine_again(patient, places["mended"], outcome)
        _time(patient, places, pairs, outcome, say)
    return outcome


def _doctor(patient: Patient, folder: Path, command: str, flags: list[str]) -> tuple[dict[str, Any], str]:
    """A report, and what went wrong where there is none."""
    path = folder.parent / f"{command}.json"
    words = [sys.executable, "-m", "gpudoctor", command, "--quiet", "--format", "json", "--output", str(path)]
    words += [*flags, "--", sys.executable, *patient.arguments]
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=3600, check=False
        )
    except subprocess.TimeoutExpired:
        return {}, "no end within an hour"
    try:
        return json.loads(path.read_text(encoding="utf-8")), ""
    except (OSError, ValueError):
        return {}, f"no report, exit code {done.returncode}: {done.stderr[-300:]}"


def _verify(patient: Patient, folder: Path, budget: str, outcome: Outcome) -> None:
    before = (folder / "patient.py").read_text(encoding="utf-8")
    began = time.monotonic()
    report, outcome.error = _doctor(patient, folder, "verify", ["--keep", "--unsafe", "--budget", budget])
    outcome.verify_seconds = round(time.monotonic() - began, 1)
    judge(report, patient.codes, outcome)
    outcome.kept = (folder / "patient.py").read_text(encoding="utf-8") != before


def judge(report: dict[str, Any], codes: tuple[str, ...], outcome: Outcome) -> None:
    """What the report of `verify` says of the cause: its place, its remedy, the proof, the patch."""
    findings = report.get("findings") or []
    outcome.code = findings[0]["code"] if findings else ""
    outcome.found = outcome.code in codes
    trial = report.get("trial") or {}
    outcome.patch = trial.get("patch") or ""
    mine = {remedy["id"] for item in findings if item["code"] in codes for remedy in item["remedies"]}
    proven = [row for row in trial.get("rows") or [] if row["conclusion"] == "proven" and row["name"] in mine]
    together = trial.get("together")
    if len(proven) > 1 and together is not None and together["conclusion"] == "proven":
        proven.insert(0, together)
    outcome.proven = bool(proven)
    tried = proven or [row for row in trial.get("rows") or [] if row["name"] in mine]
    if tried:
        outcome.remedy, outcome.proof = tried[0]["title"], tried[0]["proof"]
        if not proven:
            outcome.error = outcome.error or f"{tried[0]['conclusion']}: {tried[0]['reason'] or ''}".rstrip(": ")


def _examine_again(patient: Patient, folder: Path, outcome: Outcome) -> None:
    report, error = _doctor(patient, folder, "run", [])
    outcome.error = outcome.error or error
    findings = report.get("findings") or []
    outcome.left = [item["code"] for item in findings if item["severity"] != "note"]
    outcome.healthy = bool(report) and not set(outcome.left) & set(patient.codes)


def _time(patient: Patient, places: dict[str, Path], pairs: int, outcome: Outcome, say: Callable[[str], None]) -> None:
    """The three programs one right after the other, in turning order."""
    seconds: dict[str, list[float]] = {name: [] for name in places}
    for number in range(pairs):
        order = ["mended", "well"] if number % 4 in (0, 3) else ["well", "mended"]
        order += ["sick"] if number < _SICK_TIMES else []
        for name in order:
            say(f"pair {number + 1} of {pairs}: {name}")
            step = own_clock([sys.executable, *patient.arguments], places[name])
            if step is None:
                outcome.error = outcome.error or f"the {name} program told no step time"
                return
            seconds[name].append(step)
    outcome.ratios = [round(a / b, 4) for a, b in zip(seconds["mended"], seconds["well"], strict=True)]
    outcome.mended_seconds, outcome.well_seconds = median(seconds["mended"]), median(seconds["well"])
    outcome.sick_seconds = median(seconds["sick"])
    outcome.reached = median(outcome.ratios) <= 1 + REACHED


def own_clock(words: list[str], folder: Path) -> float | None:
    """Seconds a step, as the program tells them."""
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return said_seconds(done.stdout) if done.returncode == 0 else None
