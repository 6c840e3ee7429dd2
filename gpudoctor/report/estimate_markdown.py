"""The estimate as Markdown: a verdict and two tables that fit a comment."""

from typing import TYPE_CHECKING

from gpudoctor.estimate.answer import Answer, label
from gpudoctor.estimate.fit import step_of
from gpudoctor.lang import say
from gpudoctor.report import estimate_words as words
from gpudoctor.report.markdown import escape
from gpudoctor.text import size

if TYPE_CHECKING:
    from gpudoctor.estimate.traced.traced_estimate import TraceComparison


def render_estimate_markdown(answer: Answer, *, explain: bool = False) -> str:
    """The answer; `explain` adds formulas and sources to the lines."""
    shown = answer.shown
    rows = [f"### gpudoctor estimate: {escape(answer.shape.name)}, {words.parameters_text(answer.shape)}", ""]
    rows += [escape(words.headline(answer)), "", escape(words.what_text(shown)), ""]
    rows += ["| method | allocated | the card shows | verdict | peak in |", "|---|--:|--:|---|---|"]
    for each in answer.estimates:
        row = (
            label(each), size(each.total_bytes), words.interval(each),
            words.verdict_text(each.card.verdict) or "no card named", each.peak.title,
        )  # fmt: skip
        rows.append(f"| {' | '.join(row)} |")
    rows += ["", say("{label} by line, at {title}:", label=label(shown), title=shown.peak.title), ""]
    rows += ["| line | bytes | share |" + (" formula | source |" if explain else "")]
    rows += ["|---|--:|--:|" + ("---|---|" if explain else "")]
    for line in shown.peak.lines:
        cells = [line.kind, size(line.bytes), f"{line.bytes / max(shown.peak.bytes, 1):.0%}"]
        if explain:
            cells += [escape(line.formula), escape(f"{line.source} ({line.provenance.value})")]
        rows.append(f"| {' | '.join(cells)} |")
    rows += _more(answer)
    rows += [""] + [say("- assumed: {escape}", escape=escape(text)) for text in answer.assumptions]
    rows += [say("- note: {escape}", escape=escape(text)) for text in shown.notes]
    rows.append(f"- {escape(words.code_text(answer))}")
    return "\n".join(rows).rstrip("\n") + "\n"


def _more(answer: Answer) -> list[str]:
    """Tables of --fit, --vary, --compare, and single changes."""
    rows: list[str] = []
    if answer.found is not None and answer.found.best:
        rows += ["", "| what fits | allocated | gives back | speed |", "|---|--:|--:|--:|"]
        for fit in answer.found.best:
            peak, back = size(fit.estimate.total_bytes), size(fit.gives_back)
            rows.append(f"| `{words.flags_text(fit.changes)}` | {peak} | {back} | {step_of(fit.speed):.2f} |")
    if answer.varied is not None:
        key, variations = answer.varied
        names = [label(each) for each in variations[0].estimates] if key != "method" else ["allocated"]
        rows += ["", f"| {key} | {' | '.join(names)} |", "|--:|" + "--:|" * len(names)]
        for row in variations:
            cells = " | ".join(size(each.total_bytes) for each in row.estimates)
            rows.append(f"| {escape(row.value)} | {cells} |")
    for traced in answer.traced:
        rows += _traced(traced)
    if answer.rivals:
        rows += ["", "| formula of | answer | why it differs |", "|---|--:|---|"]
        for rival in answer.rivals:
            said = "none" if rival.bytes is None else size(rival.bytes)
            rows.append(f"| {rival.name} | {said} | {escape(rival.why)} |")
    if answer.measured is not None:
        rows += ["", *(escape(text) + "  " for text in words.measured_text(answer.measured))]
        rows += ["", "| instant | predicted | measured | difference |", "|---|--:|--:|--:|"]
        for each in answer.measured.rows:
            pair = " | ".join(words.apart(each.predicted, each.measured))
            rows.append(f"| {each.title} | {pair} | {each.difference:+,} B ({each.ratio - 1:+.2%}) |")
        rows += ["", *(f"- {escape(text)}" for text in words.measured_notes(answer.measured))]
    if answer.cuts:
        rows += ["", "| change | gives back | then |", "|---|--:|---|"]
        for cut in answer.cuts:
            change, back = words.flags_text(cut.changes), size(cut.gives_back)
            rows.append(f"| `{change}` | {back} | {words.verdict_text(cut.verdict)} |")
    return rows


def _traced(each: "TraceComparison") -> list[str]:
    """The trace beside the formulas, instant by instant."""
    if each.traced is None:
        return ["", say("{method} was not traced: {escape}", method=each.method, escape=escape(each.why))]
    rows = [
        "",
        say("{method} traced, {traced_text}:", method=each.method, traced_text=words.traced_text(each.traced)),
        "",
    ]
    rows += ["| instant | formula | traced | differs |", "|---|--:|--:|--:|"]
    for one in each.instants:
        sizes = ["" if known is None else size(known) for known in (one.analytic, one.traced)]
        share = "" if one.share is None else f"{one.share:+.1%}"
        rows.append(f"| {one.title} | {' | '.join(sizes)} | {share} |")
    allocated, reserved = size(each.traced.allocated), size(each.traced.reserved)
    rows += [
        "",
        say(
            "- allocator on paper: {allocated} allocated, {reserved} reserved",
            allocated=allocated,
            reserved=reserved,
        ),
    ]
    return rows + [say("- note: {escape}", escape=escape(text)) for text in (*each.notes, *each.traced.notes)]
