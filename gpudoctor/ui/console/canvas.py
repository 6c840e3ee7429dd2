"""Lines of styled text for a given width: wrapping with indentation, and a right-hand column where it fits."""

import io
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gpudoctor.lang import rendered
from gpudoctor.lang.wrapping import pieces
from gpudoctor.model import Severity
from gpudoctor.report.printable import one_line, printable

STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
"""Colours of severities, by name: the terminal's own theme decides how they look. The word stands beside it."""
NARROWEST = 24
"""Columns below which wrapping would cost more than a line that runs over."""


class Canvas:
    """Collects lines and gives them back as one text, with or without colour."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = max(width, NARROWEST)
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            width=self.width,
            height=100,
            color_system="256" if colour else None,
            force_terminal=colour,
            no_color=not colour,
            force_interactive=False,
            legacy_windows=False,
            markup=False,
            highlight=False,
            emoji=False,
        )

    def blank(self) -> None:
        """An empty line."""
        self._file.write("\n")

    def paragraph(self, text: Text | str, indent: int = 0, hang: int = 0) -> None:
        """Wrapped text; `indent` columns before each line, `hang` more before all but the first.

        A word that is longer than a line (a path, an address) runs over: in pieces it could not be copied.
        """
        for line in self._wrapped(_styled(text), indent, hang):
            self._print(line)

    def joined(self, parts: Iterable[str], hang: int = 0) -> None:
        """Parts with a dot between them; a line breaks between parts where it can."""
        line = ""
        for part in map(rendered, parts):
            longer = f"{line} · {part}" if line else part
            if line and Text(longer).cell_len + 2 > self.width:
                self._joined(line + " ·", hang)
                longer = " " * hang + part
            line = longer
        self._joined(line, hang)

    def _joined(self, line: str, hang: int) -> None:
        """A line of parts; a part may be longer than the line."""
        self.paragraph_raw(line.lstrip(), indent=len(line) - len(line.lstrip()), hang=hang)

    def literal(self, text: str, indent: int = 0) -> None:
        """One line that must be copied as it is: never wrapped."""
        self._print(Text(" " * indent + one_line(printable(rendered(text)))))

    def literal_raw(self, text: str, indent: int = 0) -> None:
        """Like `literal`, with runs of spaces kept."""
        self._print(Text(" " * indent + printable(rendered(text)).expandtabs().rstrip()))

    def styled(self, line: Text, indent: int = 0) -> None:
        """One line as it is, with its styles: never wrapped."""
        self._print(Text(" " * indent) + line)

    def clipped(self, text: str, indent: int = 0) -> None:
        """One line with its spaces kept, cut with an ellipsis where it does not fit."""
        line = Text(printable(rendered(text)).expandtabs().replace("\n", " "))
        line.truncate(self.width - indent, overflow="ellipsis")
        self._print(Text(" " * indent) + line)

    def split(self, left: Text | str, right: Text | str, indent: int = 0, hang: int = 0) -> None:
        """Wrapped text on the left, and on the right edge of its last line the other, or below it."""
        aside = _styled(right)
        lines = self._wrapped(_styled(left), indent, hang)
        gap = self.width - lines[-1].cell_len - aside.cell_len
        if gap >= 2:
            lines[-1] = lines[-1] + Text(" " * gap) + aside
        else:
            lines += self._wrapped(aside, indent + hang, 0)
        for line in lines:
            self._print(line)

    def columns(self, rows: Iterable[tuple[str, ...]], indent: int = 0) -> None:
        """Rows of cells with aligned columns; the last column wraps under itself."""
        table = [[one_line(printable(rendered(cell))) for cell in row] for row in rows]
        if not table:
            return
        widths = [max(Text(row[column]).cell_len for row in table) for column in range(len(table[0]) - 1)]
        offset = sum(width + 2 for width in widths)
        # A narrow terminal has no room for a column beside others: the last one goes below, indented.
        beside = self.width - indent - offset >= NARROWEST
        for row in table:
            cells = [cell + " " * (width - Text(cell).cell_len) for cell, width in zip(row[:-1], widths, strict=True)]
            if beside:
                self.paragraph_raw("  ".join([*cells, row[-1]]), indent, offset)
            else:
                self.paragraph("  ".join(row[:-1]), indent, 2)
                if row[-1]:
                    self.paragraph(row[-1], indent + 2)

    def paragraph_raw(self, text: str, indent: int = 0, hang: int = 0) -> None:
        """Like `paragraph`, with runs of spaces kept."""
        for line in self._wrapped(Text(printable(rendered(text))), indent, hang):
            self._print(line)

    def text(self) -> str:
        """Everything so far, ending in one line feed."""
        return self._file.getvalue().rstrip("\n") + "\n"

    def _print(self, line: Text) -> None:
        line.rstrip()
        self._console.print(line, soft_wrap=True)

    def _wrapped(self, text: Text, indent: int, hang: int) -> list[Text]:
        """Lines of the text with their indentation. Rich wraps all lines to one width and cuts long words."""
        first = max(self.width - indent, NARROWEST // 2)
        rest = max(self.width - indent - hang, NARROWEST // 2)
        # Where lines after the first begin; `first` and `rest` are the columns that lines have.
        starts: list[int] = []
        begun = used = at = len(text.plain) - len(text.plain.lstrip())
        room = first
        for piece in pieces(text.plain.lstrip()):
            if used > begun and used + cell_len(piece.rstrip()) > room:
                starts.append(at)
                begun, used, room = 0, 0, rest
            used += cell_len(piece)
            at += len(piece)
        lines = text.divide(starts)
        for line in lines:
            line.rstrip()
        return [Text(" " * (indent + hang if place else indent)) + line for place, line in enumerate(lines)]


def _styled(text: Text | str) -> Text:
    return text.copy() if isinstance(text, Text) else Text(one_line(printable(rendered(text))))
