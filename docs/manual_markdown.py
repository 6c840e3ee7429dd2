"""Manual pages as Markdown, for the generated docs."""

from collections.abc import Sequence

from gpudoctor.engine.manual import ManualPage
from gpudoctor.model import Threshold
from gpudoctor.report.markdown import code, escape
from gpudoctor.report.units import threshold_text


def page_markdown(page: ManualPage) -> str:
    """A documentation page for one check."""
    lines = [f"# {page.code} {escape(page.name)}", "", escape(page.title), ""]
    lines += [f"**{page.severity.value}** | {escape(page.topic)} | {page.maturity.value}", ""]
    lines += ["Reads: " + ", ".join(kind.value for kind in page.reads), ""]
    for heading, text in page.sections.items():
        lines += [f"## {heading}", "", text, ""]
    if not page.sections:
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
