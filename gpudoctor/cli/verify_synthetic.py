"""`gpudoctor verify --model ...`: a job without data, written, measured beside its estimate, tried like any."""

import argparse
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.cli.run_common import write_line
from gpudoctor.cli.synthetic_flags import here, plan_of
from gpudoctor.cli.verify_session import examine_and_try
from gpudoctor.errors import UsageError
from gpudoctor.lang import say

if TYPE_CHECKING:
    from gpudoctor.cli.verify_session import VerifyResult
    from gpudoctor.engine.examination import Request
    from gpudoctor.estimate.synthetic.feasibility import Synthetic
    from gpudoctor.estimate.synthetic.write_program import WrittenProgram
    from gpudoctor.trial.processes import CleanupWatchdog
    from gpudoctor.trial.protection import RunProtection
    from gpudoctor.trial.trial_runner import Arm

_SILENT_TOPIC, _RANDOM_DATA = "DATA", say("its data are random tokens")
"""The topic that says nothing of a synthetic job, and why; other checks say so themselves."""


def _variant(
    arguments: argparse.Namespace, plan: "Synthetic", fields: Mapping[str, Any], folder: Path, number: int
) -> "tuple[str, Arm]":
    """Title and arm of the same job with other fields. Raises `DoctorError` where that cannot run here."""
    from gpudoctor.report.estimate_words import flags_text
    from gpudoctor.trial.trial_runner import Arm

    made = _written(plan_of(arguments, plan.place, fields), folder, name=f"variant-{number}")
    title = flags_text(fields)
    return title, Arm(name=title, command=made.command)


def examine_synthetic(
    scratch: Path,
    watchdog: "CleanupWatchdog",
    guard: "RunProtection",
    request: "Request",
    arguments: argparse.Namespace,
) -> "VerifyResult":
    """Write the job, measure it, try it. What can be refused is, before anything runs."""
    from gpudoctor.cli.synthetic_summary import summary_of
    from gpudoctor.estimate.synthetic.write_program import ask
    from gpudoctor.recorder.folder import new_folder
    from gpudoctor.ui.status_line import StatusLine

    if arguments.keep:
        raise UsageError("--keep edits your files, and a synthetic job uses none of them; print the edits with --diff")
    changes = _changes(arguments)
    began = time.monotonic()
    line = StatusLine(sys.stderr, shown=not arguments.quiet)
    try:
        line.show("gpudoctor · the job: what it is, and whether it fits")
        plan = plan_of(arguments, here())
        line.show("gpudoctor · the job: how the installed transformers builds it")
        facts = ask(plan)
        arms = [
            change if isinstance(change, tuple) else _variant(arguments, plan, change, scratch, number)
            for number, change in enumerate(changes, 1)
        ]
    finally:
        line.close()
    folder, remark = new_folder(arguments.recording)
    write_line(remark)
    written = _written(plan, folder, facts)
    with _surrounded():
        silenced = _silenced(request)
        result = examine_and_try(
            written.command, folder, scratch, watchdog, guard, silenced, arguments, arms=arms, began=began
        )
    # The report with the job's own section, and its utilisation in the run's numbers.
    run = result.report.run
    summary = summary_of(plan, written.path, run)
    if run is not None and summary.mfu is not None:
        run = replace(run, throughput=replace(run.throughput, mfu=summary.mfu))
    return replace(result, report=replace(result.report, synthetic=summary, run=run))


def _written(plan: "Synthetic", folder: Path, facts: dict[str, Any] | None = None, name: str = "") -> "WrittenProgram":
    from gpudoctor.cli.synthetic_summary import title_of
    from gpudoctor.estimate.synthetic.write_program import ask, write

    origin = shlex.join(["gpudoctor", *sys.argv[1:]]) if sys.argv[1:2] == ["verify"] else "gpudoctor verify --model"
    return write(plan, facts or ask(plan), folder, title=title_of(plan), origin=origin, name=name)


def _silenced(request: "Request") -> "Request":
    """The request with what says nothing of a synthetic job silenced: counted, and shown with its reason."""
    from gpudoctor.engine.selection import resolve

    reasons = dict.fromkeys(resolve(_SILENT_TOPIC, request.registry, "synthetic"), _RANDOM_DATA)
    for code, check in request.registry.checks.items():
        if check.silent_on_synthetic is not None:
            reasons.setdefault(code, check.silent_on_synthetic)
    mute: dict[Any, str | None] = {
        code: say("a synthetic job: {reason}", reason=reason) for code, reason in reasons.items()
    }
    selection = replace(request.selection, ignored={**mute, **request.selection.ignored})
    return replace(request, selection=selection)


@contextmanager
def _surrounded() -> Iterator[None]:
    """The environment of the runs; what the user has set stays."""
    from gpudoctor.estimate.synthetic.write_program import QUIET

    added = {name: value for name, value in QUIET.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _changes(arguments: argparse.Namespace) -> "list[tuple[str, Arm] | Mapping[str, Any]]":
    """What `--against` and `--vary KEY=V1,V2` ask for: titles and arms, or fields of the job. Raises `UsageError`."""
    from gpudoctor.cli.estimate_flags import split_values, value_of
    from gpudoctor.estimate.job import FIELDS
    from gpudoctor.trial.vary import against, varied

    if arguments.against is not None:
        return [against(arguments.against)]
    changes: list[tuple[str, Arm] | Mapping[str, Any]] = []
    for text in arguments.vary:
        key = text.partition("=")[0].strip().removeprefix("--").replace("-", "_")
        if key in FIELDS:
            changes += [{key: value_of(key, value)} for value in split_values(text)[1]]
        else:
            changes += varied(text, (sys.executable, "job.py"))
    return changes
