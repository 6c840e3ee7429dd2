"""Lines of the user's files around the places that a report names, for formats that can show them.

Of a run they are those that ran. Another file that changed since is not quoted: the line must still read as the
finding has it.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from gpudoctor.model import Report, SourceSpan
from gpudoctor.model.external_files import read_text
from gpudoctor.model.read_limits import SCRIPT
from gpudoctor.model.report import Excerpt

_BEFORE, _AFTER = 2, 2
_PLACES = 60
"""Places that are looked up, at most."""


def with_excerpts(report: Report) -> Report:
    """The report with the lines around its findings and of its costly lines, where they can be read."""
    files: dict[str, list[str] | None] = {path: text.split("\n") for path, text in report.scripts.items()}
    found: dict[tuple[str, int], Excerpt] = {}
    spans = [
        (item.path, item.line, item.text, _BEFORE, _AFTER)
        for ranked in report.findings
        for item in ranked.finding.evidence
        if isinstance(item, SourceSpan)
    ]
    costly = [(line.path, line.line, "", 0, 0) for line in report.run.lines] if report.run is not None else []
    for path, line, text, before, after in [*spans, *costly][:_PLACES]:
        if (path, line) in found:
            continue
        lines = files.setdefault(path, _lines(path)) if path not in files else files[path]
        if lines is None or not 0 < line <= len(lines):
            continue
        unlike = lines[line - 1].strip() != text.strip() if text.strip() else report.run and path not in report.scripts
        if unlike:
            continue
        first = max(1, line - before)
        found[(path, line)] = Excerpt(
            path=path,
            line=line,
            absolute=os.path.abspath(path),
            first=first,
            lines=tuple(lines[first - 1 : line + after]),
        )
    return replace(report, excerpts=tuple(found.values()))


def _lines(path: str) -> list[str] | None:
    """The file's lines; None where it cannot be read."""
    with suppress(OSError, ValueError):
        return read_text(path, SCRIPT, "replace").split("\n")
    return None


def excerpt_of(excerpts: Iterable[Excerpt], path: str, line: int) -> Excerpt | None:
    """The excerpt of a place; None without one."""
    return next((item for item in excerpts if item.path == path and item.line == line), None)
