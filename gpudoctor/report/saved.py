"""A saved JSON report, read back: what `apply` takes its edits from, and `report` shows again."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from gpudoctor.errors import UsageError
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
from gpudoctor.model.plain_data import Kind, from_plain
from gpudoctor.model.proof import Proof, TrialSummary
from gpudoctor.model.read_limits import REPORT
from gpudoctor.model.records import replace
from gpudoctor.model.report import Named, Silenced, Subject, Summary
from gpudoctor.model.run import RunSummary, SyntheticSummary
from gpudoctor.model.signs.preflight import Preflight
from gpudoctor.report.json import FIELDS

Saved: TypeAlias = Mapping[str, Any]
_EVIDENCE: dict[str, type[Evidence]] = {
    "source": SourceSpan,
    "setting": Setting,
    "log": LogLine,
    "measurement": Measurement,
}
_EDITS: dict[str, type[Edit]] = {"text": TextEdit, "import": ImportEdit, "keywords": KeywordEdit}
_OUTCOMES: dict[str, type[Outcome]] = {"passed": Passed, "found": Found, "skipped": Skipped, "crashed": Crashed}


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
    """The report of its JSON object.

    What its launch lines start, and the remedies that were set aside, are left out.
    """
    summary = found["summary"]
    verdict = message_of(summary["verdict"], summary.get("template"))
    ranked = [_ranked(item) for item in found["findings"]]
    silenced = [from_plain(Silenced, {**item, "finding": _finding(item)}) for item in found["silenced"]]
    outcomes = [_outcome(item, ranked) for item in found["outcomes"]]
    checks = [Named(code=item["code"], name=item["name"] or "", title="") for item in found["outcomes"]]
    return Report(
        version=found["gpudoctor"],
        subject=_subject(found["patient"]),
        summary=from_plain(Summary, {**summary, "verdict": verdict}),
        findings=tuple(ranked),
        silenced=tuple(silenced),
        outcomes=tuple(outcomes),
        checks=tuple(checks),
        problems=tuple(found["problems"]),
        remarks=tuple(found["remarks"]),
        run=_run(found.get("run")),
        log=_given(LogSummary, found.get("log")),
        trial=_trial(found.get("trial")),
        synthetic=_synthetic(found.get("synthetic"), found.get("estimate")),
        preflight=_given(Preflight, found.get("preflight")),
    )


def _given(kind: type[Kind], item: Saved | None) -> Kind | None:
    """A part that a report may lack."""
    if item is None:
        return None
    return from_plain(kind, item)


def _subject(item: Saved) -> Subject:
    """Who was examined; the details are an object in JSON."""
    details = item.get("details", {})
    return from_plain(Subject, {**item, "details": list(details.items())})


def _run(item: Saved | None) -> RunSummary | None:
    """The numbers of a run; its series are in no JSON report, so it has no charts."""
    if item is None:
        return None
    card = []
    for name, line in item["training"].items():
        card.append({"name": name, "text": line["text"], "facts": line})
    return from_plain(RunSummary, {**item, "training": card})


def _synthetic(item: Saved | None, estimate: Saved | None) -> SyntheticSummary | None:
    """The job that `verify --model` made, with its estimate."""
    if item is None:
        return None
    memory = [_named(row) for row in item["memory"]]
    return from_plain(SyntheticSummary, {**_named(item), "memory": memory, "estimate": estimate})


def _ranked(item: Saved) -> Ranked:
    """A finding in its place, with its remedies."""
    remedies = [_remedy(remedy) for remedy in item["remedies"]]
    return from_plain(Ranked, {**item, "finding": _finding(item), "remedies": remedies, "set_aside": ()})


def _outcome(item: Saved, ranked: list[Ranked]) -> Outcome:
    """How a check ended, of a report with all outcomes or with a few."""
    kind = _OUTCOMES[item["outcome"]]
    found = [each.finding for each in ranked if each.finding.code == item["code"]]
    return from_plain(kind, {**item, "error": item["reason"], "findings": found})


def _finding(item: Saved) -> Finding:
    """A finding with its evidence; a check's detail is in no report."""
    message = message_of(item["message"], item.get("template"))
    evidence = [from_plain(_EVIDENCE[each["kind"]], each) for each in item["evidence"]]
    return from_plain(Finding, {**item, "message": message, "evidence": evidence})


def _remedy(item: Saved) -> Remedy:
    """A remedy with its edits and its proof; its title and its steps in the reader's language."""
    told = item.get("templates") or {}
    steps = item["steps"]
    templates = told.get("steps") or [None] * len(steps)
    return Remedy(
        id=item["id"],
        title=message_of(item["title"], told.get("title")),
        steps=tuple(map(message_of, steps, templates)),
        applicability=Applicability(item["applicability"]),
        effort=Effort(item["effort"]),
        effect=_given(Effect, item.get("effect")),
        sets=tuple(item.get("sets", {}).items()),
        edits=tuple(map(_edit, item["edits"])),
        patch=item.get("patch"),
        references=tuple(item.get("references", ())),
        proof=_proof(item.get("proof")),
    )


def _edit(item: Saved) -> Edit:
    """An edit of a file; an unknown kind is damage."""
    kind = _EDITS[item["kind"]]
    keywords = item.get("set", {})
    return from_plain(kind, {**item, "set": list(keywords.items())})


def _trial(item: Saved | None) -> TrialSummary | None:
    """What `verify` has tried."""
    if item is None:
        return None
    rows = [_row(row) for row in item["rows"]]
    together = item.get("together")
    return from_plain(TrialSummary, {**_named(item), "rows": rows, "together": _row(together) if together else None})


def _row(item: Saved) -> Saved:
    """A change that was tried, with its pairs."""
    pairs = [_named(pair) for pair in item["pairs"]]
    return {**_named(item), "proof": _proof(item["proof"]), "pairs": pairs}


def _proof(item: Saved | None) -> Proof | None:
    """What a trial has shown; where no pair was timed, its ratio and interval are null in JSON."""
    if item is None:
        return None
    found = dict(item)
    if cure := item["cure"]:
        found["cure"] = {"name": "", **cure, "gone": item["cured"]}
    if memory := item["memory_bytes"]:
        found["memory"] = (memory["baseline"], memory["candidate"])
    if item["ratio"] is not None:
        return from_plain(Proof, found)
    found |= dict.fromkeys(("ratio", "low", "high"), 0)
    return replace(from_plain(Proof, found), ratio=math.nan, low=math.nan, high=math.nan)


def _named(item: Saved) -> dict[str, Any]:
    """An object under the names that the model gives its fields."""
    return {FIELDS.get(name, name): value for name, value in item.items()}
