"""Manual pages as data, for `--format json`."""

import json
from collections.abc import Sequence

from gpudoctor.engine.manual import ManualPage
from gpudoctor.model import Json
from gpudoctor.report import keyed_data

PAGE_SCHEMA = "gpudoctor.page/1"
LIST_SCHEMA = "gpudoctor.list/1"

JsonObject = dict[str, Json]
_KEYS = {
    "ManualPage": "code name topic title reads severity maturity track_record? no_rule thresholds",
    "Threshold": "name default unit source meaning",
}


def page_json(page: ManualPage) -> str:
    """One page with its sections."""
    return _dump({"schema": PAGE_SCHEMA, **_summary(page), "sections": dict(page.sections)})


def list_json(pages: Sequence[ManualPage]) -> str:
    """Every check without its sections."""
    return _dump({"schema": LIST_SCHEMA, "checks": [_summary(page) for page in pages]})


def _summary(page: ManualPage) -> JsonObject:
    return {**keyed_data.keyed(page, _KEYS), "prescribes": page.no_rule is None}


def _dump(document: JsonObject) -> str:
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
