"""The report as one paragraph for the log of a job that is about to start."""

from gpudoctor.model import Crashed, Ranked, Report, Severity
from gpudoctor.report.strings import presentable
from gpudoctor.text import count
from gpudoctor.ui.console.canvas import Canvas


def render_preflight(report: Report, *, width: int, floor: str = "error") -> str:
    """The verdict and what stands against the job: a line each, no blank lines, no colour.

    Only what stops the job (`floor`, the severity of --fail-on; errors for "never"): a job that may start needs
    no advice in its log. What could not be examined is said as well.
    """
    shown = presentable(report)
    lowest = (Severity.ERROR if floor == "never" else Severity(floor)).rank
    canvas = Canvas(width, colour=False)
    canvas.paragraph(f"gpudoctor: {shown.summary.verdict}{_passes(shown)}", hang=2)
    for item in shown.findings:
        if item.finding.severity.rank >= lowest:
            canvas.paragraph_raw(_line(item), hang=2)
    for outcome in shown.outcomes:
        if isinstance(outcome, Crashed):
            canvas.paragraph(f"incomplete: {outcome.code} crashed: {outcome.error}", hang=2)
    for problem in shown.problems:
        canvas.paragraph(f"incomplete: {problem}", hang=2)
    return canvas.text()


def _line(item: Ranked) -> str:
    finding = item.finding
    span = finding.span
    place = f"{span.path}:{span.line} " if span else ""
    message = " ".join(finding.message.split()).rstrip(".")
    remedy = f": {' '.join(item.remedies[0].title.split())}" if item.remedies else ""
    return f"{finding.code}  {place}{message}{remedy}"


def _passes(report: Report) -> str:
    """How many checks passed, where the verdict does not say it."""
    return "" if "passed" in report.summary.verdict else f" {count(report.summary.passed, 'check')} passed."
