"""`gpudoctor apply REPORT.json`: write the edits of a saved JSON report, without another run."""

import argparse
import os
from typing import TYPE_CHECKING

from gpudoctor.cli.output import tell
from gpudoctor.errors import UsageError
from gpudoctor.lang import template

if TYPE_CHECKING:
    from gpudoctor.model import Remedy, Report

EPILOG = template("""\
examples:
  gpudoctor verify --format json --output proof.json -- python train.py
  gpudoctor apply proof.json                       the edits that the trials have proven
  gpudoctor apply proof.json --diff                print them, write nothing
  gpudoctor check train.py --format json --output report.json
  gpudoctor apply report.json --remedy DATA001-workers
Start it in the folder where the report was made. A line that has changed since then is left as it is.
exit codes: 0, 2 wrong usage, 3 an edit does not fit its file any more (the others are written).""")
LEFT = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `apply`."""
    parser.usage = "gpudoctor apply [options] REPORT.json"
    parser.epilog = EPILOG
    parser.add_argument("report", metavar="REPORT.json", help="a report written with --format json")
    parser.add_argument(
        "--remedy",
        action="append",
        default=[],
        metavar="ID",
        help="apply this remedy (DATA001-workers); repeat it for several. Default: what a trial has proven.",
    )
    parser.add_argument("--diff", action="store_true", help="print the edits as a unified diff, write nothing")


def run(arguments: argparse.Namespace) -> int:
    """Read the report, choose, write or print."""
    from gpudoctor.cli.mending import tell_left, write_diff
    from gpudoctor.mend.plan import plan_remedies
    from gpudoctor.mend.write import write_plan
    from gpudoctor.report.saved import read_report

    chosen = _chosen(read_report(arguments.report), arguments.remedy, arguments.report)
    paths = dict.fromkeys(edit.path for remedy in chosen for edit in remedy.edits)
    if gone := [path for path in paths if not os.path.isfile(path)]:
        raise UsageError(
            "no such file: {gone}; start apply in the folder where the report was made", gone=", ".join(gone)
        )
    plan = plan_remedies(chosen)
    if arguments.diff:
        write_diff(plan.diff)
    else:
        write_plan(plan.files)

        for item in plan.files:
            for applied in item.applied:
                tell(
                    "gpudoctor: applied {remedy} to {name}  {title}\n",
                    remedy=applied.remedy,
                    name=item.name,
                    title=applied.title,
                )
        if not plan.files:
            tell("gpudoctor: no file was changed\n")
    tell_left(plan)
    return LEFT if plan.left else 0


def _chosen(saved: "Report", named: list[str], report: str) -> "list[Remedy]":
    """The named remedies, else the proven ones. Raises `UsageError` where there is none."""
    remedies = {remedy.id: remedy for item in saved.findings for remedy in item.remedies}
    known = {name: remedy for name, remedy in remedies.items() if remedy.edits}
    for name in named:
        if name in remedies and name not in known:
            raise UsageError(
                "--remedy {name}: it has no edit; a person must do it (its steps are in the report)", name=name
            )
        if name not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(
                "--remedy {name}: the report has no such remedy with an edit; there are: {listed}",
                name=name,
                listed=listed,
            )
    if named:
        return [known[name] for name in dict.fromkeys(named)]
    trial = saved.trial
    if trial is None:
        example = next(iter(known), "ID")
        raise UsageError(
            "{report} has no trial, so nothing is proven; name what to apply: gpudoctor apply "
            "{report} --remedy {example}",
            report=report,
            example=example,
        )
    # Rows whose edits belong to the trial's patch, as `verify --keep` writes them.
    rows = trial.rows if trial.patch else ()
    proven = [row.name for row in rows if row.conclusion.value in ("proven", "cured") and row.name in known]
    if not proven:
        raise UsageError(
            "the trials of {report} have proven no edit; name one with --remedy to apply it anyway", report=report
        )
    return [known[name] for name in dict.fromkeys(proven)]
