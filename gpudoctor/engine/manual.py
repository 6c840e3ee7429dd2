"""Manual pages: the docstring of a check class, and the facts that its attributes add."""

import inspect
import json
import pkgutil
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from textwrap import indent
from typing import Any, NamedTuple

from gpudoctor.engine.selection import topic_of
from gpudoctor.lang import ENGLISH, current_language, page_text, template, word
from gpudoctor.model import Check, Code, Maturity, Named, Reads, Severity, Threshold
from gpudoctor.model.check import TrackRecord, track_record
from gpudoctor.model.records import frozen

HEADINGS = ("What it finds", "Why it hurts", "How it knows", "False alarms", "Remedies", "References")
"""The headings of every page, in this order."""
_EXAMPLE = (template("Example"), template("Use instead"))
_SHOWN = (*HEADINGS[:-1], *_EXAMPLE, *HEADINGS[-1:])

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
    "TRAIN": "what is really trained",
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


_HEADING = re.compile(r"^([A-Z][A-Za-z' -]*):[ \t]*$", re.MULTILINE)


class ManualError(ValueError):
    """A docstring is no manual page; the text says what is missing."""


class Manual(NamedTuple):
    """The title of a page and its sections by heading, without indentation."""

    title: str
    sections: Mapping[str, str]


@frozen
class ManualPage:
    """A check as a reader sees it: its manual and the facts from its class."""

    code: Code
    name: str
    topic: str
    title: str
    """The first line of the docstring, also when the rest of it is no manual."""
    sections: Mapping[str, str]
    """Empty when the docstring is not in the shape of a manual page (a plugin's)."""
    text: str
    """The docstring as it stands, for such a page."""
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
    before, *parts = _HEADING.split("\n".join(body))
    headings, texts = parts[::2], parts[1::2]
    if not title or before.strip() or headings != list(HEADINGS):
        raise ManualError(f"the headings are {', '.join(headings)}; expected a title, then {', '.join(HEADINGS)}")
    sections = {heading: inspect.cleandoc(text).strip() for heading, text in zip(headings, texts, strict=True)}
    if empty := [heading for heading, text in sections.items() if not text]:
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
        manual = Manual(title=_split_title(text)[0], sections={})
    package = check.__module__.partition(".")[0]
    texts = dict(manual.sections)
    for heading, lines in zip(_EXAMPLE, _examples(package).get(check.code, ()), strict=False):
        texts[heading] = indent(lines, "    ")
    return ManualPage(
        code=check.code,
        name=check.name,
        topic=_TOPICS.get(topic_of(check.code), topic_of(check.code)),
        title=manual.title or check.name.replace("-", " "),
        sections={heading: texts[heading] for heading in _SHOWN if heading in texts},
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
    in_runs = check.reads == {Reads.RECORDING}
    return Named(code=page.code, name=page.name, title=page.title, help=help_markdown(page), in_runs=in_runs)


@cache
def _examples(package: str) -> Any:
    """Sick lines by code, and these after the edit of a remedy.

    `docs/generate.py` makes them from the scripts of the tests.
    A plugin's package may have some, too.
    """
    try:
        return json.loads(pkgutil.get_data(package, "examples.json") or "{}")
    except OSError:
        return {}


def help_markdown(page: ManualPage) -> str:
    """The sections of a page as Markdown, without the title."""
    if not page.sections:
        return "\n".join(page.text.splitlines()[1:]).strip()
    return "\n\n".join(f"**{word(heading)}**\n\n{text}" for heading, text in page.sections.items())


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
