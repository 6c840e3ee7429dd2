"""The flags of the mend and the baseline, and what is done about them."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.output import look, tell, write_file
from gpudoctor.errors import UsageError

if TYPE_CHECKING:
    from collections import Counter

    from gpudoctor.engine.settings import Settings
    from gpudoctor.mend.plan import EditPlan
    from gpudoctor.model import Report


def add_mend_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of `check` that change files, or remember findings."""
    mend = parser.add_argument_group("edits")
    what = mend.add_mutually_exclusive_group()
    what.add_argument("--diff", action="store_true", help="print the safe edits as a unified diff")
    what.add_argument("--fix", action="store_true", help="apply the safe edits, then report what is left")
    mend.add_argument("--unsafe", action="store_true", help="also make edits that may change results")
    known = parser.add_argument_group("an old project")
    known.add_argument("--baseline", metavar="FILE", help="silence the findings that are in FILE")
    known.add_argument("--write-baseline", metavar="FILE", help="write the current findings to FILE, exit 0")


def check_mend_flags(arguments: argparse.Namespace) -> None:
    """Refuse combinations that have no meaning."""
    if arguments.unsafe and not (arguments.fix or arguments.diff):
        raise UsageError("--unsafe needs --fix or --diff; add one of them")
    if arguments.diff and arguments.format != "text":
        raise UsageError(
            "--diff prints a unified diff; the JSON report has each remedy's patch already, so remove --diff"
        )
    if (arguments.fix or arguments.diff) and not arguments.targets:
        raise UsageError("--fix and --diff edit scripts and configs; name one: gpudoctor check train.py --diff")
    if arguments.write_baseline and arguments.baseline:
        raise UsageError("--write-baseline saves every finding; remove --baseline")


def load_baseline(arguments: argparse.Namespace, settings: "Settings") -> "Counter[str]":
    """The baseline of the flag or of the settings; empty without either, or while one is written."""
    from collections import Counter

    from gpudoctor.engine.baseline import read_baseline

    if arguments.write_baseline:
        return Counter()
    if arguments.baseline:
        return read_baseline(Path(arguments.baseline))
    return read_baseline(settings.baseline) if settings.baseline else Counter()


def write_baseline(report: "Report", path: str) -> int:
    """Write the findings that stand; returns exit code 0."""
    from gpudoctor.engine.baseline import baseline_text

    findings = [item.finding for item in report.findings]
    write_file(Path(path), baseline_text(findings), flag="--write-baseline")
    tell("gpudoctor: {findings} findings written to {path}\n", findings=len(findings), path=path)
    return 0


def print_diff(report: "Report", arguments: argparse.Namespace, fail_on: str) -> int:
    """The diff on standard output (or --output), what is left on standard error; returns the exit code."""
    from gpudoctor.engine.exit_codes import exit_code

    plan = _plan(report, arguments)
    if arguments.output:
        write_file(Path(arguments.output), plan.diff)
    else:
        write_diff(plan.diff, colour=look(arguments)[1])
    tell_left(plan)
    return exit_code(report, fail_on, arguments.strict)


_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def write_diff(diff: str, *, colour: bool = False) -> None:
    """The diff on standard output; control characters of the files are shown as escapes, and a word says so."""
    from gpudoctor.report.printable import printable
    from gpudoctor.ui.console.canvas import painted
    from gpudoctor.ui.encoding import write_text

    for line in printable(diff).split("\n")[:-1]:
        style = _DIFF_STYLES.get(line[:1]) if colour else None
        write_text((painted(line, style) if style else line) + "\n", sys.stdout, rendered=True)
    if printable(diff) != diff:
        tell(
            "gpudoctor: these files contain control characters, shown as escapes, so this diff will not "
            "apply to them; --diff --output FILE and --fix write them as they are\n"
        )


def apply_fix(report: "Report", arguments: argparse.Namespace) -> bool:
    """Write the files; say on standard error what was changed and what is left. True when a file changed."""
    from gpudoctor.mend.write import write_plan

    plan = _plan(report, arguments)
    write_plan(plan.files)
    for item in plan.files:
        for applied in item.applied:
            place = f"{item.name}:{applied.line}" if applied.line else item.name
            tell(
                "gpudoctor: fixed {place}  {remedy}  {title}\n", place=place, remedy=applied.remedy, title=applied.title
            )
    if not plan.files:
        tell("gpudoctor: no edit can be made without your decision\n")
    tell_left(plan)
    return bool(plan.files)


def _plan(report: "Report", arguments: argparse.Namespace) -> "EditPlan":
    from gpudoctor.mend.plan import make_plan

    return make_plan(report.findings, unsafe=arguments.unsafe)


def tell_left(plan: "EditPlan") -> None:
    """Name on standard error what was not applied, and why."""

    for item in plan.left:
        tell("gpudoctor: left {path}  {remedy}: {reason}\n", path=item.path, remedy=item.remedy, reason=item.reason)
