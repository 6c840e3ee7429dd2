"""One status line with performance data, and the 0/1/2/3 of the monitoring world."""

from gpudoctor.model import Crashed, Report, Severity
from gpudoctor.report.printable import one_line

OK, WARNING, CRITICAL, UNKNOWN = range(4)
_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_LONGEST_LINE = 400
"""Characters of a line: monitoring systems cut what is longer, some without telling."""


def exit_code(report: Report) -> int:
    """0 healthy, 1 warnings, 2 errors, 3 nothing found but what health requires was not seen.

    What was found outranks what could not be examined: an alarm must not turn into "unknown".
    """
    if report.summary.error:
        return CRITICAL
    if report.summary.warning:
        return WARNING
    return UNKNOWN if report.summary.crashed or report.summary.unexamined or report.problems else OK


def render(report: Report) -> str:
    """The status line, then a line for each error, warning, crash and problem."""
    summary = report.summary
    state = _WORDS[exit_code(report)]
    lines = [f"GPUDOCTOR {state} - {_plain(summary.verdict)} | {_performance(report)}"]
    for item in report.findings:
        finding = item.finding
        if finding.severity is not Severity.NOTE:
            lines.append(_plain(f"{finding.severity.value} {finding.code} {finding.name}: {finding.message}"))
    lines += [_plain(f"crashed {item.code}: {item.error}") for item in report.outcomes if isinstance(item, Crashed)]
    lines += [_plain(f"incomplete: {problem}") for problem in report.problems]
    return "\n".join(lines) + "\n"


def _performance(report: Report) -> str:
    """`label=value;warn;crit;min`: a value over the limit raises that state."""
    summary = report.summary
    return (
        f"errors={summary.error};;0;0 warnings={summary.warning};0;;0 notes={summary.note};;;0 "
        f"passed={summary.passed};;;0 skipped={summary.skipped};;;0 crashed={summary.crashed};;;0"
    )


def _plain(text: str) -> str:
    """One line without the bar that would start performance data."""
    line = one_line(text).replace("|", "/")
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 3] + "..."
