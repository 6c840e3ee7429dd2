"""Pieces of HTML that several parts of the page are made of; every text is escaped here."""

import html
from collections.abc import Iterable

from gpudoctor.lang import rendered
from gpudoctor.lang.message import row
from gpudoctor.report.printable import one_line


def text(words: str) -> str:
    """Text on one line, in the reader's language, safe anywhere between tags and in quoted attributes."""
    return html.escape(one_line(rendered(words)))


def listed(items: Iterable[str]) -> str:
    """Items in a row: `a, b, c`, and `a、b、c` in Chinese."""
    return rendered(row(", ", items))


def heading(words: str) -> str:
    """The head of a section."""
    return f"<h2>{text(words)}</h2>"


def heads(*cells: str, numbers: bool = False) -> str:
    """The head row of a table; where it has numbers, its heads are above them, to the right."""
    style = ' class="number"' if numbers else ""
    return f"<tr>{''.join(f'<th{style}>{text(cell)}</th>' for cell in cells)}</tr>"


def copyable(words: str, *, style: str = "", inner: str = "") -> str:
    """A block that a button copies; `inner` is what stands in it, where that is not the text itself."""
    shown = inner or html.escape(words)
    return f'<pre class="{style}" data-copy="{html.escape(words)}"><code>{shown}</code></pre>'


def rows(cells: Iterable[tuple[str, str]]) -> str:
    """A table of names and texts; "" without any."""
    found = "".join(f"<tr><th>{text(name)}</th><td>{text(words)}</td></tr>" for name, words in cells)
    return f"<table>{found}</table>" if found else ""


def phase_class(phase: str) -> str:
    """The style of a phase."""
    return f"p-{phase.replace('_', '-').replace(' ', '-')}"


def diff(patch: str) -> str:
    """A unified diff with its added and removed lines marked."""
    kinds = {"+": ' class="add"', "-": ' class="gone"'}
    lines = patch.rstrip("\n").split("\n")
    return "".join(f"<span{kinds.get(line[:1], '')}>{html.escape(line) or ' '}</span>" for line in lines)
