"""The JSON report, version 1 (`report-1.schema.json`): keys may be added, never renamed or dropped."""

import json
from functools import partial

from gpudoctor.lang.message_data import template_object
from gpudoctor.model import (
    SCHEMA,
    Crashed,
    Edit,
    Evidence,
    Finding,
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
    Setting,
    Skipped,
    SourceSpan,
)
from gpudoctor.model.proof import Proof, Replay, TrialRow
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.preflight import Preflight
from gpudoctor.report import keyed_data

JsonObject = dict[str, Json]

_KEYS: dict[str, str] = {
    "Subject": "kind title targets host gpus",
    "Summary": "unexamined judged not_judged error warning note silenced passed skipped crashed",
    "Finding": "code name severity confidence message subject",
    "Cost": "step_share host_share bytes breaks",
    "Remedy": "id title applicability effort effect steps references patch",
    "Launch": "launcher starter script module path line text nodes tasks processes=ranks_per_node world "
    "processes_per_node=here cards_per_node=grants.gpus_granted cpus_per_process=cpus "
    "memory_bytes=grants.memory_granted shared_memory_bytes=grants.shared_memory_granted told variables",
    "LogMoment": "role code? kind path line last_line count rank node? time? step text",
    "RunSummary": "recording origin command seconds exit_code signal stopped_by healthy steps steady_steps ranks "
    "marker warm_up_seconds start_seconds step_seconds throughput phases memory gpus device_idle gain_unknown? samples "
    "lost_samples lines warnings",
    "RunThroughput": "steps_per_second samples_per_second tokens_per_second mfu",
    "SyntheticSummary": "model method parameters job script kind device device_bytes ranks versions "
    "estimated_peak_bytes=estimated_peak run_peak_bytes=run_peak run_resident_bytes=run_resident step_seconds "
    "tokens_per_step tokens_per_second flops_per_step flops_per_second peak_flops mfu assumptions notes",
    "MemoryRow": "instant title estimated_bytes=estimated measured_bytes=measured",
    "Proof": "ratio low high pairs aside loss verdict per cure",
    "Cure": "code words steps",
    "TrialSummary": "step_seconds warm_up_steps steps seconds budget_seconds=budget protection protection_level? "
    "not_sent kept_out patch? patch_path? kept",
    "TrialRow": "name title conclusion reason? step_seconds samples_per_second memory_bytes=memory patch",
    "TrialPair": "baseline_seconds=baseline candidate_seconds=candidate candidate_first aside",
    "Replay": "code step reproduced reason? cause words? operation? operator? phase? rank value? dtype? names seconds",
}
FIELDS = {
    key: name for keys in _KEYS.values() for key, _, name in (word.partition("=") for word in keys.split()) if name
}
"""Names of fields of the model by their keys, where they differ."""
_plain = partial(keyed_data.plain, keys=_KEYS)
_keyed = partial(keyed_data.keyed, keys=_KEYS)
_UNFILLED: dict[str, JsonObject] = {
    "cure": {"also": [], "baseline": None, "candidate": None, "unit": None},
    "replay": {
        "began": None, "module": None, "module_class": None, "site": None, "turned": None, "items": [],
        "precision": None, "finite": None, "eager": False,
    },
    "synthetic": {"memory_ended": None},
    "throughput": {"spread": {}},
    "trial": {"changed": [], "compared": None, "leak": None},
}  # fmt: skip
"""Keys that no version fills any more, by the object that has them: keys are never dropped."""


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
    verdict = report.summary.verdict
    synthetic = report.synthetic
    return {
        "schema": SCHEMA,
        "gpudoctor": report.version,
        "patient": {**_keyed(report.subject), "details": dict(report.subject.details)},
        "summary": {"verdict": verdict, "template": template_object(verdict), **_keyed(report.summary)},
        "findings": [_ranked(item) for item in report.findings],
        "outcomes": [_outcome(item, names) for item in report.outcomes],
        "silenced": [
            {**_finding(item.finding), "where": item.where, "reason": item.reason} for item in report.silenced
        ],
        "problems": list(report.problems),
        "remarks": list(report.remarks),
        "launch": _plain(report.launch),
        "run": run_object(report.run) if report.run else None,
        "log": _plain(report.log),
        "trial": {
            **_keyed(report.trial),
            **_UNFILLED["trial"],
            "rows": [_row(row) for row in report.trial.rows],
            "together": _row(report.trial.together) if report.trial.together else None,
            "replay": _replay(report.trial.replay) if report.trial.replay else None,
        }
        if report.trial
        else None,
        "synthetic": {
            **_keyed(synthetic),
            **_UNFILLED["synthetic"],
            "memory": [
                {**_keyed(row), "ratio": round(row.ratio, 5) if row.measured else None} for row in synthetic.memory
            ],
        }
        if synthetic
        else None,
        "estimate": finite(dict(synthetic.estimate)) if synthetic else None,
        "preflight": preflight_object(report.preflight) if report.preflight else None,
    }


def finite(value: Json) -> Json:
    """The value with every NaN and infinity replaced by null: JSON has neither."""
    return _plain(value)


def run_object(run: RunSummary) -> JsonObject:
    """A run as plain data, without its series."""
    card: JsonObject = {line.name: finite({"text": line.text, **line.facts}) for line in run.training}
    throughput: JsonObject = {**_keyed(run.throughput), **_UNFILLED["throughput"]}
    return {**_keyed(run), "throughput": throughput, "training": card}


def preflight_object(preflight: Preflight) -> JsonObject:
    """Every figure that was measured; keys are the fields of `gpudoctor.model.signs.preflight`."""
    return {key: value for key, value in _keyed(preflight).items() if key != "before"}


def _row(row: TrialRow) -> JsonObject:
    return {**_keyed(row), "proof": _proof(row.proof), "pairs": [_keyed(pair) for pair in row.pairs]}


def _proof(proof: Proof | None) -> JsonObject | None:
    """A remedy's `proof`; null before a trial."""
    if proof is None:
        return None
    memory: JsonObject | None = None
    if proof.memory is not None:
        memory = {"baseline": proof.memory[0], "candidate": proof.memory[1]}
    cure: JsonObject | None = {**_keyed(proof.cure), **_UNFILLED["cure"]} if proof.cure else None
    return {**_keyed(proof), "memory_bytes": memory, "cured": proof.cure.gone if proof.cure else None, "cure": cure}


def _replay(replay: Replay) -> JsonObject:
    span = replay.place
    place: JsonObject | None = {"path": span.path, "line": span.line, "text": span.text} if span else None
    return {**_keyed(replay), "place": place, **_UNFILLED["replay"]}


def _ranked(item: Ranked) -> JsonObject:
    finding = item.finding
    return {
        "rank": item.rank,
        **_finding(finding),
        "reason": item.reason,
        "cost": _plain(finding.cost),
        "remedies": [_remedy(remedy) for remedy in item.remedies],
        "set_aside": [
            {"id": aside.remedy.id, "title": aside.remedy.title, "reason": aside.reason} for aside in item.set_aside
        ],
    }


def _finding(finding: Finding) -> JsonObject:
    evidence = [evidence_object(item) for item in finding.evidence]
    return {**_keyed(finding), "template": template_object(finding.message), "evidence": [*evidence]}


def evidence_object(evidence: Evidence) -> JsonObject:
    """One piece of evidence; `kind` tells which keys it has."""
    kinds = {Measurement: "measurement", SourceSpan: "source", Setting: "setting", LogLine: "log"}
    return {"kind": kinds[type(evidence)], **_keyed(evidence)}


def _remedy(remedy: Remedy) -> JsonObject:
    steps = [template_object(step) for step in remedy.steps]
    return {
        **_keyed(remedy),
        "templates": {"title": template_object(remedy.title), "steps": [*steps]},
        "sets": dict(remedy.sets),
        "edits": [_edit(edit) for edit in remedy.edits],
        "proof": _proof(remedy.proof),
    }


def _edit(edit: Edit) -> JsonObject:
    if isinstance(edit, ImportEdit):
        return {"kind": "import", "line": 1, "column": 1, **_keyed(edit)}
    if isinstance(edit, KeywordEdit):
        return {"kind": "keywords", **_keyed(edit), "set": dict(edit.set)}
    return {"kind": "text", **_keyed(edit)}


def _outcome(outcome: Outcome, names: dict[str, str]) -> JsonObject:
    code = str(outcome.code)
    return {
        "code": code,
        "name": names.get(code),
        "outcome": type(outcome).__name__.lower(),
        "reason": outcome.error if isinstance(outcome, Crashed) else getattr(outcome, "reason", None),
        "deselected": isinstance(outcome, Skipped) and outcome.deselected,
        "silenced": outcome.silenced if isinstance(outcome, Passed) else 0,
    }
