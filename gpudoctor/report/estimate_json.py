"""The estimate as JSON (`estimate-1.schema.json`): keys may be added, never renamed or dropped."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpudoctor.estimate.answer import SCHEMA, Answer
from gpudoctor.estimate.fit import Fit, Search
from gpudoctor.estimate.result import Device, Estimate, Instant, Line

if TYPE_CHECKING:
    from gpudoctor.estimate.measure import MeasuredEstimate
    from gpudoctor.estimate.traced.traced_estimate import TraceComparison

Object = dict[str, Any]


def render_estimate(answer: Answer) -> str:
    """The answer as an indented JSON document, ASCII only; the first method on top, the others beside it."""
    return json.dumps(estimate_object(answer), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def estimate_object(answer: Answer) -> Object:
    """The answer as plain data."""
    first, *others = answer.estimates
    return {
        "schema": SCHEMA,
        **_estimate(first),
        "model": _model(first),
        "assumptions": list(answer.assumptions),
        "alternatives": [_estimate(each) for each in others],
        "cards": [
            {**_device(card), "verdicts": [verdict.value if verdict else None for verdict in verdicts]}
            for card, verdicts in answer.common
        ],
        "room": None if answer.room is None else {"batch": answer.room.batch, "seq": answer.room.seq},
        "changes": [
            {
                "set": _plain(cut.changes),
                "gives_back": cut.gives_back,
                "verdict": cut.verdict.value if cut.verdict else None,
            }
            for cut in answer.cuts
        ],
        "fit": None if answer.found is None else _search(answer.found),
        "vary": None if answer.varied is None else _varied(answer),
        "compare": [],
        "measured": None if answer.measured is None else measured_object(answer.measured),
        "traced": [_traced(each) for each in answer.traced],
    }


def measured_object(compared: "MeasuredEstimate") -> Object:
    """A measurement beside its prediction as plain data; bytes and seconds."""
    found = compared.measurement
    return {
        "ending": found.ending.value,
        "said": found.said,
        "reached": found.reached,
        "most_bytes": found.most,
        "machine": None if found.machine is None else _plain(asdict(found.machine)),
        "steps": len(found.steps),
        "seconds": round(found.seconds, 2),
        "rows": [
            {
                "instant": row.instant,
                "title": row.title,
                "predicted_bytes": row.predicted,
                "measured_bytes": row.measured,
                "difference_bytes": row.difference,
                "ratio": round(row.ratio, 5) if row.measured else None,
            }
            for row in compared.rows
        ],
        "scratch_bytes": max(found.last.scratch.values(), default=0) if found.last is not None else None,
        "reserved_bytes": found.reserved,
        "used_bytes": found.used,
        "used_how": found.used_how,
        "context_bytes": found.context,
        "workspace_bytes": found.workspace,
        "differences": [asdict(each) for each in compared.differences],
    }


def _traced(each: "TraceComparison") -> Object:
    traced = each.traced
    if traced is None:
        return {"method": each.estimate.job.method, "total_bytes": None, "why": each.why}
    return {
        "method": each.estimate.job.method,
        "total_bytes": traced.peak.bytes,
        "static_bytes": traced.static,
        "peak": traced.peak.name,
        "lines": [_line(line) for line in traced.peak.lines],
        "instants": [_instant(instant) for instant in traced.instants],
        "allocator": {"allocated_bytes": traced.allocated, "reserved_bytes": traced.reserved},
        "parameters": traced.parameters,
        "layers": traced.layers,
        "depths": list(traced.depths),
        "residue_bytes": traced.residue,
        "seconds": round(traced.seconds, 3),
        "libraries": traced.libraries,
        "alone": each.alone,
        "difference": None if each.share is None else round(each.share, 6),
        "differences": [
            {"instant": one.name, "analytic_bytes": one.analytic, "traced_bytes": one.traced} for one in each.instants
        ],
        "notes": [*each.notes, *traced.notes],
    }


def _estimate(estimate: Estimate) -> Object:
    card = estimate.card
    return {
        "method": estimate.job.method,
        "total_bytes": estimate.total_bytes,
        "static_bytes": estimate.static,
        "fits": estimate.fits,
        "verdict": card.verdict.value if card.verdict else None,
        "reason": card.reason,
        "device": None if card.device is None else _device(card.device),
        "card": {
            "reserved_bytes": list(card.reserved),
            "used_bytes": list(card.used),
            "expected_bytes": card.expected,
            "limit_bytes": card.limit,
            "lines": [_line(line) for line in card.lines],
        },
        "peak": estimate.peak.name,
        "lines": [_line(line) for line in estimate.peak.lines],
        "instants": [_instant(instant) for instant in estimate.instants],
        "job": _plain(asdict(estimate.job)),
        "notes": list(estimate.notes),
    }


def _model(estimate: Estimate) -> Object:
    shape = estimate.shape
    return {**_plain(asdict(shape)), "parameters": shape.parameters.total}


def _plain(fields: Object) -> Object:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}


def _device(card: Device) -> Object:
    capability = None if card.capability is None else list(card.capability)
    return {"name": card.name, "bytes": card.bytes, "capability": capability}


def _instant(instant: Instant) -> Object:
    return {
        "name": instant.name,
        "title": instant.title,
        "bytes": instant.bytes,
        "lines": [_line(line) for line in instant.lines],
    }


def _line(line: Line) -> Object:
    return {
        "kind": line.kind,
        "bytes": line.bytes,
        "formula": line.formula,
        "source": line.source,
        "provenance": line.provenance.value,
    }


def _search(found: Search) -> Object:
    return {
        "best": [_fit(each) for each in found.best],
        "methods": [
            {"method": method, "largest_batch": room.batch, "longest_seq": room.seq, "cards": cards}
            for (method, room), (_, cards) in zip(found.room, found.cards, strict=True)
        ],
    }


def _fit(fit: Fit) -> Object:
    return {
        "set": _plain(fit.changes),
        "speed": round(fit.speed, 4),
        "gives_back": fit.gives_back,
        "total_bytes": fit.estimate.total_bytes,
        "job": _plain(asdict(fit.estimate.job)),
    }


def _varied(answer: Answer) -> Object:
    key, rows = answer.varied or ("", ())
    return {
        "key": key,
        "rows": [{"value": row.value, "estimates": [_short(each) for each in row.estimates]} for row in rows],
    }


def _short(estimate: Estimate) -> Object:
    verdict = estimate.card.verdict
    return {
        "method": estimate.job.method,
        "total_bytes": estimate.total_bytes,
        "peak": estimate.peak.name,
        "verdict": verdict.value if verdict else None,
        "used_bytes": list(estimate.card.used),
    }
