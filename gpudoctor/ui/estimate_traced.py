"""The trace on a terminal: every instant beside the formulas', the lines at its peak, the allocator's."""

from gpudoctor.estimate.answer import Answer
from gpudoctor.estimate.traced.result import TraceComparison, at_peak
from gpudoctor.report import estimate_words as words
from gpudoctor.text import size
from gpudoctor.ui.estimate_page import TextPage

_NONE = "-"


def show_traced(page: TextPage, answer: Answer) -> None:
    """A table for each job that was traced."""
    for each in answer.traced:
        page.blank()
        if each.traced is None:
            page.say(f"{each.method} was not traced: {each.why}", hang=2)
            continue
        page.say(f"{each.method} traced: {words.traced_text(each.traced)}", hang=2)
        if not each.alone:
            _beside(page, each)
        for text in (*each.notes, *each.traced.notes):
            page.say(f"note: {text}", indent=2, hang=2)
        sizes = size(each.traced.allocated), size(each.traced.reserved)
        page.say(f"allocator on paper: {sizes[0]} allocated, {sizes[1]} reserved", indent=2, hang=2)


def _beside(page: TextPage, each: TraceComparison) -> None:
    """Instants, then the lines at the traced peak."""
    assert each.traced is not None
    rows = [("", "formula", "traced", "differs")]
    for instant in each.instants:
        share = _NONE if instant.share is None else f"{instant.share:+.1%}"
        peak = " (the peak)" if instant.name == each.traced.peak.name else ""
        rows.append((instant.title + peak, _size(instant.analytic), _size(instant.traced), share))
    page.table(rows, right=(1, 2, 3))
    page.say(f"at {each.traced.peak.title}", indent=2)
    lines = [(f"  {name}", size(mine), size(theirs)) for name, mine, theirs in at_peak(each)]
    page.table(lines, right=(1, 2))


def _size(count: int | None) -> str:
    return _NONE if count is None else size(count)
