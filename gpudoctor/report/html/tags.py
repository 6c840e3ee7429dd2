"""Pieces of HTML that several parts of the page are made of; every text is escaped here."""

import html
from collections.abc import Iterable

from gpudoctor.report.printable import one_line


def text(words: str) -> str:
    """Text on one line, safe anywhere between tags."""
    return html.escape(one_line(words))


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
