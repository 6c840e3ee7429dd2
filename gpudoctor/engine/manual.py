"""Manual pages: the docstring of a check class, and the facts that its attributes add."""

import inspect
import re
from dataclasses import dataclass, replace
from functools import lru_cache

from gpudoctor.engine.selection import topic_of
from gpudoctor.lang import ENGLISH, current_language, page_text, word
from gpudoctor.model import Check, Code, Maturity, Named, Reads, Severity, Threshold
from gpudoctor.model.check import TrackRecord, track_record

HEADINGS = ("What it finds", "Why it hurts", "How it knows", "False alarms", "Remedies", "References")
"""The headings of every page, in this order."""

_TOPICS = {
    "ENV": "environment",
    "GPU": "hardware",
    "NODE": "nodes and links under load",
    "DATA": "input pipeline",
    "SYNC": "host-device synchronisation",
    "OBS": "observability cost",
    "MEM": "memory",
    "NUM": "numerics",
    "LOOP": "training-loop correctness",
    "PERF": "unused speed",
    "DIST": "distributed training",
    "CFG": "configs",
    "FAIL": "how a run died",
}
"""Topics of our own codes in reading order; a plugin's topic goes by its letters."""


def topic_words(code: str) -> str:
    """The topic of a code in words; the letters themselves for a plugin's."""
    letters = topic_of(code)
    return f"{letters} {_TOPICS.get(letters, '')}".strip()


_HEADING = re.compile(r"^([A-Z][A-Za-z' -]*):\s*$")


class ManualError(ValueError):
    """A docstring is no manual page; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualSection:
    """One section of a manual page."""

    heading: str
    """One of `HEADINGS`."""
    text: str
    """Its text without the indentation; paragraphs are separated by blank lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """A manual page."""

    title: str
    sections: tuple[ManualSection, ...]
    """Every section, in the order of `HEADINGS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualPage:
    """A check as a reader sees it: its manual and the facts from its class."""

    code: Code
    name: str
    topic: str
    title: str
    """The first line of the docstring, also when the rest of it is no manual."""
    manual: Manual | None
    """None when the docstring is not in the shape of a manual page (a plugin's)."""
    text: str
    """The docstring as it stands, for a page without a manual."""
    reads: tuple[Reads, ...]
    severity: Severity
    maturity: Maturity
    thresholds: tuple[Threshold, ...]
    track_record: str
    """How often its warnings from source alone were right on public code, and what follows; "" for nothing."""
    no_rule: str | None


def parse_manual(docstring: str) -> Manual:
    """The manual page in a docstring.

    Raises `ManualError` when the title or a heading is missing, unknown, empty, repeated or out of order.
    """
    title, body = _split_title(docstring)
    if not title:
        raise ManualError("the docstring has no first line that names the ailment")
    found: list[tuple[str, list[str]]] = []
    for line in body:
        match = _HEADING.match(line)
        if match:
            found.append((match[1], []))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise ManualError(f"text before the first heading: {line.strip()!r}")
    headings = [heading for heading, _ in found]
    if headings != list(HEADINGS):
        raise ManualError(f"the headings are {', '.join(headings)}; expected {', '.join(HEADINGS)}")
    sections = tuple(ManualSection(heading=heading, text=_dedented(lines)) for heading, lines in found)
    empty = [section.heading for section in sections if not section.text]
    if empty:
        raise ManualError(f"nothing under the heading {empty[0]!r}")
    return Manual(title=title, sections=sections)


def read_page(check: type[Check], language: str | None = None) -> ManualPage:
    """The page of a check class, whatever its docstring looks like.

    In a language (that of now unless one is given), where somebody has translated it.
    """
    text = inspect.cleandoc(page_text(check.code, language or current_language()) or check.__doc__ or "")
    try:
        manual = parse_manual(text)
    except ManualError:
        manual = None
    title = manual.title if manual else _split_title(text)[0]
    return ManualPage(
        code=check.code,
        name=check.name,
        topic=_TOPICS.get(topic_of(check.code), topic_of(check.code)),
        title=title or check.name.replace("-", " "),
        manual=manual,
        text=text,
        reads=tuple(kind for kind in Reads if kind in check.reads),
        severity=check.severity,
        maturity=check.maturity,
        thresholds=check.thresholds,
        track_record=record.text if (record := track_record(check)) != TrackRecord() else "",
        no_rule=check.no_rule,
    )


@lru_cache(maxsize=1024)
def named(check: type[Check]) -> Named:
    """A check as a report names it, in English; kept, since a watch makes a report every other second."""
    page = read_page(check, ENGLISH)
    return Named(code=page.code, name=page.name, title=page.title, help=help_markdown(page))


def for_reader(check: Named) -> Named:
    """A check of a report with its title and page in the language of now, if somebody translated it."""
    text = page_text(check.code, current_language())
    if text is None:
        return check
    try:
        manual = parse_manual(text)
    except ManualError:  # a plugin's: the page must come all the same
        return check
    return replace(check, title=manual.title, help=_sections(manual))


def help_markdown(page: ManualPage) -> str:
    """The sections of a page as Markdown, without the title."""
    if page.manual is None:
        return "\n".join(page.text.splitlines()[1:]).strip()
    return _sections(page.manual)


def _sections(manual: Manual) -> str:
    return "\n\n".join(f"**{word(section.heading)}**\n\n{section.text}" for section in manual.sections)


def topic_order(code: str) -> tuple[int, str]:
    """A key that sorts codes by topic in reading order, plugins' topics last."""
    letters = topic_of(code)
    known = list(_TOPICS)
    return (known.index(letters) if letters in known else len(known), code)


def _split_title(docstring: str) -> tuple[str, list[str]]:
    """The first paragraph on one line, and the lines after it."""
    lines = inspect.cleandoc(docstring).splitlines()
    end = next((index for index, line in enumerate(lines) if not line.strip()), len(lines))
    return " ".join(line.strip() for line in lines[:end]), lines[end:]


def _dedented(lines: list[str]) -> str:
    return inspect.cleandoc("\n" + "\n".join(lines)).strip()
