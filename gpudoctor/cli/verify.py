"""`gpudoctor verify -- COMMAND`: trials of the remedies, in pairs of bounded runs; the proven ones first."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.flag_types import duration, positive
from gpudoctor.cli.reporting import add_report_flags, check_output, rendered, request_of, send
from gpudoctor.cli.run_common import FAILED, REPORT_SECONDS, add_command, command_of, keep_shown, write_line
from gpudoctor.cli.synthetic_flags import add_synthetic_flags
from gpudoctor.cli.time_limited import limited
from gpudoctor.errors import DoctorError
from gpudoctor.lang import say, template

if TYPE_CHECKING:
    from gpudoctor.cli.verify_session import VerifyResult
    from gpudoctor.engine.examination import Request
    from gpudoctor.trial.processes import CleanupWatchdog

EPILOG = template("""\
examples:
  gpudoctor verify -- python train.py
  gpudoctor verify --budget 5m --top 2 -- torchrun --nproc_per_node=2 train.py
  gpudoctor verify --remedy DATA001-workers --keep -- python train.py --epochs 1
  gpudoctor verify --against "python new.py" -- python old.py
  gpudoctor verify --vary num-workers=0,2,4 -- python train.py
  gpudoctor verify --vary ds.json:zero_optimization.stage=1,2 -- deepspeed train.py --deepspeed ds.json
  gpudoctor verify --find-batch -- python train.py
  gpudoctor verify --model 7b --method qlora --seq 2048 --batch 1
The command runs several times, bounded: the first run is shown, the others are silent. Your files are
protected.
With --model a training program is written for it (transformers, PEFT, bitsandbytes, DeepSpeed), with random
weights and tokens: estimated and measured memory, speed, and the same trials. Its report goes to standard
output. It needs the packages of the extra `train`: `pip install '.[train]'`
in a copy of gpudoctor's repository.
exit codes: those of the command's first run, 0 where it was ended once enough was seen; with --fail-on those of
`gpudoctor check`; of a synthetic job also 1 where it does not fit into this machine.""")
BUDGET = 600.0
INTERRUPTED = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `verify`."""
    parser.usage = "gpudoctor verify [options] -- COMMAND [ARGUMENTS]\n       gpudoctor verify --model MODEL [options]"
    parser.epilog = EPILOG
    add_command(parser)
    trial = parser.add_argument_group("the trials")
    trial.add_argument(
        "--budget", type=duration, default=BUDGET, metavar="TIME", help="time for all runs (default: 10m)"
    )
    trial.add_argument("--steps", type=positive, metavar="N", help="steps measured in each run (default: about 3 s)")
    trial.add_argument(
        "--remedy", action="append", default=[], metavar="ID", help="try only this remedy (DATA001-workers)"
    )
    trial.add_argument("--top", type=positive, metavar="K", help="try the remedies of the first K findings")
    trial.add_argument(
        "--against", metavar="CMD", help="compare with another command instead of trying remedies (one word, quoted)"
    )
    trial.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=V1,V2",
        help="values of an argument, an override (docs/verify.md) or a config's key (ds.json:a.b), each compared with "
        "the command as it is",
    )
    trial.add_argument(
        "--find-batch", nargs="?", const="", metavar="KEY",
        help="the largest batch that fits and the fastest; KEY is the argument that sets it (else the loader)",
    )  # fmt: skip
    trial.add_argument("--unsafe", action="store_true", help="also try what may change results")
    trial.add_argument("--keep", action="store_true", help="apply the proven edits")
    trial.add_argument("--diff", action="store_true", help="print the proven edits on standard output")
    trial.add_argument(
        "--recording", metavar="DIR", help="new folder for the first run's recording (default: as in `run`)"
    )
    add_report_flags(parser)
    add_synthetic_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Try, report; the exit code is the command's own unless --fail-on says otherwise."""
    from gpudoctor.cli.synthetic_flags import asked

    synthetic = asked(arguments)
    command = None if synthetic else command_of(arguments, "verify")
    check_output(arguments)
    from gpudoctor.cli.verify_session import check_trials

    check_trials(command, arguments)
    request = request_of(arguments, signs_first=True)
    result = _examine(command, request, arguments)
    # A command owns both streams; where we wrote the program standard output is ours, unless a patch goes there
    stream = sys.stdout if synthetic and not arguments.diff else sys.stderr
    fail_on = arguments.fail_on or request.settings.fail_on
    if result.report.run is not None:
        keep_shown(Path(result.report.run.recording), result.report.summary.verdict, result.report.run.steps)
    out = limited(lambda: rendered(result.report, arguments, fail_on, stream=stream), REPORT_SECONDS)
    found = send(out, arguments, stream)
    own = INTERRUPTED if result.interrupted else result.finished.exit_code or 0
    if arguments.fail_on is None:
        return own
    return found or (FAILED if own and arguments.fail_on != "never" else 0)


def _examine(command: tuple[str, ...] | None, request: "Request", arguments: argparse.Namespace) -> "VerifyResult":
    """The trials of the command, or of a synthetic job."""
    from gpudoctor.cli.verify_session import examine_and_try, named_arms
    from gpudoctor.recorder.folder import new_folder
    from gpudoctor.trial.protection import RunProtection

    if command is None:
        from gpudoctor.cli.verify_synthetic import examine_synthetic

        with _scratch() as (scratch, watchdog), _ending_by_signals():
            guard = RunProtection(scratch, project=False)
            return examine_synthetic(scratch, watchdog, guard, request, arguments)
    with _scratch() as (scratch, watchdog), _ending_by_signals():
        guard = RunProtection(scratch, command)
        folder, remark = new_folder(arguments.recording)
        write_line(remark)
        arms = named_arms(command, arguments)
        return examine_and_try(command, folder, scratch, watchdog, guard, request, arguments, arms=arms)


@contextmanager
def _scratch() -> "Iterator[tuple[Path, CleanupWatchdog]]":
    """A folder for everything that the runs write, gone afterwards, and who sees to it where we cannot."""
    from gpudoctor.trial.processes import CleanupWatchdog
    from gpudoctor.trial.scratch import remove_scratch, scratch_folder

    folder = scratch_folder()
    watchdog = CleanupWatchdog(folder)
    try:
        yield folder, watchdog
    finally:
        remove_scratch(folder)
        watchdog.dismiss()


@contextmanager
def _ending_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the trials as Ctrl-C does: what was started is ended first."""
    import signal

    def interrupt(number: int, _frame: object) -> None:
        raise Interrupted(number)

    before = {}
    with suppress(OSError, ValueError):
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupted(DoctorError):
    """A signal asked us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(say("ended by signal {number}", number=number))
        self.exit_code = 128 + number
