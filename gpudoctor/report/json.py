"""The JSON report, version 1 (`report-1.schema.json`): keys may be added, never renamed or dropped."""

import json
import math

from gpudoctor.lang.message_data import template_object
from gpudoctor.model import (
    SCHEMA,
    Crashed,
    Edit,
    Effect,
    Evidence,
    Finding,
    Found,
    ImportEdit,
    Json,
    KeywordEdit,
    LogLine,
    Measurement,
    Outcome,
    Passed,
    Ranked,
    Remedy,
    Report,
    SetAside,
    Setting,
    Silenced,
    Skipped,
    SourceSpan,
    Subject,
    Summary,
)
from gpudoctor.report.json_parts import (
    log_object,
    preflight_object,
    proof_object,
    run_object,
    synthetic_object,
    trial_object,
)
from gpudoctor.report.units import assert_never

JsonObject = dict[str, Json]


def render(report: Report) -> str:
    """The report as an indented JSON document.

    ASCII only, so that it survives any encoding on its way; a number that is not finite becomes null.
    """
    return json.dumps(as_object(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def render_line(report: Report) -> str:
    """The report on one line, for streams of reports."""
    return json.dumps(as_object(report), ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def as_object(report: Report) -> JsonObject:
    """The report as plain data."""
    names = {str(item.code): item.name for item in report.checks}
    return {
        "schema": SCHEMA,
        "gpudoctor": report.version,
        "patient": _patient(report.subject),
        "summary": _summary(report.summary),
        "findings": [_ranked(item) for item in report.findings],
        "outcomes": [_outcome(item, names) for item in report.outcomes],
        "silenced": [_silenced(item) for item in report.silenced],
        "problems": list(report.problems),
        "remarks": list(report.remarks),
        "run": finite(run_object(report.run)) if report.run else None,
        "log": finite(log_object(report.log)) if report.log else None,
        "trial": finite(trial_object(report.trial)) if report.trial else None,
        "synthetic": finite(synthetic_object(report.synthetic)) if report.synthetic else None,
        "estimate": finite(dict(report.synthetic.estimate)) if report.synthetic else None,
        "preflight": finite(preflight_object(report.preflight)) if report.preflight else None,
    }


def finite(value: Json) -> Json:
    """The value with every NaN and infinity replaced by null: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return value


def _patient(subject: Subject) -> JsonObject:
    return {
        "kind": subject.kind,
        "title": subject.title,
        "targets": list(subject.targets),
        "host": subject.host,
        "gpus": list(subject.gpus),
        "details": dict(subject.details),
    }


def _summary(summary: Summary) -> JsonObject:
    return {
        "verdict": summary.verdict,
        "template": template_object(summary.verdict),
        "unexamined": list(summary.unexamined),
        "judged": list(summary.judged),
        "not_judged": list(summary.not_judged),
        "error": summary.error,
        "warning": summary.warning,
        "note": summary.note,
        "silenced": summary.silenced,
        "passed": summary.passed,
        "skipped": summary.skipped,
        "crashed": summary.crashed,
    }


def _ranked(item: Ranked) -> JsonObject:
    finding = item.finding
    cost = finding.cost
    return {
        "rank": item.rank,
        **_identity(finding),
        "message": finding.message,
        "template": template_object(finding.message),
        "subject": finding.subject,
        "reason": item.reason,
        "cost": {
            "step_share": None if cost.step_share is None else finite(cost.step_share),
            "host_share": None if cost.host_share is None else finite(cost.host_share),
            "bytes": cost.bytes,
            "breaks": cost.breaks,
        },
        "evidence": [evidence_object(evidence) for evidence in finding.evidence],
        "remedies": [_remedy(remedy) for remedy in item.remedies],
        "set_aside": [_set_aside(aside) for aside in item.set_aside],
    }


def _identity(finding: Finding) -> JsonObject:
    return {
        "code": str(finding.code),
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
    }


def evidence_object(evidence: Evidence) -> JsonObject:
    """One piece of evidence; `kind` tells which keys it has."""
    match evidence:
        case Measurement():
            return {
                "kind": "measurement",
                "name": evidence.name,
                "value": finite(evidence.value),
                "unit": evidence.unit,
                "provenance": evidence.provenance.value,
                "reproduce": evidence.reproduce,
            }
        case SourceSpan():
            return {
                "kind": "source",
                "path": evidence.path,
                "line": evidence.line,
                "column": evidence.column,
                "end_line": evidence.end_line,
                "text": evidence.text,
            }
        case Setting():
            return {
                "kind": "setting",
                "key": evidence.key,
                "value": evidence.value,
                "origin": evidence.origin,
                "path": evidence.path,
                "line": evidence.line,
                "reproduce": evidence.reproduce,
            }
        case LogLine():
            return {
                "kind": "log",
                "origin": evidence.origin,
                "text": evidence.text,
                "line": evidence.line,
                "time": evidence.time,
            }
        case _:
            return assert_never(evidence)


def _remedy(remedy: Remedy) -> JsonObject:
    return {
        "id": remedy.id,
        "title": remedy.title,
        "templates": {
            "title": template_object(remedy.title),
            "steps": [template_object(step) for step in remedy.steps],
        },
        "applicability": remedy.applicability.value,
        "effort": remedy.effort.value,
        "effect": None if remedy.effect is None else _effect(remedy.effect),
        "steps": list(remedy.steps),
        "sets": dict(remedy.sets),
        "edits": [_edit(edit) for edit in remedy.edits],
        "references": list(remedy.references),
        "patch": remedy.patch,
        "proof": proof_object(remedy.proof),
    }


def _effect(effect: Effect) -> JsonObject:
    return {
        "quantity": effect.quantity,
        "low": finite(effect.low),
        "high": finite(effect.high),
        "unit": effect.unit,
        "provenance": effect.provenance.value,
    }


def _edit(edit: Edit) -> JsonObject:
    if isinstance(edit, ImportEdit):
        return {"kind": "import", "path": edit.path, "line": 1, "column": 1, "statement": edit.statement}
    place: JsonObject = {"path": edit.path, "line": edit.line, "column": edit.column}
    if isinstance(edit, KeywordEdit):
        return {"kind": "keywords", **place, "set": dict(edit.set), "remove": list(edit.remove), "method": edit.method}
    return {
        "kind": "text",
        **place,
        "end_line": edit.end_line,
        "end_column": edit.end_column,
        "new_text": edit.new_text,
        "expected": edit.expected,
    }


def _set_aside(aside: SetAside) -> JsonObject:
    return {"id": aside.remedy.id, "title": aside.remedy.title, "reason": aside.reason}


def _outcome(outcome: Outcome, names: dict[str, str]) -> JsonObject:
    word, reason, deselected, silenced = "passed", None, False, 0
    match outcome:
        case Passed():
            silenced = outcome.silenced
        case Found():
            word = "found"
        case Skipped():
            word, reason, deselected = "skipped", outcome.reason, outcome.deselected
        case Crashed():
            word, reason = "crashed", outcome.error
        case _:
            assert_never(outcome)
    code = str(outcome.code)
    return {
        "code": code,
        "name": names.get(code),
        "outcome": word,
        "reason": reason,
        "deselected": deselected,
        "silenced": silenced,
    }


def _silenced(item: Silenced) -> JsonObject:
    finding = item.finding
    return {
        **_identity(finding),
        "message": finding.message,
        "template": template_object(finding.message),
        "subject": finding.subject,
        "evidence": [evidence_object(evidence) for evidence in finding.evidence],
        "where": item.where,
        "reason": item.reason,
    }
