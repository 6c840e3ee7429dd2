"""What the page shows of each finding: its lines in the source, the steps of a remedy."""

from collections.abc import Iterator
from urllib.parse import quote

from gpudoctor.model import Finding, Remedy, Report, SourceSpan
from gpudoctor.model.report import Excerpt
from gpudoctor.report.excerpts import excerpt_of
from gpudoctor.report.printable import one_line
from gpudoctor.report.units import fix_title, is_code

SourceBlock = tuple[str, list[tuple[int, str, str | None]]]
"""The file, and numbered lines; those that the finding names with a link into an editor, "" without one."""


def sources(report: Report, finding: Finding) -> Iterator[SourceBlock]:
    """The lines, with those around them and a link into an editor where the file is here as it was."""
    waiting: dict[str, list[Excerpt]] = {}
    for span in finding.evidence:
        if not isinstance(span, SourceSpan):
            continue
        if found := excerpt_of(report.excerpts, span.path, span.line):
            waiting.setdefault(found.path, []).append(found)
        else:
            yield span.path, [(span.line, span.text, "")]
    for path, group in waiting.items():
        numbered = {number: line for item in group for number, line in enumerate(item.lines, item.first)}
        links = {item.line: f"vscode://file{quote(item.absolute)}:{item.line}" for item in group}
        yield path, [(number, line, links.get(number)) for number, line in sorted(numbered.items())]


def remedy_steps(remedy: Remedy) -> list[str]:
    """The steps that the title does not say; the title itself where it is code to copy."""
    title = fix_title(remedy)
    steps = [step for step in map(one_line, remedy.steps) if step.rstrip(".") not in remedy.title]
    return [one_line(title), *steps] if is_code(title) and not remedy.patch else steps
