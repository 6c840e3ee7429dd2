"""Checks run on a text as the engine runs them on a job's log."""

from pathlib import Path

from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.runner import run_checks
from gpudoctor.model import Finding, Found, Patient
from gpudoctor.vitals.build_log_patient import admit_log, sort_left_behind

STEPS = "".join(f"step {number} loss 0.{number} lr 1e-4\n" for number in range(100, 120))
"""A training that goes on."""


def log_patient(folder: Path, text: str) -> Patient:
    """A patient of which only this log was left behind."""
    path = folder / "job.out"
    path.write_text(text, encoding="utf-8")
    return admit_log(sort_left_behind([str(path)]), load_registry().log_messages())


def found_in_log(code: str, folder: Path, text: str) -> tuple[Finding, ...]:
    """What the check finds in the text; fails where it could not be run."""
    [outcome] = run_checks(log_patient(folder, text), [load_registry().checks[code]], {})
    assert not hasattr(outcome, "reason") and not hasattr(outcome, "error"), outcome
    return outcome.findings if isinstance(outcome, Found) else ()
