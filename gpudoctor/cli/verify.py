"""`gpudoctor verify -- COMMAND`: trials of the remedies, in pairs of bounded runs; the proven ones first."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.commanded import FAILED, add_command, command_of, examine_recorded, request_of, say
from gpudoctor.cli.reporting import add_report_flags, check_output, deliver
from gpudoctor.cli.values import duration, positive
from gpudoctor.errors import DoctorError, UsageError

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.model import Report
    from gpudoctor.model.proof import TrialSummary
    from gpudoctor.trial.bounded import Finished
    from gpudoctor.trial.session import Session

EPILOG = """\
examples:
  gpudoctor verify -- python train.py
  gpudoctor verify --budget 5m --top 2 -- torchrun --nproc_per_node=2 train.py
  gpudoctor verify --remedy DATA001-workers --keep -- python train.py --epochs 1
The command runs several times, bounded, once shown and then silently; what it writes is kept from your files.
exit codes: those of the command's first run, 0 where it was ended once enough was seen; with --fail-on those of
`gpudoctor check`."""
BUDGET = 600.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `verify`."""
    parser.usage = "gpudoctor verify [options] -- COMMAND [ARGUMENTS]"
    parser.epilog = EPILOG
    add_command(parser)
    trial = parser.add_argument_group("the trials")
    trial.add_argument(
        "--budget", type=duration, default=BUDGET, metavar="TIME", help="time for everything (default: 10m)"
    )
    trial.add_argument(
        "--steps", type=positive, metavar="N", help="steps measured in every run (default: about 3 s of them)"
    )
    trial.add_argument(
        "--remedy", action="append", default=[], metavar="ID", help="try only this remedy (DATA001-workers)"
    )
    trial.add_argument("--top", type=positive, metavar="K", help="try the remedies of the first K findings")
    trial.add_argument("--unsafe", action="store_true", help="also what may change results")
    trial.add_argument("--keep", action="store_true", help="apply the edits that are proven")
    trial.add_argument("--diff", action="store_true", help="print the edits that are proven on standard output")
    trial.add_argument(
        "--recording", metavar="DIR", help="new folder for the first run's recording (default: as in `run`)"
    )
    add_report_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Try, report; the exit code is the command's own unless --fail-on says otherwise."""
    command = command_of(arguments, "verify")
    check_output(arguments)
    from gpudoctor.recorder.folder import new_folder

    request = request_of(arguments)
    folder, remark = new_folder(arguments.recording)
    say(remark)
    with _scratch() as scratch, _ending_by_signals():
        report, finished = _examine_and_try(command, folder, scratch, request, arguments)
    found = deliver(report, arguments, arguments.fail_on or request.settings.fail_on, stream=sys.stderr)
    own = finished.exit_code or 0
    if arguments.fail_on is None:
        return own
    return found or (FAILED if own and arguments.fail_on != "never" else 0)


def _examine_and_try(
    command: tuple[str, ...], folder: Path, scratch: Path, request: "Request", arguments: argparse.Namespace
) -> "tuple[Report, Finished]":
    from gpudoctor.trial.bench import Bench
    from gpudoctor.trial.processes import adopt_orphans
    from gpudoctor.trial.protection import Guard
    from gpudoctor.trial.session import Session
    from gpudoctor.ui.status_line import StatusLine
    from gpudoctor.vitals.recording import read_recording

    adopt_orphans()
    line = StatusLine(sys.stderr, shown=not arguments.quiet)
    guard = Guard(scratch)
    bench = Bench(command, scratch, guard.protect)
    session = Session(
        bench=bench,
        budget=arguments.budget,
        unsafe=arguments.unsafe,
        named=tuple(arguments.remedy),
        top=arguments.top,
        window_steps=arguments.steps,
    )
    bench.watch = lambda arm, _passed: line.show(_status(session, arm))
    try:
        finished = bench.explore(
            folder, enough=session.enough, to_stderr=arguments.diff, seconds=arguments.budget
        )
        report = examine_recorded(command, folder, request, quiet=arguments.quiet)
        _check_names(report, arguments.remedy)
        recording = read_recording(str(folder))
        if finished.failed or not session.choose_window(recording, finished.stopped_by is None):
            return report, finished
        session.run(report.findings)
    finally:
        line.close()
    trial = replace(session.summary(), protection=guard.words, kept_out=guard.kept_out)
    trial = _patched(trial, session, folder, arguments)
    from gpudoctor.trial.verdict import proven_report

    return proven_report(report, session, trial), finished


def _check_names(report: "Report", named: list[str]) -> None:
    known = {remedy.id for item in report.findings for remedy in item.remedies}
    for name in named:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise UsageError(f"--remedy {name}: no finding of this run has it; there are: {listed}")


def _patched(
    trial: "TrialSummary", session: "Session", folder: Path, arguments: argparse.Namespace
) -> "TrialSummary":
    """The patch in a file beside the recording; applied or printed where that was asked for."""
    from gpudoctor.mend.write import write_plan
    from gpudoctor.trial.candidates import plan_of

    if not trial.patch:
        return trial
    path = folder / "proof.diff"
    with suppress(OSError):
        path.write_text(trial.patch, encoding="utf-8")
        trial = replace(trial, patch_path=str(path))
    if arguments.diff:
        from gpudoctor.ui.encoding import write_text

        write_text(trial.patch, sys.stdout)
    if arguments.keep:
        trial = replace(trial, kept=tuple(write_plan(plan_of(session.worth_keeping).files)))
    return trial


def _status(session: "Session", arm: str) -> str:
    from gpudoctor.report.units import seconds_text

    left = seconds_text(float(round(session.left)))
    pairs = len(session.current.pairs) if session.current else 0
    words = f"pair {pairs + 1}" if session.current else "the command as it is"
    return " · ".join(["gpudoctor", session.doing or arm, words, f"at most {left} left"])


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for everything that the runs write; gone afterwards."""
    from gpudoctor.trial.protection import remove_scratch, scratch_folder

    folder = scratch_folder()
    try:
        yield folder
    finally:
        remove_scratch(folder)


@contextmanager
def _ending_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the trials as Ctrl-C does: what was started is ended first."""
    import signal

    def interrupt(number: int, _frame: object) -> None:
        raise Interrupted(number)

    before = {}
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            with suppress(OSError, ValueError):
                before[getattr(signal, name)] = signal.signal(getattr(signal, name), interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupted(DoctorError):
    """A signal asked us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}; nothing of yours was changed")
        self.exit_code = 128 + number
