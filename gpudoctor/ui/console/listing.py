"""Every check, grouped by topic, and every override, as `gpudoctor list` shows them."""

from collections.abc import Sequence
from itertools import groupby

from gpudoctor.engine.manual import ManualPage
from gpudoctor.model import Maturity, Reads
from gpudoctor.report.pages import Override
from gpudoctor.text import count
from gpudoctor.ui.console.canvas import Canvas

_LETTERS = {
    Reads.ENVIRONMENT: "e",
    Reads.SOURCE: "s",
    Reads.CONFIG: "c",
    Reads.RECORDING: "r",
    Reads.PROCESS: "w",
    Reads.LOG: "l",
}


def render_listing(pages: Sequence[ManualPage], *, width: int) -> str:
    """The checks in the order given, a heading for each topic."""
    canvas = Canvas(width, colour=False)
    longest = max((len(page.name) for page in pages), default=0)
    codes = max((len(page.code) for page in pages), default=0)
    for topic, members in groupby(pages, key=lambda page: page.topic):
        canvas.paragraph(topic)
        for page in members:
            canvas.paragraph_raw(_row(page, codes, longest), indent=2)
        canvas.blank()
    canvas.paragraph(
        f"{count(len(pages), 'check')}. Reads: e environment and machine, s source, c configs, r recording, "
        "w live process. Why and what to do: gpudoctor explain CODE"
    )
    return canvas.text()


def render_overrides(overrides: Sequence[Override], *, width: int) -> str:
    """Those that can be named first, then those that need a finding's places."""
    canvas = Canvas(width, colour=False)
    longest = max((len(item.name) for item in overrides), default=0)
    for title, vary in (
        ("with --vary and by remedies", True),
        ("by remedies, at the lines of a finding", False),
    ):
        canvas.paragraph(title)
        for item in overrides:
            if item.vary is vary:
                safe = "safe" if item.safe else "unsafe"
                canvas.paragraph_raw(f"{item.name:<{longest}}  {safe:<6}  {item.what}", 2, longest + 10)
        canvas.blank()
    canvas.paragraph(
        f"{count(len(overrides), 'override')}. Unsafe: may change results, tried with --unsafe only. "
        "* is any name. Try one: gpudoctor verify --vary NAME=V1,V2 -- COMMAND"
    )
    return canvas.text()


def _row(page: ManualPage, codes: int, longest: int) -> str:
    letters = " ".join(_LETTERS[kind] if kind in page.reads else " " for kind in Reads)
    maturity = "" if page.maturity is Maturity.STABLE else f"  {page.maturity.value}"
    return (
        f"{page.code:<{codes}}  {page.name:<{longest}}  {letters}  {page.severity.value:<7}{maturity}".rstrip()
    )
