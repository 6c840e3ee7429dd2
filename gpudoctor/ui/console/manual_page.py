"""The manual page of a check, as `gpudoctor explain` shows it."""

from gpudoctor.engine.manual import ManualPage
from gpudoctor.model import Threshold
from gpudoctor.report.units import threshold_text
from gpudoctor.ui.console.canvas import Canvas

_INDENT = 2


def render_manual_page(page: ManualPage, *, width: int) -> str:
    """The page: code and name, the ailment in a sentence, the sections, the thresholds, the facts."""
    canvas = Canvas(width, colour=False)
    canvas.split(f"{page.code} {page.name}", f"{page.topic}, {page.severity.value}")
    canvas.paragraph(page.title)
    if page.manual is None:
        _body(canvas, "\n".join(page.text.splitlines()[1:]))
    for section in page.manual.sections if page.manual else ():
        canvas.blank()
        canvas.paragraph(section.heading)
        _body(canvas, section.text)
    if page.thresholds:
        canvas.blank()
        canvas.paragraph("Thresholds")
        for threshold in page.thresholds:
            _threshold(canvas, page, threshold)
    canvas.blank()
    canvas.columns(_facts(page))
    return canvas.text()


def _facts(page: ManualPage) -> list[tuple[str, str]]:
    facts = [("reads", ", ".join(kind.value for kind in page.reads)), ("maturity", page.maturity.value)]
    if page.track_record:
        facts.append(("track record", page.track_record))
    if page.no_rule:
        facts.append(("remedies", f"none prescribed: {page.no_rule}"))
    facts.append(("silence it", f"# gpudoctor: ignore[{page.code}] reason, or --ignore {page.code}"))
    return facts


def _threshold(canvas: Canvas, page: ManualPage, threshold: Threshold) -> None:
    value = threshold_text(threshold.default, threshold.unit)
    canvas.paragraph(f"{page.code}.{threshold.name} = {value}", indent=_INDENT)
    canvas.paragraph(threshold.meaning, indent=_INDENT + 2)
    canvas.paragraph(f"from: {threshold.source}", indent=_INDENT + 2, hang=2)


def _body(canvas: Canvas, text: str) -> None:
    """Paragraphs are wrapped anew; list items and indented lines (examples) keep their lines."""
    paragraph: list[str] = []

    def flush() -> None:
        text = " ".join(paragraph)
        if len(paragraph) == 1 and "://" in text and _is_item(text):
            canvas.literal(text, indent=_INDENT)  # an address is there to be copied
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
