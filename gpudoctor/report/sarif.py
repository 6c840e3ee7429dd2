"""SARIF 2.1.0, the format of code-scanning services (OASIS standard, section numbers below are its own)."""

import json
from collections import Counter
from urllib.parse import quote

from gpudoctor.engine.baseline import fingerprint
from gpudoctor.model import Crashed, Finding, Named, Ranked, Report, Setting, Severity, Silenced, Skipped, SourceSpan
from gpudoctor.report import keyed_data
from gpudoctor.report.json import JsonObject, evidence_object
from gpudoctor.report.units import facts_line

_SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"


def render(report: Report) -> str:
    """One run with a result for each finding, silenced ones included, and a rule for each check that found one.

    The manual pages of all checks are 300 KB, which nobody wants to upload for each commit.
    """
    found = {str(item.finding.code) for item in report.findings}
    found |= {str(item.finding.code) for item in report.silenced}
    told = [check for check in report.checks if str(check.code) in found]
    rules = [_rule(check) for check in told]
    places = {str(check.code): index for index, check in enumerate(told)}
    prints: Counter[str] = Counter()
    results = [_result(item.finding, item, None, report, places, prints) for item in report.findings]
    results += [_result(item.finding, None, item, report, places, prints) for item in report.silenced]
    run: JsonObject = {
        "tool": {"driver": {"name": "gpudoctor", "semanticVersion": report.version, "rules": [*rules]}},
        "automationDetails": {"id": f"gpudoctor/{report.subject.kind}/"},
        "invocations": [_invocation(report, places)],
        "columnKind": "unicodeCodePoints",
        "results": [*results],
        "properties": {"verdict": report.summary.verdict},
    }
    document: JsonObject = {"$schema": _SCHEMA_URI, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def uri(path: str) -> str:
    """A path as a URI reference: relative stays relative, absolute becomes `file:`."""
    return f"file://{quote('/' + path.lstrip('/'))}" if path.startswith("/") else quote(path)


def _rule(check: Named) -> JsonObject:
    """3.49: the ailment, with its manual page as help."""
    help_text = check.help or check.title
    return {
        "id": str(check.code),
        "name": "".join(word.capitalize() for word in check.name.split("-")),
        "shortDescription": {"text": check.title or check.name},
        "fullDescription": {"text": check.title or check.name},
        "help": {"text": help_text.replace("**", "") or check.name, "markdown": help_text or check.name},
        "properties": {"tags": [str(check.code).rstrip("0123456789") or str(check.code)]},
    }


def _result(
    finding: Finding,
    ranked: Ranked | None,
    silenced: Silenced | None,
    report: Report,
    places: dict[str, int],
    prints: Counter[str],
) -> JsonObject:
    """3.27: a finding; `ranked` or `silenced` tells which of the two it is."""
    result: JsonObject = {
        "ruleId": str(finding.code),
        **({"ruleIndex": places[finding.code]} if finding.code in places else {}),
        "level": finding.severity.value,
        "kind": "fail",
        "message": {"text": _message(finding, ranked)},
        "locations": [*_locations(finding, report)],
        "partialFingerprints": {"gpudoctorFinding/v1": _fingerprint(finding, prints)},
        "properties": _properties(finding, ranked),
    }
    if silenced is not None:
        # 3.35: a comment stands in the source, everything else outside it.
        kind = "inSource" if silenced.where.startswith("comment") else "external"
        suppression: JsonObject = {"kind": kind, "status": "accepted"}
        if silenced.reason:
            suppression["justification"] = silenced.reason
        result["suppressions"] = [{**suppression, "properties": {"where": silenced.where}}]
    return result


def _message(finding: Finding, ranked: Ranked | None) -> str:
    lines = [finding.message or finding.name]
    lines += [f"- {remedy.title} ({facts_line(remedy)})" for remedy in (ranked.remedies if ranked else ())]
    return "\n".join(lines)


def _properties(finding: Finding, ranked: Ranked | None) -> JsonObject:
    properties: JsonObject = {
        "name": finding.name,
        "confidence": finding.confidence.value,
        "evidence": [evidence_object(evidence) for evidence in finding.evidence],
        "cost": keyed_data.keyed(finding.cost, {"Cost": "step_share host_share bytes breaks"}),
    }
    if ranked is not None:
        properties |= {"rank": ranked.rank, "reason": ranked.reason}
    return properties


def _physical(place: SourceSpan | Setting) -> JsonObject:
    """3.29: the file and region of evidence that stands in a file."""
    found: JsonObject = {"artifactLocation": _artifact(place.path or "")}
    region: JsonObject = {} if place.line is None else {"startLine": max(1, place.line)}
    if isinstance(place, SourceSpan):
        region["startColumn"] = max(1, place.column)
        if place.end_line is not None and place.end_line > place.line:
            region["endLine"] = place.end_line
        if place.text:
            region["snippet"] = {"text": place.text}
    return {**found, "region": region} if region else found


def _artifact(path: str) -> JsonObject:
    reference = uri(path)
    return {"uri": reference} if reference.startswith("file:") else {"uri": reference, "uriBaseId": _ROOT}


def _locations(finding: Finding, report: Report) -> list[JsonObject]:
    """3.28: the first place in a file.

    A service that shows results beside code refuses one without a file, so a finding about the machine that
    a script was examined on points at that script.
    """
    places = [_physical(finding.place)] if finding.place else []
    if not places and report.subject.kind == "script":
        places = [{"artifactLocation": _artifact(target)} for target in report.subject.targets]
    return [{"physicalLocation": place} for place in places[:1]]


def _fingerprint(finding: Finding, prints: Counter[str]) -> str:
    """Stable while lines move; equal findings are numbered."""
    digest = fingerprint(finding)
    prints[digest] += 1
    return f"{digest}:{prints[digest]}"


def _invocation(report: Report, places: dict[str, int]) -> JsonObject:
    """3.20 and 3.58: how the examination itself went, with the checks that crashed or had nothing to read."""
    notes: list[JsonObject] = []
    for outcome in report.outcomes:
        code = str(outcome.code)
        rule: JsonObject = {"id": code, **({"index": places[code]} if code in places else {})}
        if isinstance(outcome, Crashed):
            notes.append({**_note(Severity.ERROR, outcome.error), "associatedRule": rule})
        elif isinstance(outcome, Skipped) and not outcome.deselected:
            notes.append({**_note(Severity.NOTE, f"skipped: {outcome.reason}"), "associatedRule": rule})
    notes += [_note(Severity.ERROR, problem) for problem in report.problems]
    incomplete = bool(report.problems) or any(isinstance(item, Crashed) for item in report.outcomes)
    return {
        "executionSuccessful": not incomplete,
        "exitCodeDescription": "the examination is incomplete" if incomplete else "the examination is complete",
        "toolExecutionNotifications": [*notes],
    }


def _note(level: Severity, text: str) -> JsonObject:
    return {"level": level.value, "message": {"text": text or "no reason was given"}}
