"""Every edit that a finding of these tests gets is applied to a copy, and the copy is examined again.

What is said is compared with `said.txt`, and where thresholds decide with `limits.txt`.
"""

import os

import limits
import said
from claims import beyond
from cures import failures

import gpudoctor.testing
from gpudoctor.analysis.run.steady_run import recorded, run_of
from gpudoctor.analysis.workload import optional
from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Check, Finding, Patient, Unavailable
from gpudoctor.model.collecting import mentioned

_registry = load_registry()
_rules = _registry.rules
_examine = gpudoctor.testing.examine
_seen: set[object] = set()


def examine(check: type[Check], patient: Patient, **overrides: float) -> list[Finding]:
    """As `gpudoctor.testing.examine`; fails when an edit of a rule of ours does not cure, or too much is claimed."""
    here = "checks/" in os.environ.get("PYTEST_CURRENT_TEST", "") and check.__module__.startswith("gpudoctor_checks.")
    case = limits.case_of(check) if here else ""
    try:
        found = _examine(check, patient, **overrides)
    except Unavailable as reason:
        if here:
            said.compare_reason(check.code, str(reason))
            limits.compare(_examine, check, patient, overrides, case)
        raise
    if here:
        limits.compare(_examine, check, patient, overrides, case)
    known = _registry.checks.get(check.code)
    assert not found or known is None or mentioned(known(), patient), "no word of mentions.json"
    recording = recorded(patient)
    run = run_of(recording) if recording is not None else None
    if here and (recording is not None or optional(lambda: patient.source_and_configs) is None):
        said.compare_whole(str(check.code), case, {said.with_numbers(finding) for finding in found})
    idle = None if run is None else run.idle
    assert not beyond(found, 1.0 if idle is None else idle), (
        "a wait of the host is worth no more than the device is idle"
    )
    rules = _rules.get(check.code, ())
    for finding in found:
        remedies = [item for rule in rules for item in rule().prescribe(finding, patient)]
        if here:
            said.compare(finding, remedies, patient)
        for remedy in remedies:
            case = (remedy.edits, finding.message, tuple(overrides.items()))
            if remedy.edits and case not in _seen:
                _seen.add(case)
                problems = failures(check, patient, finding, remedy, overrides)
                assert not problems, f"{remedy.id} does not cure: {problems}"
    return found


gpudoctor.testing.examine = examine


def pytest_sessionfinish() -> None:
    said.write()
    limits.write()
