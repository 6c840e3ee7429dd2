"""Lines of text for a given width: wrapping with indentation, and a right-hand column where it fits."""

from collections.abc import Iterable, Sequence

from gpudoctor.lang import rendered
from gpudoctor.lang.wrapping import cells, padded, wrap
from gpudoctor.report.printable import one_line, printable

NARROWEST = 24
"""Columns below which wrapping would cost more than a line that runs over."""
Marks = Sequence[tuple[str, str]]
"""Words of a line, each with its style as Rich names it."""
_SAME = "\x1b[39m"
"""The end of a colour within a line: a bold line stays bold."""


class Canvas:
    """Collects lines and gives them back as one text, with or without colour."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width, self._colour = max(width, NARROWEST), colour
        self._lines: list[str] = []

    def blank(self) -> None:
        """An empty line."""
        self._lines.append("")

    def paragraph(self, text: str, indent: int = 0, hang: int = 0, style: str = "") -> None:
        """Wrapped text; `indent` columns before each line, `hang` more before all but the first.

        A word that is longer than a line (a path, an address) runs over: in pieces it could not be copied.
        """
        self.paragraph_raw(_flat(text), indent, hang, style)

    def joined(self, parts: Iterable[str], hang: int = 0) -> None:
        """Parts with a dot between them; a line breaks between parts where it can, and in one that is longer."""
        line = ""
        for part in map(rendered, parts):
            longer = f"{line} · {part}" if line else part
            if line and cells(longer) + 2 > self.width:
                self._joined(line + " ·", hang)
                longer = " " * hang + part
            line = longer
        self._joined(line, hang)

    def _joined(self, line: str, hang: int) -> None:
        self.paragraph_raw(line.lstrip(), indent=len(line) - len(line.lstrip()), hang=hang)

    def literal(self, text: str, indent: int = 0) -> None:
        """One line that must be copied as it is: never wrapped."""
        self.styled(" " * indent + _flat(text))

    def literal_raw(self, text: str, indent: int = 0) -> None:
        """Like `literal`, with runs of spaces kept."""
        self.styled(" " * indent + printable(rendered(text)).expandtabs())

    def styled(self, line: str, marks: Marks = ()) -> None:
        """One line as it is, never wrapped; the last place of each of its marked words has the word's style."""
        line = line.rstrip()
        for words, style in marks if self._colour else ():
            before, found, after = line.rpartition(words)
            line = before + painted(found, style) + after if found else line
        self._lines.append(line)

    def clipped(self, text: str, indent: int = 0, style: str = "") -> None:
        """One line with its spaces kept, cut with an ellipsis where it does not fit."""
        line = printable(rendered(text)).expandtabs().replace("\n", " ")
        shown = clipped(line, self.width - indent)
        self.styled(" " * indent + shown, [(shown, style)] if style else [])

    def split(self, left: str, right: str, hang: int = 0, marks: Marks = ()) -> None:
        """Wrapped text on the left, its spaces kept, and on the right edge of its last line the other, or below it.

        `marks` has a word of either.
        """
        aside = _flat(right)
        *lines, last = wrap(printable(rendered(left)), self.width, 0, hang)
        gap = self.width - cells(last) - cells(aside)
        for line in lines if gap >= 2 else [*lines, last]:
            self.styled(line, marks[:1])
        for line in [last + " " * gap + aside] if gap >= 2 else wrap(aside, self.width, hang):
            self.styled(line, marks)

    def columns(self, rows: Iterable[Sequence[str]], indent: int = 0, right: Sequence[int] = ()) -> None:
        """Rows of cells with aligned columns, `right` those set to the right; the last one wraps under itself."""
        table = [tuple(map(_flat, row)) for row in rows]
        widths = [max(map(cells, column)) for column in [*zip(*table, strict=True)][:-1]]
        offset = sum(width + 2 for width in widths)
        # A narrow terminal has no room for a column beside others: the last one goes below, indented.
        beside = self.width - indent - offset >= NARROWEST
        for *row, last in table:
            if beside:
                aligned = [padded(cell, widths[at], right=at in right) for at, cell in enumerate(row)]
                self.paragraph_raw("  ".join([*aligned, last]), indent, offset)
            else:
                self.paragraph("  ".join(row), indent, 2)
                if last:
                    self.paragraph(last, indent + 2)

    def clipped_columns(self, rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> None:
        """Aligned rows, each on one line and cut where it does not fit; a text below each, indented."""
        widths = [max(map(cells, column)) for column in [*zip(*rows, strict=True)][:-1]]
        for at, (*row, last) in enumerate(rows):
            self.clipped("  ".join([*map(padded, row, widths), last]))
            for text in below[at : at + 1]:
                self.clipped(text, indent=4)

    def paragraph_raw(self, text: str, indent: int = 0, hang: int = 0, style: str = "") -> None:
        """Like `paragraph`, with runs of spaces kept."""
        for line in wrap(printable(rendered(text)), self.width, indent, hang):
            self.styled(line, [(line.strip(), style)] if style else [])

    def text(self, everywhere: Marks = ()) -> str:
        """Everything so far, ending in one line feed; words that have their style wherever they are."""
        whole = "\n".join(self._lines).rstrip("\n") + "\n"
        for words, style in everywhere if self._colour else ():
            whole = whole.replace(words, painted(words, style).replace("\x1b[0m", _SAME))
        return whole


def _flat(text: str) -> str:
    return one_line(printable(rendered(text)))


def painted(words: str, style: str) -> str:
    """Words in a style of Rich's, for a terminal."""
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(style).render(words, color_system=ColorSystem.EIGHT_BIT)


def clipped(text: str, columns: int) -> str:
    """The text in so many columns, cut with an ellipsis where it does not fit."""
    if cells(text) <= columns:
        return text
    while text and cells(text) > columns - 1:
        text = text[: min(len(text) - 1, columns)]
    return text + "…" if columns > 0 else ""
