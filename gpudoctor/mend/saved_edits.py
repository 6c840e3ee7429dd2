"""Remedies of a saved JSON report that carry edits, read back."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Edit, Effort, ImportEdit, KeywordEdit, Remedy, TextEdit
from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.plain_data import from_plain
from gpudoctor.model.read_limits import REPORT
from gpudoctor.model.records import frozen

SCHEMA = "gpudoctor.report/1"
PROVEN = ("proven", "cured")
"""Conclusions of a trial after which `verify --keep` writes an edit."""


@frozen
class SavedRemedies:
    """What a saved report says of its remedies."""

    editable: tuple[Remedy, ...]
    """Those with edits, in rank order."""
    others: tuple[str, ...]
    proven: tuple[str, ...] | None
    """Ids that its trial has proven, of those with edits; None where the report has no trial."""


def read_saved(path: str) -> SavedRemedies:
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
        return _saved(found)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UsageError(
            "{path}: the report is damaged ({kind}: {error})", path=path, kind=type(error).__name__, error=error
        ) from error


def _saved(found: Mapping[str, Any]) -> SavedRemedies:
    remedies = [remedy for item in found["findings"] for remedy in item["remedies"]]
    editable = tuple(_remedy(item) for item in remedies if item["edits"])
    trial = found.get("trial")
    proven = None
    if trial is not None:
        # Ids of the rows whose edits belong to the trial's patch.
        rows = [str(row["name"]) for row in trial["rows"] if trial["patch"] and row["conclusion"] in PROVEN]
        able = {remedy.id for remedy in editable}
        proven = tuple(dict.fromkeys(name for name in rows if name in able))
    return SavedRemedies(
        editable=editable, others=tuple(str(item["id"]) for item in remedies if not item["edits"]), proven=proven
    )


def _remedy(item: Mapping[str, Any]) -> Remedy:
    return Remedy(
        id=str(item["id"]),
        title=str(item["title"]),
        steps=tuple(map(str, item["steps"])),
        applicability=Applicability(item["applicability"]),
        effort=Effort(item["effort"]),
        edits=tuple(map(_edit, item["edits"])),
    )


def _edit(item: Mapping[str, Any]) -> Edit:
    path = str(item["path"])
    if not path or "\0" in path:
        raise ValueError(say("an edit of the file {path!r}", path=path))
    if item["kind"] == "keywords":
        pairs = [[key, value] for key, value in item["set"].items()]
        return from_plain(KeywordEdit, {**item, "set": pairs, "method": item.get("method") or ""})
    kinds: dict[str, type[TextEdit | ImportEdit]] = {"text": TextEdit, "import": ImportEdit}
    if item["kind"] not in kinds:
        raise ValueError(say("an edit of the unknown kind {kind!r}", kind=item["kind"]))
    return from_plain(kinds[item["kind"]], item)


def missing_files(remedies: Sequence[Remedy]) -> list[str]:
    """Files that the edits name and that are not there: the report was made in another folder."""
    paths = dict.fromkeys(edit.path for remedy in remedies for edit in remedy.edits)
    return [path for path in paths if not os.path.isfile(path)]
