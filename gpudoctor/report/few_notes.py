"""A report with few notes of each file: what only its text says is counted where it is much."""

from collections import Counter
from dataclasses import replace

from gpudoctor.lang import say
from gpudoctor.model import Confidence, Report, Setting, Severity, SourceSpan
from gpudoctor.text import count

_MOST = 3
"""Notes of a file that are shown."""


def with_few_notes(report: Report) -> Report:
    """The report without the notes of a file that follow the first ones; a remark counts them."""
    shown, seen = [], Counter[str]()
    for item in report.findings:
        finding = item.finding
        places = (part.path for part in finding.evidence if isinstance(part, SourceSpan | Setting))
        path = next(places, None)
        if path and finding.severity is Severity.NOTE and finding.confidence is Confidence.SUSPECTED:
            seen[path] += 1
            if seen[path] > _MOST:
                continue
        shown.append(item)
    left = (
        say("{path}: and {notes}: --verbose or --json", path=path, notes=count(number - _MOST, "more note"))
        for path, number in seen.items()
        if number > _MOST
    )
    return replace(report, findings=tuple(shown), remarks=(*left, *report.remarks))
