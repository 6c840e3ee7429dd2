"""Manual pages and lists of checks, as `gpudoctor explain` and `gpudoctor list` show them."""

from collections.abc import Sequence
from itertools import groupby

from gpudoctor.engine.manual import ManualPage
from gpudoctor.lang import term, tr, word
from gpudoctor.lang.message import concatenated
from gpudoctor.lang.wrapping import padded, unfolded
from gpudoctor.model import Maturity, Reads
from gpudoctor.report.units import threshold_text
from gpudoctor.text import count
from gpudoctor.ui.console.canvas import Canvas

_INDENT = 2


def render_manual_page(page: ManualPage, *, width: int, colour: bool = False) -> str:
    """The page: code and name, the ailment in a sentence, the sections, the thresholds, the facts.

    With colours, an address is a link.
    """
    canvas = Canvas(width, colour)
    canvas.split(
        f"{page.code} {page.name}",
        tr("{topic}, {severity}", topic=term(page.topic), severity=term(page.severity.value)),
    )
    canvas.paragraph(page.title)
    if not page.sections:
        _body(canvas, "\n".join(page.text.splitlines()[1:]))
    for heading, text in page.sections.items():
        canvas.blank()
        canvas.paragraph(word(heading))
        _body(canvas, text)
    if page.thresholds:
        canvas.blank()
        canvas.paragraph(tr("Thresholds"))
        for threshold in page.thresholds:
            value = threshold_text(threshold.default, threshold.unit)
            canvas.paragraph(f"{page.code}.{threshold.name} = {value}", indent=_INDENT)
            canvas.paragraph(threshold.meaning, indent=_INDENT + 2)
            canvas.paragraph(tr("from: {source}", source=threshold.source), indent=_INDENT + 2, hang=2)
    canvas.blank()
    reads = concatenated(", ", (term(kind.value) for kind in page.reads))
    facts = [(word("reads"), reads), (word("maturity"), term(page.maturity.value))]
    if page.track_record:
        facts.append((tr("track record"), page.track_record))
    if page.no_rule:
        facts.append((word("remedies"), tr("none prescribed: {no_rule}", no_rule=page.no_rule)))
    facts.append(
        (
            tr("silence it"),
            tr(
                "{comment}, or {flag}", comment=f"# gpudoctor: ignore[{page.code}] reason", flag=f"--ignore {page.code}"
            ),
        )
    )
    canvas.columns(facts)
    return canvas.text()


def _body(canvas: Canvas, text: str) -> None:
    """Paragraphs are wrapped anew; list items and indented lines (examples) keep their lines."""
    paragraph: list[str] = []

    def flush() -> None:
        text = unfolded(paragraph)
        if len(paragraph) == 1 and "://" in text and _is_item(text):
            address = text.split()[-1]  # is there to be copied
            canvas.styled(" " * _INDENT + text, [(address, f"link {address}")])
        elif paragraph:
            canvas.paragraph(text, indent=_INDENT, hang=2 if _is_item(text) else 0)
        paragraph.clear()

    literal = False
    for line in text.splitlines():
        indented = line[:1] == " "
        if not line.strip():
            flush()
            literal = False
        elif indented and paragraph and _is_item(paragraph[0]):
            paragraph.append(line.strip())
        elif (indented and not paragraph) or literal:
            canvas.literal_raw(line, indent=_INDENT)
            literal = True
        else:
            if _is_item(line):
                flush()
            paragraph.append(line.strip())
    flush()


def _is_item(line: str) -> bool:
    return line.lstrip().startswith(("- ", "* "))


# Every check, grouped by topic, as `gpudoctor list` shows them.

_LETTERS = {
    Reads.ENVIRONMENT: "e",
    Reads.SOURCE: "s",
    Reads.CONFIG: "c",
    Reads.RECORDING: "r",
    Reads.PROCESS: "w",
    Reads.LOG: "l",
    Reads.PREFLIGHT: "p",
}


def render_listing(pages: Sequence[ManualPage], *, width: int) -> str:
    """The checks in the order given, a heading for each topic."""
    canvas = Canvas(width, colour=False)
    longest = max((len(page.name) for page in pages), default=0)
    codes = max((len(page.code) for page in pages), default=0)
    for topic, members in groupby(pages, key=lambda page: page.topic):
        canvas.paragraph(word(topic))
        for page in members:
            canvas.paragraph_raw(_row(page, codes, longest), indent=2)
        canvas.blank()
    canvas.paragraph(
        tr(
            "{checks}. Reads: e environment and machine, s source, c configs, r recording, w live "
            "process, l logs, p preflight. Why and what to do: gpudoctor explain CODE",
            checks=count(len(pages), "check"),
        )
    )
    return canvas.text()


def render_hits(pages: Sequence[ManualPage], query: str, *, width: int) -> str:
    """What a search has found, the most likely first: code, name and the ailment in a sentence."""
    canvas = Canvas(width, colour=False)
    canvas.columns([(page.code, page.name, page.title) for page in pages])
    canvas.blank()
    canvas.literal(
        tr(
            "{checks} for {query!r}; read one: gpudoctor explain {code}",
            checks=count(len(pages), "check"),
            query=query,
            code=pages[0].code,
        )
    )
    return canvas.text()


def _row(page: ManualPage, codes: int, longest: int) -> str:
    letters = " ".join(_LETTERS[kind] if kind in page.reads else " " for kind in Reads)
    maturity = "" if page.maturity is Maturity.STABLE else f"  {word(page.maturity.value)}"
    severity = padded(word(page.severity.value), 7)
    return f"{page.code:<{codes}}  {page.name:<{longest}}  {letters}  {severity}{maturity}".rstrip()
