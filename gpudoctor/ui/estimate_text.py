"""The estimate on a terminal: the verdict, each method, the lines at the peak, the trace, what to change."""

from collections.abc import Iterable, Sequence

from gpudoctor.estimate.answer import Answer, label
from gpudoctor.estimate.fit import step_of
from gpudoctor.estimate.result import Estimate, Line, Verdict
from gpudoctor.lang import rendered, term, tr, word
from gpudoctor.lang.message import concatenated
from gpudoctor.lang.message import row as in_a_row
from gpudoctor.report import estimate_words as words
from gpudoctor.text import joined, percent, size
from gpudoctor.ui.console.canvas import Canvas

_COLOURS = {Verdict.DOES_NOT_FIT: "red", Verdict.TIGHT: "yellow"}
"""Colour carries severity and nothing else."""
_FULL = "█"


def _said(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Rows in the reader's language: their cells are words of closed lists, too."""
    return [list(map(word, row)) for row in rows]


def render_estimate_text(answer: Answer, *, width: int, colour: bool, explain: bool = False) -> str:
    """The answer for people, `width` columns wide."""
    page = Canvas(max(width, 40), colour)
    card = [words.card_text(answer.device)] if answer.device is not None else []
    page.paragraph(
        concatenated(" · ", ["gpudoctor", answer.shape.name, words.parameters_text(answer.shape), *card]), hang=2
    )
    page.blank()
    page.paragraph(words.headline(answer), style="bold")
    page.paragraph(words.job_text(answer.shown.job), hang=2)
    if len(answer.estimates) > 1:
        _methods(page, answer)
    if answer.common:
        _common(page, answer)
    _breakdown(page, answer)
    for each, traced in zip(answer.estimates, answer.traced, strict=False):
        page.blank()
        page.paragraph(
            tr("{method} traced: {traced_text}", method=label(each), traced_text=words.traced_text(traced)), hang=2
        )
        for text in traced.notes:
            page.paragraph(tr("note: {text}", text=text), indent=2, hang=2)
    if answer.cuts:
        page.blank()
        page.paragraph(tr("What changes give back to {label}", label=label(answer.shown)))
        rows = [
            (size(cut.gives_back), words.verdict_text(cut.verdict), words.flags_text(cut.changes))
            for cut in answer.cuts
        ]
        page.columns(_said(rows), 2, right=(0,))
    if answer.found is not None:
        _found(page, answer)
    if explain:
        _explained(page, answer.shown)
    _small_print(page, answer, explain)
    return page.text([(rendered(words.verdict_text(verdict)), style) for verdict, style in _COLOURS.items()])


def _methods(page: Canvas, answer: Answer) -> None:
    page.blank()
    rows = [("", "allocated", tr("the card shows"), "" if answer.device is None else "verdict", tr("peak in"))]
    for each in answer.estimates:
        rows.append(
            (
                label(each),
                size(each.total_bytes),
                words.interval(each),
                words.verdict_text(each.card.verdict),
                each.peak.title,
            )
        )
    if answer.device is None:
        page.columns(_said((*row[:3], row[4]) for row in rows), 2, right=(1, 2))
    else:
        page.columns(_said(rows), 2, right=(1, 2))


def _common(page: Canvas, answer: Answer) -> None:
    """Common cards against each method."""
    page.blank()
    rows = [("card", "memory", *map(label, answer.estimates))]
    for card, verdicts in answer.common:
        rows.append((card.name, size(card.bytes), *map(words.verdict_text, verdicts)))
    page.columns(_said(rows), 2, right=(1,))


def _breakdown(page: Canvas, answer: Answer) -> None:
    """The lines at the peak with bars."""
    shown = answer.shown
    page.blank()
    page.paragraph(tr("{label} by line, at {title}", label=label(shown), title=term(shown.peak.title)))
    width = max(page.width - 46, 10)
    most = max((line.bytes for line in shown.peak.lines), default=1) or 1
    rows = []
    for line in shown.peak.lines:
        share = line.bytes / max(shown.peak.bytes, 1)
        rows.append((line.kind, size(line.bytes), percent(share), _FULL * round(width * line.bytes / most)))
    rows.append(("allocated", size(shown.peak.bytes), "", ""))
    page.columns(_said(rows), 2, right=(1, 2))
    beside = joined([term(line.kind) for line in shown.card.lines if line.bytes])
    of = tr(" of {bytes}", bytes=size(answer.device.bytes)) if answer.device is not None else ""
    if shown.card.verdict is not Verdict.DOES_NOT_FIT:
        told = tr(
            "the card will show {interval}{of} (with {beside})", interval=words.interval(shown), of=of, beside=beside
        )
        page.paragraph(told, indent=2, hang=2)
    instants = [
        f"{word(each.name)} {size(each.bytes).removesuffix(' GiB')}{tr(' (the peak)') if each is shown.peak else ''}"
        for each in shown.instants
    ]
    page.paragraph(tr("instants: {list}", list=in_a_row(", ", instants)), indent=2, hang=2)


def _found(page: Canvas, answer: Answer) -> None:
    """What --fit found."""
    assert answer.found is not None
    page.blank()
    if not answer.found.best:
        page.paragraph(tr("Nothing that was tried fits this card."))
    else:
        page.paragraph(
            tr("What fits, fastest first (speed is estimated from operation counts: use it to compare only)")
        )
        rows = [("speed", "allocated", tr("gives back"), "changes")]
        for fit in answer.found.best:
            peak, back = size(fit.estimate.total_bytes), size(fit.gives_back)
            rows.append((f"{step_of(fit.speed):.2f}", peak, back, words.flags_text(fit.changes)))
        page.columns(_said(rows), 2, right=(0, 1, 2))
    page.blank()
    card = answer.device.name if answer.device is not None else ""
    table = [
        (tr("as asked"), tr("largest batch"), tr("longest sequence"), tr("{card} cards, fully sharded", card=card))
    ]
    for (method, room), (_, cards) in zip(answer.found.room, answer.found.cards, strict=True):
        batch = f"{room.batch:,}" if room.batch is not None else tr("none fits")
        seq = f"{room.seq:,}" if room.seq is not None else tr("none fits")
        table.append((method, batch, seq, f"{cards:,}" if cards is not None else tr("more than 256")))
    page.columns(_said(table), 2, right=(1, 2))


def _explained(page: Canvas, shown: Estimate) -> None:
    """Every formula once: those of the peak, then what the other instants add, then what surrounds them."""
    seen: set[Line] = set()
    for instant in (shown.peak, *(each for each in shown.instants if each is not shown.peak)):
        fresh = [line for line in instant.lines if line not in seen]
        page.blank()
        also = (
            ""
            if len(fresh) == len(instant.lines)
            else tr(", of it {lines} lines above", lines=len(instant.lines) - len(fresh))
        )
        page.paragraph(
            tr("{title}: {bytes}{also}", title=term(instant.title), bytes=size(instant.bytes), also=also), hang=2
        )
        for line in fresh:
            _formula(page, line)
        seen |= set(fresh)
    page.blank()
    page.paragraph(tr("on top of the allocated bytes"))
    for line in shown.card.lines:
        _formula(page, line)


def _formula(page: Canvas, line: Line) -> None:
    from gpudoctor.report.formula_words import formula_text, source_text  # for --explain only

    page.paragraph(f"{word(line.kind)} {size(line.bytes)} = {formula_text(line.formula)}", indent=2, hang=4)
    source = source_text(line.source)
    page.paragraph(
        tr("from: {source} ({provenance})", source=source, provenance=term(line.provenance.value)), indent=6, hang=2
    )


def _small_print(page: Canvas, answer: Answer, explain: bool) -> None:
    page.blank()
    for text in answer.assumptions:
        page.paragraph(tr("assumed: {text}", text=text), hang=2)
    for text in answer.shown.notes:
        page.paragraph(tr("note: {text}", text=text), hang=2)
    page.paragraph(words.code_text(answer), hang=2)
    page.paragraph(words.means_text(answer), hang=2)
    if not explain and not answer.traced:
        more = tr("formulas: --explain")
        if answer.device is not None and answer.found is None and answer.shown.job.mode == "train":
            more += tr("   what else fits: --fit")
        page.paragraph_raw(more)
