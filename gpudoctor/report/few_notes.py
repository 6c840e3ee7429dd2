"""A report with few notes of each file: what only its text says is counted where it is much."""

from collections import Counter
from dataclasses import replace

from gpudoctor.lang import say
from gpudoctor.model import Confidence, Report, Setting, Severity, SourceSpan
from gpudoctor.text import count

_MOST = 3
"""Notes of a file that are shown."""


def with_few_notes(report: Report) -> Report:
    """The report with the first note of each ailment in a file, at most three; a remark counts the rest."""
    shown, told, left = [], dict[str, set[str]](), Counter[str]()
    for item in report.findings:
        finding = item.finding
        places = (part.path for part in finding.evidence if isinstance(part, SourceSpan | Setting))
        path = next(places, None)
        if path and finding.severity is Severity.NOTE and finding.confidence is Confidence.SUSPECTED:
            codes = told.setdefault(path, set())
            if finding.code in codes or len(codes) == _MOST:
                left[path] += 1
                continue
            codes.add(finding.code)
        shown.append(item)
    more = (
        say("{path} has {notes} (--verbose or --json)", path=path, notes=count(number, "more note"))
        for path, number in left.items()
    )
    return replace(report, findings=tuple(shown), remarks=(*more, *report.remarks))
