"""The exit code of a report: a contract with scripts (docs/design.md)."""

from dataclasses import replace

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Crashed, Report, Severity

WELL = 0
FOUND = 1
INCOMPLETE = 3


def exit_code(report: Report, fail_on: str, strict: bool) -> int:
    """0 nothing at or above `fail_on`; 1 something is; 3 the examination is incomplete.

    Findings outrank gaps: a job that must not start must not start because a check crashed as well.
    """
    if any(at_least(item.finding.severity, fail_on) for item in report.findings):
        return FOUND
    return INCOMPLETE if incomplete(report, strict) else WELL


def at_least(severity: Severity, fail_on: str) -> bool:
    """Whether a finding of this severity makes the exit code 1."""
    return fail_on != "never" and severity.rank >= Severity(fail_on).rank


def named_strictly(report: Report) -> Report:
    """The report of `--strict`: what was not seen of the named targets is a problem.

    What no target could have shown is none: a script has no log and no run.
    """
    if not report.summary.unexamined:
        return report
    sentence = say("--strict: {gaps}", gaps=concatenated("; ", report.summary.unexamined))
    return replace(report, problems=(*report.problems, sentence))


def incomplete(report: Report, strict: bool) -> bool:
    """Whether a check crashed or a target was not read; with `strict`, whether anything of it was not seen."""
    if report.problems or any(isinstance(item, Crashed) for item in report.outcomes):
        return True
    return strict and bool(report.summary.unexamined)
