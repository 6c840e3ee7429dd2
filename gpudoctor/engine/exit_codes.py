"""The exit code of a report: a contract with scripts (DESIGN 4.4)."""

from gpudoctor.model import Crashed, Report, Severity, Skipped

WELL = 0
FOUND = 1
USAGE = 2
INCOMPLETE = 3


def exit_code(report: Report, fail_on: str, strict: bool) -> int:
    """0 nothing at or above `fail_on`; 1 something is; 3 the examination is incomplete.

    Findings outrank gaps: a job that must not start must not start because a check crashed as well.
    """
    if fail_on != "never":
        floor = Severity(fail_on).rank
        if any(item.finding.severity.rank >= floor for item in report.findings):
            return FOUND
    return INCOMPLETE if incomplete(report, strict) else WELL


def incomplete(report: Report, strict: bool) -> bool:
    """Whether a check crashed or a target was not read; with `strict`, whether a sign was missing as well."""
    if report.problems or any(isinstance(item, Crashed) for item in report.outcomes):
        return True
    return strict and any(isinstance(item, Skipped) and not item.deselected for item in report.outcomes)
