"""The estimate as Markdown: a verdict and two tables that fit a comment."""

from gpudoctor.estimate.answer import Answer, label
from gpudoctor.estimate.fit import step_of
from gpudoctor.lang import tr, word
from gpudoctor.report import estimate_words as words
from gpudoctor.report.formula_words import formula_text
from gpudoctor.report.markdown import escape
from gpudoctor.text import size


def render_estimate_markdown(answer: Answer, *, explain: bool = False) -> str:
    """The answer; `explain` adds formulas and sources to the lines."""
    shown = answer.shown
    title = tr(
        "gpudoctor estimate: {name}, {parameters}",
        name=answer.shape.name,
        parameters=words.parameters_text(answer.shape),
    )
    rows = [f"### {escape(title)}", ""]
    rows += [escape(words.headline(answer)), "", escape(words.what_text(shown)), ""]
    rows += [
        _row(tr("method"), tr("allocated"), tr("the card shows"), tr("verdict"), tr("peak in")),
        "|---|--:|--:|---|---|",
    ]
    for each in answer.estimates:
        verdict = words.verdict_text(each.card.verdict) or tr("no card named")
        rows.append(_row(label(each), size(each.total_bytes), words.interval(each), verdict, each.peak.title))
    rows += ["", tr("{label} by line, at {title}:", label=label(shown), title=shown.peak.title), ""]
    heads = [tr("line"), tr("bytes"), tr("share"), *([tr("formula"), tr("citation")] if explain else [])]
    rows += [_row(*heads)]
    rows += ["|---|--:|--:|" + ("---|---|" if explain else "")]
    for line in shown.peak.lines:
        cells = [line.kind, size(line.bytes), f"{line.bytes / max(shown.peak.bytes, 1):.0%}"]
        if explain:
            cells += [formula_text(line.formula), words.source_text(line)]
        rows.append(_row(*cells))
    rows += _more(answer)
    rows += ["", *(f"- {escape(tr('assumed: {text}', text=text))}" for text in answer.assumptions)]
    rows += [f"- {escape(tr('note: {text}', text=text))}" for text in shown.notes]
    rows.append(f"- {escape(words.code_text(answer))}")
    return "\n".join(rows).rstrip("\n") + "\n"


def _row(*cells: str) -> str:
    """A row of a table, each cell in the reader's language."""
    return f"| {' | '.join(escape(word(cell)) for cell in cells)} |"


def _more(answer: Answer) -> list[str]:
    """Tables of --fit, the trace, and single changes."""
    rows: list[str] = []
    if answer.found is not None and answer.found.best:
        heads = (tr("what fits"), tr("allocated"), tr("gives back"), tr("speed"))
        rows += ["", _row(*heads), "|---|--:|--:|--:|"]
        for fit in answer.found.best:
            peak, back = size(fit.estimate.total_bytes), size(fit.gives_back)
            rows.append(f"| `{words.flags_text(fit.changes)}` | {peak} | {back} | {step_of(fit.speed):.2f} |")
    for each, traced in zip(answer.estimates, answer.traced, strict=False):
        rows += [
            "",
            tr("{method} traced, {traced_text}:", method=label(each), traced_text=words.traced_text(traced)),
            "",
        ]
        rows += [_row(tr("instant"), tr("traced")), "|---|--:|"]
        rows += [_row(one.title, size(one.bytes)) for one in each.instants]
        rows += ["", *(f"- {escape(tr('note: {text}', text=text))}" for text in traced.notes)]
    if answer.cuts:
        rows += ["", _row(tr("change"), tr("gives back"), tr("then")), "|---|--:|---|"]
        for cut in answer.cuts:
            change, back = words.flags_text(cut.changes), size(cut.gives_back)
            rows.append(f"| `{change}` | {back} | {word(words.verdict_text(cut.verdict))} |")
    return rows
