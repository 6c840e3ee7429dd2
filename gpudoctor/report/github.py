"""Annotations of a GitHub workflow: a command a line, shown beside the code of a pull request."""

from gpudoctor.model import Crashed, Finding, Report, Setting, Severity
from gpudoctor.report.printable import one_line
from gpudoctor.report.units import facts_line, fix_title

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report) -> str:
    """A command for each finding, crash and problem, and the verdict as a notice."""
    lines = []
    for item in report.findings:
        finding = item.finding
        message = finding.message
        if item.remedies:
            best = item.remedies[0]
            message += f"\nfix: {fix_title(best)}\n{facts_line(best)}"
        place = _place(finding)
        title = f"{finding.code} {finding.name}"
        lines.append(command(_COMMANDS[finding.severity], message, {**place, "title": title}))
    for outcome in report.outcomes:
        if isinstance(outcome, Crashed):
            lines.append(command("warning", outcome.error, {"title": f"gpudoctor: {outcome.code} crashed"}))
    for problem in report.problems:
        lines.append(command("warning", problem, {"title": "gpudoctor: the examination is incomplete"}))
    lines.append(command("notice", report.summary.verdict, {"title": "gpudoctor"}))
    return "\n".join(lines) + "\n"


def command(name: str, message: str, properties: dict[str, str]) -> str:
    """A workflow command; the runner reads percent escapes in messages and more of them in properties."""
    given = ((key, _data(one_line(value)).replace(":", "%3A").replace(",", "%2C")) for key, value in properties.items())
    listed = ",".join(f"{key}={value}" for key, value in given)
    return f"::{name} {listed}::{_data(message)}"


def _place(finding: Finding) -> dict[str, str]:
    """The file and line of the first evidence that has one; GitHub wants forward slashes."""
    found = finding.place
    if found is None:
        return {}
    place = {"file": (found.path or "").replace("\\", "/")}
    if isinstance(found, Setting):
        return place if found.line is None else {**place, "line": str(found.line)}
    if found.end_line is not None and found.end_line > found.line:
        return {
            **place,
            "line": str(found.line),
            "endLine": str(found.end_line),
        }  # with several lines it refuses columns
    return {**place, "line": str(found.line), "col": str(found.column)}


def _data(text: str) -> str:
    """A message as the runner decodes it."""
    return text.strip().replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
