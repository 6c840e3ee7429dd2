"""A saved JSON report, read back: what `apply` takes its edits from, and `report` shows again."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.lang.message_data import message_of
from gpudoctor.model import (
    SCHEMA,
    Applicability,
    Crashed,
    Edit,
    Effect,
    Effort,
    Evidence,
    Finding,
    Found,
    ImportEdit,
    KeywordEdit,
    LogLine,
    Measurement,
    Outcome,
    Passed,
    Provenance,
    Ranked,
    Remedy,
    Report,
    Setting,
    Skipped,
    SourceSpan,
    TextEdit,
)
from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.log_message import LogSummary
from gpudoctor.model.plain_data import from_plain
from gpudoctor.model.proof import Proof, TrialSummary
from gpudoctor.model.read_limits import REPORT
from gpudoctor.model.records import replace
from gpudoctor.model.report import Named, Silenced, Subject, Summary
from gpudoctor.model.run import RunSummary, SyntheticSummary
from gpudoctor.model.signs.preflight import Preflight
from gpudoctor.report.json import FIELDS

Saved: TypeAlias = Mapping[str, Any]
_EVIDENCE = {"source": SourceSpan, "setting": Setting, "log": LogLine}
_EDITS = {"text": TextEdit, "import": ImportEdit, "keywords": KeywordEdit}


def read_report(path: str) -> Report:
    """Read a JSON report. Raises `UsageError` for a file that is none."""
    try:
        found = load_json(read_text(path, REPORT))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError("{path}: cannot be read as a report: {reason}", path=path, reason=reason) from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise UsageError(
            "{path}: is not a JSON report of gpudoctor; write one: gpudoctor check train.py --format "
            "json --output report.json",
            path=path,
        )
    try:
        return report_of(found)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UsageError(
            "{path}: the report is damaged ({kind}: {error})", path=path, kind=type(error).__name__, error=error
        ) from error


def report_of(found: Saved) -> Report:
    """The report of its JSON object; its launch and the remedies that were set aside are left out."""
    patient, summary, run = found["patient"], found["summary"], found.get("run")
    verdict = message_of(summary["verdict"], summary.get("template"))
    findings = tuple(map(_ranked, found["findings"]))
    log, trial, preflight = (found.get(name) for name in ("log", "trial", "preflight"))
    if run:
        card = [{"name": name, "text": line["text"], "facts": line} for name, line in run["training"].items()]
        run = {**run, "training": card}
    return Report(
        version=found["gpudoctor"],
        subject=from_plain(Subject, {**patient, "details": list(patient.get("details", {}).items())}),
        summary=from_plain(Summary, {**summary, "verdict": verdict}),
        findings=findings,
        silenced=tuple(map(_silenced, found["silenced"])),
        outcomes=tuple(_outcome(item, findings) for item in found["outcomes"]),
        checks=tuple(Named(code=item["code"], name=item["name"] or "", title="") for item in found["outcomes"]),
        problems=tuple(found["problems"]),
        remarks=tuple(found["remarks"]),
        run=from_plain(RunSummary, run) if run else None,
        log=from_plain(LogSummary, log) if log else None,
        trial=from_plain(TrialSummary, _trial(trial)) if trial else None,
        synthetic=from_plain(SyntheticSummary, _synthetic(found)) if found.get("synthetic") else None,
        preflight=from_plain(Preflight, preflight) if preflight else None,
    )


def _synthetic(found: Saved) -> Saved:
    item = found["synthetic"]
    return {**_named(item), "memory": list(map(_named, item["memory"])), "estimate": found["estimate"]}


def _silenced(item: Saved) -> Silenced:
    return Silenced(finding=_finding(item), where=item["where"], reason=item["reason"])


def _outcome(item: Saved, findings: tuple[Ranked, ...]) -> Outcome:
    code = item["code"]
    match item["outcome"]:
        case "found":
            return Found(code=code, findings=tuple(each.finding for each in findings if each.finding.code == code))
        case "passed":
            return Passed(code=code, silenced=item.get("silenced", 0))
        case "skipped":
            return Skipped(code=code, reason=item["reason"], deselected=item["deselected"])
    return Crashed(code=code, error=item["reason"])


def _ranked(item: Saved) -> Ranked:
    return Ranked(
        rank=item["rank"],
        finding=_finding(item),
        remedies=tuple(map(_remedy, item["remedies"])),
        set_aside=(),
        reason=item["reason"],
    )


def _finding(item: Saved) -> Finding:
    message = message_of(item["message"], item.get("template"))
    return from_plain(Finding, {**item, "message": message, "evidence": list(map(_evidence, item["evidence"]))})


def _evidence(item: Saved) -> Evidence:
    if item["kind"] == "measurement":
        origin = Provenance(item["provenance"])
        return Measurement(item["name"], item["value"], item["unit"], origin, item.get("reproduce"))
    return from_plain(_EVIDENCE[item["kind"]], item)


def _remedy(item: Saved) -> Remedy:
    told = item.get("templates") or {}
    return Remedy(
        id=item["id"],
        title=message_of(item["title"], told.get("title")),
        steps=tuple(map(message_of, item["steps"], told.get("steps") or [None] * len(item["steps"]))),
        applicability=Applicability(item["applicability"]),
        effort=Effort(item["effort"]),
        effect=from_plain(Effect, item["effect"]) if item.get("effect") else None,
        sets=tuple(item.get("sets", {}).items()),
        edits=tuple(map(_edit, item["edits"])),
        patch=item.get("patch"),
        references=tuple(item.get("references", ())),
        proof=_proof(item.get("proof")),
    )


def _edit(item: Saved) -> Edit:
    path = str(item["path"])
    if not path or "\0" in path:
        raise ValueError(say("an edit of the file {path!r}", path=path))
    if item["kind"] not in _EDITS:
        raise ValueError(say("an edit of the unknown kind {kind!r}", kind=item["kind"]))
    pairs = list(item["set"].items()) if "set" in item else []
    return from_plain(_EDITS[item["kind"]], {**item, "set": pairs})


def _trial(item: Saved) -> Saved:
    rows = list(map(_row, item["rows"]))
    return {**_named(item), "rows": rows, "together": _row(item["together"]) if item["together"] else None}


def _row(item: Saved) -> Saved:
    return {**_named(item), "proof": _proof(item["proof"]), "pairs": list(map(_named, item["pairs"]))}


def _proof(item: Saved | None) -> Proof | None:
    if item is None:
        return None
    memory, cure = item["memory_bytes"], item["cure"]
    before = (memory["baseline"], memory["candidate"]) if memory else None
    cured = {"name": "", **cure, "gone": item["cured"]} if cure else None
    untimed = item["ratio"] is None
    known = {**item, **dict.fromkeys(("ratio", "low", "high"), 0)} if untimed else item
    proof = from_plain(Proof, {**known, "memory": before, "cure": cured})
    return replace(proof, ratio=math.nan, low=math.nan, high=math.nan) if untimed else proof


def _named(item: Saved) -> dict[str, Any]:
    """An object under the names that the model gives its fields."""
    return {FIELDS.get(name, name): value for name, value in item.items()}
