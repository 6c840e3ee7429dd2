"""Advice whose texts are the same on every machine: the rows of each topic's TOML file."""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from gpudoctor.model import Advice, Applicability, Effort, Finding, Resource, advise
from gpudoctor.model.log_message import LogDetail

_EACH = frozenset({"applicability", "effort", "uses", "sets", "override", "references"})
_CONDITIONS = frozenset({"when", "unless", "log", "asks", "how"})


@cache
def advice(topic: str) -> tuple[Advice, ...]:
    """The rows of a topic, in the order of its file. Raises `ValueError` for a row with an unknown field."""
    table = tomllib.loads((Path(__file__).parent / f"{topic}.toml").read_text(encoding="utf-8"))
    return tuple(_row(id, row) for name, rows in table.items() for id, row in _rows(name, rows))


def _rows(name: str, rows: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of an id, or those of a code: of each kind of finding a title and steps."""
    if isinstance(rows, list):
        yield from ((name, row) for row in rows)
    else:
        for how, (title, *steps) in rows.items():
            yield f"{name}-{how}", {"title": title, "steps": steps or [title], "how": how}


def _row(name: str, row: Mapping[str, Any]) -> Advice:
    unknown = row.keys() - _EACH - _CONDITIONS - {"title", "steps"}
    if unknown:
        raise ValueError(f"{name}: unknown fields {sorted(unknown)}")
    return advise(
        name,
        row["title"],
        *row["steps"],
        when=(lambda finding: _fits(row, finding)) if row.keys() & _CONDITIONS else None,
        applicability=Applicability(row.get("applicability", "display-only")),
        effort=Effort(row.get("effort", "a small edit")),
        sets=tuple(row.get("sets", {}).items()),
        uses=frozenset(map(Resource, row.get("uses", ()))),
        override=tuple(row.get("override", {}).items()),
        references=tuple(row.get("references", ())),
    )


def _fits(row: Mapping[str, Any], finding: Finding) -> bool:
    """Whether the conditions of a row hold: `log` and `asks` for a finding read in a log, the others for the rest."""
    detail = finding.detail
    if isinstance(detail, LogDetail):
        kinds = row.get("asks") or row.get("log") or ()
        asks = "asks" not in row or "asks" in dict(detail.values)
        return asks and (kinds is True or detail.kind in kinds)
    if "log" in row or "asks" in row:
        return False
    how = getattr(detail, "how", getattr(detail, "kind", ""))
    if "how" in row and row["how"] not in (how, *finding.subject.split()[:1]):
        return False
    must, must_not = row.get("when", {}), row.get("unless", {})
    return all(_is(detail, *item) for item in must.items()) and not any(_is(detail, *item) for item in must_not.items())


def _is(detail: object, name: str, wanted: object) -> bool:
    """Whether a field of the detail has a value, or one of several; true and false ask whether it is empty."""
    value = getattr(detail, name, None)
    if isinstance(wanted, bool):
        return bool(value) is wanted
    plain = "" if value is None else getattr(value, "value", value)
    return plain in wanted if isinstance(wanted, list) else plain == wanted
