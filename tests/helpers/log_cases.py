"""Checks run on a text as the engine runs them on a job's log."""

from dataclasses import replace
from pathlib import Path

from log_samples import SAMPLES
from some import some

from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.runner import run_checks
from gpudoctor.model import Finding, Found, Patient, Sign
from gpudoctor.vitals.build_log_patient import admit_log, sort_left_behind
from gpudoctor.vitals.job_log import read_job_log

STEPS = "".join(f"step {number} loss 0.{number} lr 1e-4\n" for number in range(100, 120))
"""A training that goes on."""
REGISTRY = load_registry()
MESSAGES = tuple(REGISTRY.log_messages())
EXITS = {item.kind: item.exits[0] for _, item in MESSAGES if item.exits}
"""The exit code beside which a wording counts."""


def log_patient(folder: Path, text: str) -> Patient:
    """A patient of which only this log was left behind, and the exit code if a sample in it needs one."""
    path = folder / "job.out"
    path.write_text(text, encoding="utf-8")
    patient = admit_log(sort_left_behind([str(path)]), MESSAGES)
    codes = [EXITS[kind] for (_, kind), sample in SAMPLES.items() if kind in EXITS and sample in text]
    if not codes:
        return patient
    log = read_job_log([str(path)], MESSAGES, exit_code=codes[0])
    signs = replace(patient.signs, job_log=Sign.of("the log", log))
    return Patient(patient.kind, patient.title, signs, targets=patient.targets)


def found_in_log(code: str, folder: Path, text: str) -> tuple[Finding, ...]:
    """What the check finds in the text; fails where it could not be run."""
    [outcome] = run_checks(log_patient(folder, text), [REGISTRY.checks[code]], {})
    assert not hasattr(outcome, "reason") and not hasattr(outcome, "error"), outcome
    return outcome.findings if isinstance(outcome, Found) else ()


def texts_of(code: str) -> list[str]:
    """The samples of every wording of a check."""
    return some(text for (each, _), text in SAMPLES.items() if each == code)


def each_wording_is_found(code: str, folder: Path) -> None:
    """Assert that the check names the line of each of its wordings, behind a step of training."""
    for text in texts_of(code):
        [finding] = found_in_log(code, folder, f"step 7 loss 2.1\n{text}\n")
        assert finding.code == code and finding.cost.breaks
        assert 2 <= finding.evidence[0].line <= 2 + max(1, text.count("\n"))


def silent_behind_another_exception(code: str, folder: Path) -> None:
    """Assert that a wording behind another exception is no finding; a warning may explain what came before."""
    before = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    go()\n'
        "ZeroDivisionError: division by zero\n\n"
    )
    for text in texts_of(code):
        assert not found_in_log(code, folder, f"{before}{text}\n") or "UserWarning" in text
