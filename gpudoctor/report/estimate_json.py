"""The estimate as JSON (`estimate-1.schema.json`): keys may be added, never renamed or dropped."""

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from gpudoctor.estimate.answer import SCHEMA, Answer
from gpudoctor.estimate.result import Estimate
from gpudoctor.report import keyed_data

if TYPE_CHECKING:
    from gpudoctor.estimate.traced.traced_estimate import Traced

Object = dict[str, Any]
_KEYS = {
    "Estimate": "method=job.method total_bytes static_bytes=static fits verdict=card.verdict reason=card.reason "
    "device=card.device card peak=peak.name lines=peak.lines instants job notes",
    "CardReading": "reserved_bytes=reserved used_bytes=used expected_bytes=expected limit_bytes=limit lines",
    "Instant": "name title bytes lines",
    "Cut": "set=changes gives_back verdict",
    "Fit": "set=changes speed gives_back total_bytes=estimate.total_bytes job=estimate.job",
    "Traced": "total_bytes=peak.bytes static_bytes=static peak=peak.name lines=peak.lines instants parameters layers "
    "depths libraries",
}
_plain = partial(keyed_data.plain, keys=_KEYS)
_keyed = partial(keyed_data.keyed, keys=_KEYS)


def render_estimate(answer: Answer) -> str:
    """The answer as an indented JSON document, ASCII only; the first method on top, the others beside it."""
    return json.dumps(estimate_object(answer), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def estimate_object(answer: Answer) -> Object:
    """The answer as plain data."""
    first, *others = answer.estimates
    return {
        "schema": SCHEMA,
        **_keyed(first),
        "model": {**_keyed(first.shape), "parameters": first.shape.parameters.total},
        "assumptions": list(answer.assumptions),
        "alternatives": _plain(others),
        "cards": [{**_keyed(card), "verdicts": _plain(verdicts)} for card, verdicts in answer.common],
        "room": _plain(answer.room),
        "changes": _plain(answer.cuts),
        "fit": None
        if answer.found is None
        else {
            "best": [{**_keyed(each), "speed": round(each.speed, 4)} for each in answer.found.best],
            "methods": [
                {"method": method, "largest_batch": room.batch, "longest_seq": room.seq, "cards": cards}
                for (method, room), (_, cards) in zip(answer.found.room, answer.found.cards, strict=True)
            ],
        },
        "vary": None,
        "compare": [],
        "measured": None,
        "traced": [_traced(each, traced) for each, traced in zip(answer.estimates, answer.traced, strict=False)],
    }


def _traced(each: Estimate, traced: "Traced") -> Object:
    return {
        "method": each.job.method,
        **_keyed(traced),
        "allocator": None,
        "residue_bytes": None,
        "seconds": round(traced.seconds, 3),
        "alone": True,
        "difference": None,
        "differences": [],
        "notes": list(traced.notes),
    }
