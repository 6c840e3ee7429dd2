"""A comparison of two runs as JSON and in rows and sentences."""

import json

from gpudoctor.lang import Message, say, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Json
from gpudoctor.model.comparison import Comparison, Row
from gpudoctor.report.json import finite, run_object
from gpudoctor.report.keyed_data import keyed
from gpudoctor.report.run_words import rate_text
from gpudoctor.text import duration, percent, size

SCHEMA = "gpudoctor.comparison/1"
Group = tuple[str, list[tuple[str, str, str, str]]]


_KEYS = {
    "Comparison": "verdict change measure time speed phases memory loss? other_job other_setting",
    "Row": "name unit before after ratio",
}


def comparison_json(item: Comparison, most: float | None) -> str:
    """The comparison as a JSON document; `beyond` says whether `most`, a share, was exceeded."""
    document: dict[str, Json] = {
        "schema": SCHEMA,
        **keyed(item, _KEYS),
        "max_regression": most,
        "beyond": item.beyond(most) if most is not None else None,
        "findings": {"gone": list(item.gone), "new": list(item.new)},
        "before": run_object(item.before),
        "after": run_object(item.after),
    }
    return json.dumps(finite(document), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def groups(item: Comparison) -> list[Group]:
    """Titled groups of rows: name, before, after, change."""
    found = [
        (term("speed"), [_cells(row) for row in item.speed]),
        (say("time per step, by phase"), [_cells(row) for row in item.phases]),
        (say("memory, at most"), [_cells(row) for row in item.memory]),
    ]
    return [group for group in found if group[1]]


def remarks(item: Comparison) -> list[str]:
    """Sentences about what differs, loss and findings."""
    said = [
        say("The {name} run ended with exit code {exit_code}.", name=term(name), exit_code=run.exit_code)
        for name, run in (("first", item.before), ("second", item.after))
        if run.failed
    ]
    said += (
        [say("Other differences: {other_setting}.", other_setting=concatenated("; ", item.other_setting))]
        if item.other_setting
        else []
    )
    said += [say("Loss: {loss}.", loss=item.loss)] if item.loss else []
    said += [say("Gone: {gone}.", gone=concatenated(", ", item.gone))] if item.gone else []
    said += [say("New: {new}.", new=concatenated(", ", item.new))] if item.new else []
    if item.time is not None:
        said.append(say("The interval is over the steps of these two runs; a third run may differ from both."))
    return said


def _cells(row: Row) -> tuple[str, str, str, str]:
    """Name, before, after and the change of a row."""
    name = row.name if isinstance(row.name, Message) else term(row.name.replace("_", " "))
    return (name, _text(row.before, row.unit), _text(row.after, row.unit), _change(row))


def _change(row: Row) -> str:
    """How many times as much; "new" where there was nothing before."""
    ratio = row.ratio
    if ratio is None:
        return say("new") if not row.before and row.after else ""
    return f"{ratio:.2f}x"


def _text(value: float | None, unit: str) -> str:
    """A value in its unit."""
    if value is None:
        return say("not known")
    if unit == "s":
        return duration(value)
    if unit == "B":
        return size(value)
    return percent(value) if unit == "1" else rate_text(value)
