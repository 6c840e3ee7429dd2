"""`gpudoctor run -- COMMAND`: the job as it is, recorded; a diagnosis at the end."""

import argparse
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.reporting import add_report_flags, check_output, choose_checks, deliver, load_settings
from gpudoctor.cli.values import positive, seconds
from gpudoctor.errors import DoctorError, UsageError

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.model import Report
    from gpudoctor.recorder.folder import Ending
    from gpudoctor.recorder.watch import Now

EPILOG = """\
examples:
  gpudoctor run -- python train.py --epochs 1
  gpudoctor run --steps 200 -- torchrun --nproc_per_node=4 train.py
  gpudoctor run --format json --output report.json -- accelerate launch train.py
The command keeps its output, its files, its random numbers and its signals; the report comes on standard error.
exit codes: the command's own, 128+n when signal n killed it, 127 when there is no such command; with --fail-on
those of `gpudoctor check`, and 1 when the command failed."""
FAILED = 1
_STILL = 10.0
"""Seconds without a sign of a rank after which the live line says so."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `run`."""
    parser.usage = "gpudoctor run [options] -- COMMAND [ARGUMENTS]"
    parser.epilog = EPILOG
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="what starts the training")
    run = parser.add_argument_group("the run")
    run.add_argument(
        "--steps",
        type=positive,
        metavar="N",
        help="stop after N steps, as Ctrl-C would (default: the whole run)",
    )
    run.add_argument("--seconds", type=seconds, metavar="S", help="stop after S seconds, as Ctrl-C would")
    run.add_argument(
        "--recording",
        metavar="DIR",
        help="new folder for the recording (default: one in ~/.local/state/gpudoctor)",
    )
    run.add_argument(
        "--hang-after",
        type=seconds,
        metavar="S",
        help="note where every rank is once no step ends for S seconds",
    )
    add_report_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run, record, report; the exit code is the command's own unless --fail-on says otherwise."""
    command = _command(arguments)
    check_output(arguments)
    from gpudoctor.engine.examination import Request
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.recorder.folder import new_folder

    registry = load_registry()
    settings = load_settings(arguments, registry, Path())
    request = Request(
        registry=registry,
        selection=choose_checks(arguments, registry, settings),
        settings=settings,
        signs_first=("gpu_survey", "kernel_log", "packages", "torch", "host"),
    )
    folder, remark = new_folder(arguments.recording)
    _say(remark)
    ending = _record(command, folder, arguments)
    found: int | None = None
    try:
        report = _examine(command, folder, request, arguments)
        found = deliver(report, arguments, arguments.fail_on or settings.fail_on, stream=sys.stderr)
    except DoctorError as error:
        _say(f"gpudoctor: {error}")
        found = error.exit_code
    except KeyboardInterrupt:
        _say(f"gpudoctor: interrupted; the report later: gpudoctor report {folder}")
    except (OSError, ValueError) as error:
        _say(f"gpudoctor: the report could not be written ({error}); later: gpudoctor report {folder}")
    return _exit_code(arguments, ending, found)


def _command(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The command's words, with or without a `--` before them."""
    rest = arguments.script_arguments
    words = (*arguments.words, "--", *rest) if arguments.words and rest else (*arguments.words, *rest)
    if not words:
        raise UsageError("no command was given; put it after --: gpudoctor run -- python train.py")
    if words[0].startswith("-"):
        raise UsageError(f"{words[0]} is no flag of run (see `gpudoctor run --help`)")
    return tuple(words)


def _record(command: tuple[str, ...], folder: Path, arguments: argparse.Namespace) -> "Ending":
    from gpudoctor.recorder.run import Plan, record
    from gpudoctor.ui.status_line import StatusLine

    line = StatusLine(sys.stderr, shown=not arguments.quiet)
    plan = Plan(
        command=command,
        folder=folder,
        steps=arguments.steps,
        seconds=arguments.seconds,
        settings={"hang_after": arguments.hang_after} if arguments.hang_after else {},
    )
    try:
        return record(plan, lambda now, passed: line.show(_status(now, passed)))
    finally:
        line.close()


def _status(now: "Now", passed: float) -> str:
    from gpudoctor.ui.status_line import status_text

    slowest = now.slowest
    quiet = min((rank.age for rank in now.ranks), default=0.0)
    return status_text(
        passed,
        step=now.step,
        step_seconds=slowest.seconds if slowest else math.nan,
        phases=slowest.phases if slowest else {},
        ranks=len(now.ranks),
        still=quiet if quiet > _STILL else 0.0,
    )


def _examine(
    command: tuple[str, ...], folder: Path, request: "Request", arguments: argparse.Namespace
) -> "Report":
    from gpudoctor.engine.examination import examine
    from gpudoctor.ui.live import waiting
    from gpudoctor.vitals.admit import Admission, admit
    from gpudoctor.vitals.targets import Targets

    patient = admit(Admission(targets=Targets(items=()), command=command, recording=(str(folder),)))
    with waiting(patient, quiet=arguments.quiet):
        return examine(patient, request)


def _exit_code(arguments: argparse.Namespace, ending: "Ending", found: int | None) -> int:
    own = ending.exit_code or 0
    if arguments.fail_on is None or found is None:
        return own
    failed = own != 0 and ending.stopped_by is None and arguments.fail_on != "never"
    return found or (FAILED if failed else 0)


def _say(text: str) -> None:
    if text:
        with suppress(OSError, ValueError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
