"""The estimate on a terminal: the verdict, each method, the lines at the peak, the trace, what to change."""

from collections.abc import Sequence

from gpudoctor.estimate.answer import Answer, label
from gpudoctor.estimate.fit import step_of
from gpudoctor.estimate.result import Estimate, Instant, Line, Verdict
from gpudoctor.lang import rendered, term, tr, word
from gpudoctor.lang.message import concatenated
from gpudoctor.lang.message import row as in_a_row
from gpudoctor.lang.wrapping import cells, padded, wrap
from gpudoctor.report import estimate_words as words
from gpudoctor.report.printable import printable
from gpudoctor.text import joined, percent, size

# Lines of plain text with tables and wrapped prose: what the estimate's page is made of.

_COLOURS = {Verdict.DOES_NOT_FIT: "\x1b[31m", Verdict.TIGHT: "\x1b[33m"}
"""Colour carries severity and nothing else."""


class TextPage:
    """Lines of text; tables are aligned, prose is wrapped."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width, self.colour = width, colour
        self.lines: list[str] = []

    def line(self, text: str, indent: int = 0, hang: int = 0) -> None:
        """Wrapped prose."""
        self.lines += wrap(printable(rendered(text)), self.width, indent, hang)

    def blank(self) -> None:
        """An empty line."""
        self.lines.append("")

    def table(self, rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
        """Aligned cells; `right` are the columns set to the right. The last column wraps under itself."""
        rows = [[printable(word(cell)) for cell in row] for row in rows]
        sizes = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            aligned = [
                padded(cell, wide, right=at in right) for at, (cell, wide) in enumerate(zip(row, sizes, strict=True))
            ]
            head = "  " + "  ".join(aligned[:-1])
            last = aligned[-1].rstrip() if len(rows[0]) - 1 not in right else aligned[-1]
            room = self.width - cells(head) - 2
            if room < 20:
                self.lines.append(head.rstrip())
                self.lines += wrap(last, self.width, 4)
                continue
            first, *others = wrap(last, room)
            self.lines.append(f"{head}  {first if last.strip() else ''}".rstrip())
            self.lines += [" " * (cells(head) + 2) + other for other in others]

    def text(self) -> str:
        """Everything, ending in one line feed; words of verdicts are coloured last, so that widths hold."""
        whole = "\n".join(self.lines).rstrip("\n") + "\n"
        if self.colour:
            for verdict, start in _COLOURS.items():
                whole = whole.replace(word(verdict.value), f"{start}{word(verdict.value)}\x1b[0m")
        return whole


# Plain strings and not Rich, whose import would take a third of the command's time.

_FULL, _EMPTY = "█", "░"


def render_estimate_text(answer: Answer, *, width: int, colour: bool, explain: bool = False) -> str:
    """The answer for people, `width` columns wide."""
    page = TextPage(max(width, 40), colour)
    card = [words.card_text(answer.device)] if answer.device is not None else []
    page.line(concatenated(" · ", ["gpudoctor", answer.shape.name, words.parameters_text(answer.shape), *card]), hang=2)
    page.blank()
    page.line(words.headline(answer))
    page.line(words.what_text(answer.shown), hang=2)
    if len(answer.estimates) > 1:
        _methods(page, answer)
    if answer.common:
        _common(page, answer)
    _breakdown(page, answer)
    for each, traced in zip(answer.estimates, answer.traced, strict=False):
        page.blank()
        page.line(
            tr("{method} traced: {traced_text}", method=label(each), traced_text=words.traced_text(traced)), hang=2
        )
        for text in traced.notes:
            page.line(tr("note: {text}", text=text), indent=2, hang=2)
    # oom, or the changes that would do.
    shown = answer.shown
    if answer.room is not None and (text := words.room_text(answer.room, shown.job)):
        page.line(tr("{label}: {text}", label=label(shown), text=text), indent=2, hang=2)
    if answer.cuts:
        page.blank()
        page.line(tr("What changes give back to {label}", label=label(shown)))
        rows = [
            (size(cut.gives_back), words.verdict_text(cut.verdict), words.flags_text(cut.changes))
            for cut in answer.cuts
        ]
        page.table(rows, right=(0,))
    if answer.found is not None:
        _found(page, answer)
    if explain:
        _explained(page, answer.shown)
    _small_print(page, answer, explain)
    return page.text()


def _methods(page: TextPage, answer: Answer) -> None:
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
        page.table([(*row[:3], row[4]) for row in rows], right=(1, 2))
    else:
        page.table(rows, right=(1, 2))


def _common(page: TextPage, answer: Answer) -> None:
    """Common cards against each method."""
    page.blank()
    rows = [("card", "memory", *map(label, answer.estimates))]
    for card, verdicts in answer.common:
        rows.append((card.name, size(card.bytes), *map(words.verdict_text, verdicts)))
    page.table(rows, right=(1,))


def _breakdown(page: TextPage, answer: Answer) -> None:
    """The lines at the peak with bars, and the whole against the card."""
    shown = answer.shown
    page.blank()
    page.line(tr("{label} by line, at {title}", label=label(shown), title=term(shown.peak.title)))
    width = max(page.width - 46, 10)
    most = max((line.bytes for line in shown.peak.lines), default=1) or 1
    rows = []
    for line in shown.peak.lines:
        share = line.bytes / max(shown.peak.bytes, 1)
        rows.append((line.kind, size(line.bytes), percent(share), _FULL * round(width * line.bytes / most)))
    rows.append(("allocated", size(shown.peak.bytes), "", _against(shown, width)))
    page.table(rows, right=(1, 2))
    beside = joined([term(line.kind) for line in shown.card.lines if line.bytes])
    of = tr(" of {bytes}", bytes=size(answer.device.bytes)) if answer.device is not None else ""
    page.line(
        tr("the card will show {interval}{of} (with {beside})", interval=words.interval(shown), of=of, beside=beside),
        indent=2,
        hang=2,
    )
    page.line(
        tr("instants: {list}", list=in_a_row(", ", (_instant(each, shown) for each in shown.instants))),
        indent=2,
        hang=2,
    )


def _instant(instant: Instant, shown: Estimate) -> str:
    peak = tr(" (the peak)") if instant is shown.peak else ""
    return f"{word(instant.name)} {size(instant.bytes).removesuffix(' GiB')}{peak}"


def _against(shown: Estimate, width: int) -> str:
    """The peak as a bar over the card, with a mark where the card ends; empty without a card."""
    card = shown.card.device
    if card is None:
        return ""
    scale = max(card.bytes, shown.peak.bytes)
    filled, end = round(width * shown.peak.bytes / scale), round(width * card.bytes / scale)
    bar = _FULL * filled + _EMPTY * (width - filled)
    return f"{bar[:end]}|{bar[end:]}"


def _found(page: TextPage, answer: Answer) -> None:
    """What --fit found."""
    if answer.found is None:
        return
    page.blank()
    if not answer.found.best:
        page.line(tr("Nothing that was tried fits this card."))
    else:
        page.line(tr("What fits, fastest first (speed is estimated from operation counts: use it to compare only)"))
        rows = [("speed", "allocated", tr("gives back"), "changes")]
        for fit in answer.found.best:
            peak, back = size(fit.estimate.total_bytes), size(fit.gives_back)
            rows.append((f"{step_of(fit.speed):.2f}", peak, back, words.flags_text(fit.changes)))
        page.table(rows, right=(0, 1, 2))
    page.blank()
    card = answer.device.name if answer.device is not None else ""
    table = [
        (tr("as asked"), tr("largest batch"), tr("longest sequence"), tr("{card} cards, fully sharded", card=card))
    ]
    for (method, room), (_, cards) in zip(answer.found.room, answer.found.cards, strict=True):
        batch = f"{room.batch:,}" if room.batch is not None else tr("none fits")
        seq = f"{room.seq:,}" if room.seq is not None else tr("none fits")
        table.append((method, batch, seq, f"{cards:,}" if cards is not None else tr("more than 256")))
    page.table(table, right=(1, 2))


def _explained(page: TextPage, shown: Estimate) -> None:
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
        page.line(tr("{title}: {bytes}{also}", title=term(instant.title), bytes=size(instant.bytes), also=also), hang=2)
        for line in fresh:
            _formula(page, line)
        seen |= set(fresh)
    page.blank()
    page.line(tr("on top of the allocated bytes"))
    for line in shown.card.lines:
        _formula(page, line)


def _formula(page: TextPage, line: Line) -> None:
    from gpudoctor.report.formula_words import formula_text, source_text  # for --explain only

    page.line(f"{word(line.kind)} {size(line.bytes)} = {formula_text(line.formula)}", indent=2, hang=4)
    source = source_text(line.source)
    page.line(
        tr("from: {source} ({provenance})", source=source, provenance=term(line.provenance.value)), indent=6, hang=2
    )


def _small_print(page: TextPage, answer: Answer, explain: bool) -> None:
    page.blank()
    for text in answer.assumptions:
        page.line(tr("assumed: {text}", text=text), hang=2)
    for text in answer.shown.notes:
        page.line(tr("note: {text}", text=text), hang=2)
    page.line(words.code_text(answer), hang=2)
    page.line(words.means_text(answer), hang=2)
    if not explain and not answer.traced:
        more = tr("formulas: --explain")
        if answer.device is not None and answer.found is None and answer.shown.job.mode == "train":
            more += tr("   what else fits: --fit")
        page.line(more)
