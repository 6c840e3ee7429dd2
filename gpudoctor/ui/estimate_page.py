"""Lines of plain text with tables and wrapped prose: what the estimate's page is made of."""

import textwrap
from collections.abc import Sequence

from gpudoctor.estimate.result import Verdict
from gpudoctor.report.printable import printable

_COLOURS = {Verdict.DOES_NOT_FIT: "\x1b[31m", Verdict.TIGHT: "\x1b[33m"}
"""Colour carries severity and nothing else."""


class TextPage:
    """Lines of text; tables are aligned, prose is wrapped."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width, self.colour = width, colour
        self.lines: list[str] = []

    def say(self, text: str, indent: int = 0, hang: int = 0) -> None:
        """Wrapped prose."""
        self.lines += textwrap.wrap(
            printable(text), self.width, initial_indent=" " * indent, subsequent_indent=" " * (indent + hang),
            break_long_words=False, break_on_hyphens=False,
        ) or [""]  # fmt: skip

    def blank(self) -> None:
        """An empty line."""
        self.lines.append("")

    def table(self, rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
        """Aligned cells; `right` are the columns set to the right. The last column wraps under itself."""
        rows = [[printable(cell) for cell in row] for row in rows]
        sizes = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            cells = [
                cell.rjust(wide) if at in right else cell.ljust(wide)
                for at, (cell, wide) in enumerate(zip(row, sizes, strict=True))
            ]
            head = "  " + "  ".join(cells[:-1])
            last = cells[-1].rstrip() if len(rows[0]) - 1 not in right else cells[-1]
            room = self.width - len(head) - 2
            if room < 20:
                self.lines += [head.rstrip(), *textwrap.wrap(last, self.width - 4, initial_indent="    ")]
                continue
            first, *others = textwrap.wrap(last, room, break_long_words=False, break_on_hyphens=False) or [""]
            self.lines.append(f"{head}  {first if last.strip() else ''}".rstrip())
            self.lines += [" " * (len(head) + 2) + other for other in others]

    def text(self) -> str:
        """Everything, ending in one line feed; words of verdicts are coloured last, so that widths hold."""
        whole = "\n".join(self.lines).rstrip("\n") + "\n"
        if self.colour:
            for verdict, start in _COLOURS.items():
                whole = whole.replace(verdict.value, f"{start}{verdict.value}\x1b[0m")
        return whole
