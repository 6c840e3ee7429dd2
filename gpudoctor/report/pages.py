"""Manual pages and overrides as data and as Markdown: `--format json`, the generated docs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gpudoctor.engine.manual import ManualPage
from gpudoctor.model import Json, Threshold
from gpudoctor.report.markdown import code, escape
from gpudoctor.report.units import threshold_text

PAGE_SCHEMA = "gpudoctor.page/1"
LIST_SCHEMA = "gpudoctor.list/1"
OVERRIDES_SCHEMA = "gpudoctor.overrides/1"

JsonObject = dict[str, Json]


def page_json(page: ManualPage) -> str:
    """One page with its sections."""
    sections: JsonObject = {}
    for section in page.manual.sections if page.manual else ():
        sections[section.heading] = section.text
    return _dump({"schema": PAGE_SCHEMA, **_summary(page), "sections": sections})


def list_json(pages: Sequence[ManualPage]) -> str:
    """Every check without its sections."""
    return _dump({"schema": LIST_SCHEMA, "checks": [_summary(page) for page in pages]})


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One thing that `verify` can change at run time."""

    name: str
    safe: bool
    """Whether the numbers stay the same; others are tried with --unsafe only."""
    what: str
    vary: bool
    """Whether `--vary` takes it; others need a finding's places."""


def overrides_json(overrides: Sequence[Override]) -> str:
    """Every override."""
    return _dump({"schema": OVERRIDES_SCHEMA, "overrides": [asdict(item) for item in overrides]})


def overrides_markdown(overrides: Sequence[Override]) -> str:
    """A table of every override."""
    lines = [
        "# What a trial can change at run time",
        "",
        "`gpudoctor verify` changes these in its own runs, without an edit of a file ([verify.md](verify.md)).",
        "A *safe* override does not change the training's numbers. The others run only with `--unsafe`. `*` "
        "is any name.",
        "An override without `--vary` changes the statements that a finding points at.",
        "",
        "| override | safe | `--vary` | what it is |",
        "|---|---|---|---|",
    ]
    for item in overrides:
        said = ("yes" if item.safe else "no", "yes" if item.vary else "no", escape(item.what))
        lines.append(f"| {code(item.name)} | {' | '.join(said)} |")
    return "\n".join(lines) + "\n"


def page_markdown(page: ManualPage) -> str:
    """A documentation page for one check."""
    lines = [f"# {page.code} {escape(page.name)}", "", escape(page.title), ""]
    lines += [f"**{page.severity.value}** | {escape(page.topic)} | {page.maturity.value}", ""]
    lines += ["Reads: " + ", ".join(kind.value for kind in page.reads), ""]
    for section in page.manual.sections if page.manual else ():
        lines += [f"## {section.heading}", "", section.text, ""]
    if page.manual is None:
        lines += [page.text, ""]
    if page.track_record:
        lines += [f"Track record: {page.track_record} ([how it was judged](../accuracy.md)).", ""]
    if page.no_rule:
        lines += [f"No remedy is prescribed: {page.no_rule}", ""]
    if page.thresholds:
        lines += ["## Thresholds", "", "| setting | default | meaning | source |", "|---|---|---|---|"]
        lines += [_threshold_row(page, threshold) for threshold in page.thresholds]
        lines += ["", "Override one in `[tool.gpudoctor.thresholds]`.", ""]
    lines += [
        "## Silencing it",
        "",
        f"`# gpudoctor: ignore[{page.code}] reason` on the line, or `--ignore {page.code}`.",
    ]
    return "\n".join(lines) + "\n"


def index_markdown(pages: Sequence[ManualPage]) -> str:
    """A table of every check that links its page."""
    lines = [
        "# The checks",
        "",
        "| code | name | topic | reads | severity | what it finds |",
        "|---|---|---|---|---|---|",
    ]
    for page in pages:
        reads = ", ".join(kind.value for kind in page.reads)
        lines.append(
            f"| [{page.code}]({page.code}.md) | {escape(page.name)} | {escape(page.topic)} | {reads} "
            f"| {page.severity.value} | {escape(page.title)} |"
        )
    return "\n".join(lines) + "\n"


def _threshold_row(page: ManualPage, threshold: Threshold) -> str:
    value = threshold_text(threshold.default, threshold.unit)
    cells = (code(f"{page.code}.{threshold.name}"), escape(value), escape(threshold.meaning), escape(threshold.source))
    return f"| {' | '.join(cells)} |"


def _summary(page: ManualPage) -> JsonObject:
    return {
        "code": str(page.code),
        "name": page.name,
        "topic": page.topic,
        "title": page.title,
        "reads": [kind.value for kind in page.reads],
        "severity": page.severity.value,
        "maturity": page.maturity.value,
        "track_record": page.track_record or None,
        "prescribes": page.answered,
        "no_rule": page.no_rule,
        "thresholds": [
            {
                "name": threshold.name,
                "default": threshold.default,
                "unit": threshold.unit,
                "source": threshold.source,
                "meaning": threshold.meaning,
            }
            for threshold in page.thresholds
        ],
    }


def _dump(document: JsonObject) -> str:
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
