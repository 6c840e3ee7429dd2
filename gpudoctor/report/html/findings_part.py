"""What the page shows of each finding: its lines in the source, the steps of a remedy, its manual page."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from gpudoctor.engine.manual import for_reader
from gpudoctor.lang import rendered
from gpudoctor.lang.wrapping import unfolded
from gpudoctor.model import Evidence, Finding, Measurement, Named, Remedy, Report, SourceSpan
from gpudoctor.model.report import Excerpt
from gpudoctor.report.excerpts import excerpt_of
from gpudoctor.report.printable import one_line
from gpudoctor.report.units import evidence_place, fix_title, is_code

if TYPE_CHECKING:
    from markupsafe import Markup

SourceBlock = tuple[str, list[tuple[str, str]], list[tuple[int, str, bool]]]
"""Where it is; or links into an editor with their words; and numbered lines, those that the finding names marked."""


def sources(report: Report, finding: Finding) -> Iterator[SourceBlock]:
    """The lines, with those around them and a link into an editor where the file is here as it was."""
    waiting: dict[str, list[Excerpt]] = {}
    for span in finding.evidence:
        if not isinstance(span, SourceSpan):
            continue
        if found := excerpt_of(report.excerpts, span.path, span.line):
            waiting.setdefault(found.path, []).append(found)
        else:
            yield evidence_place(span), [], [(span.line, span.text, True)]
    for excerpts in waiting.values():
        yield from map(_block, _neighbours(excerpts))


def _neighbours(found: list[Excerpt]) -> list[list[Excerpt]]:
    """Excerpts of one file, those together that touch each other."""
    groups: list[list[Excerpt]] = []
    end = 0
    for item in sorted(found, key=lambda each: each.first):
        if groups and item.first <= end + 1:
            groups[-1].append(item)
        else:
            groups.append([item])
        end = max(end, item.first + len(item.lines) - 1)
    return groups


def _block(group: list[Excerpt]) -> SourceBlock:
    numbered = {number: line for item in group for number, line in enumerate(item.lines, item.first)}
    cited = sorted({item.line for item in group})
    links = [
        (f"vscode://file{quote(group[0].absolute)}:{line}", str(line) if place else f"{group[0].path}:{line}")
        for place, line in enumerate(cited)
    ]
    return "", links, [(number, line, number in cited) for number, line in sorted(numbered.items())]


def other_evidence(finding: Finding) -> list[Evidence]:
    """Evidence that is neither a line of the source nor a number."""
    return [item for item in finding.evidence if not isinstance(item, SourceSpan | Measurement)]


def is_measured(evidence: Evidence) -> bool:
    """Whether it is a number; the others are lines of the source, of a log, of a config."""
    return isinstance(evidence, Measurement)


def remedy_steps(remedy: Remedy) -> list[str]:
    """The steps that the title does not say; the title itself where it is code to copy."""
    title = fix_title(remedy)
    steps = [step for step in map(one_line, remedy.steps) if step.rstrip(".") not in remedy.title]
    return [one_line(title), *steps] if is_code(title) and not remedy.patch else steps


def manual_of(report: Report, code: str) -> list[Named]:
    """The check of this code, in the reader's language; none without a manual page."""
    named = next((check for check in report.checks if check.code == code), None)
    return [for_reader(named)] if named is not None and named.help.strip() else []


_ADDRESS = re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;:)]")
_BOLD = re.compile(r"\*\*[^*]+\*\*")
"""A line that is bold as a whole: the head of a section."""
_ITEM = ("- ", "* ")


def manual_blocks(markdown: str) -> Iterator[tuple[str, str | list[str]]]:
    """The Markdown of manual pages: `h4`, `p`, `code` with its text, `list` with its items."""
    for block in re.split(r"\n\s*\n", markdown.strip("\n")):
        lines = block.split("\n") if block.strip() else []
        if lines and (lines[0].startswith("#") or _BOLD.fullmatch(lines[0])):
            yield "h4", lines.pop(0).strip("#* ")
        if lines and all(line.startswith(("    ", "\t", "```")) for line in lines):
            yield "code", "\n".join(line.removeprefix("    ") for line in lines if not line.startswith("```"))
            continue
        # a list may follow a paragraph without an empty line
        first = next((at for at, line in enumerate(lines) if line.lstrip().startswith(_ITEM)), len(lines))
        if lines[:first]:
            yield "p", unfolded(map(str.strip, lines[:first]))
        items: list[str] = []
        for line in map(str.strip, lines[first:]):
            if line.startswith(_ITEM):
                items.append(line.lstrip("-* "))
            else:  # it goes on with the item before it
                items[-1] = unfolded((items[-1], line))
        if items:
            yield "list", items


def inline(words: str) -> "Markup":
    """Text with its code and its addresses marked."""
    from markupsafe import Markup, escape

    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(one_line(rendered(words.replace("\\", ""))))))
    return Markup(_ADDRESS.sub(lambda match: f'<a href="{match[0]}">{match[0]}</a>', escaped))
