"""`gpudoctor run -- COMMAND`: the job as it is, recorded; a diagnosis at the end."""

import argparse
import math
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.flag_types import positive, seconds
from gpudoctor.cli.reporting import Rendered, add_report_flags, check_output, rendered, request_of, send
from gpudoctor.cli.run_common import (
    FAILED,
    REPORT_SECONDS,
    add_command,
    command_of,
    examine_recorded,
    keep_shown,
    write_line,
)
from gpudoctor.cli.time_limited import ASKED, Expired, Fault, limited
from gpudoctor.errors import DoctorError
from gpudoctor.lang import say, template, term
from gpudoctor.lang.message import concatenated
from gpudoctor.text import duration, ranks

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.recorder.folder import CommandEnd
    from gpudoctor.recorder.live_ranks import Now, RankStanding
    from gpudoctor.vitals.output_files import OutputFiles

# Signals that ask for the end once the command has ended: they end the report, not its exit code.


class Interrupts:
    """A handler: notes the signal, and raises `KeyboardInterrupt` where that is allowed."""

    def __init__(self) -> None:
        self._noted = self._allowed = False
        self._before = {number: signal.getsignal(number) for number in ASKED}

    def __call__(self, _number: int, _frame: object) -> None:
        """Take a signal."""
        self._noted = True
        if self._allowed:
            self._allowed = False  # once: what it ends must not be ended in its turn
            raise KeyboardInterrupt

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """What the body does may be left; a signal that came before raises at once."""
        self._allowed = True
        try:
            if self._noted:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    def close(self, *, last: bool) -> None:
        """Give the signals back; where nothing follows but the exit, none may change its code any more."""
        for number, handler in self._before.items():
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_IGN if last else handler)


EPILOG = template("""\
examples:
  gpudoctor run -- python train.py --epochs 1
  gpudoctor run --steps 200 -- torchrun --nproc_per_node=4 train.py
  gpudoctor run --format json --output report.json -- accelerate launch train.py
The command's output, files, random numbers and signals are unchanged. The report goes to standard error.
After --steps or --seconds it gets SIGINT (as from Ctrl-C), 30 s later SIGTERM (--grace), 5 s later SIGKILL.
Your own Ctrl-C reaches it unchanged, and gpudoctor waits. The third Ctrl-C ends it within 5 s.
exit codes: the command's own (after --steps or --seconds often 130 or 1, as on Ctrl-C), 128+n
when signal n killed it, 127 when there is no such command; with --fail-on those of `gpudoctor check`, and 1
when the command failed by itself.""")
_HEARTBEAT = 10.0
"""Seconds without a step after which a rank writes where it is, unless --hang-after is shorter."""
_STILL = 10.0
"""Seconds without a sign of a rank after which the live line says so."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `run`."""
    parser.usage = "gpudoctor run [options] -- COMMAND [ARGUMENTS]"
    parser.epilog = EPILOG
    add_command(parser)
    run = parser.add_argument_group("the run")
    run.add_argument(
        "--steps", type=positive, metavar="N", help="stop after N steps, as Ctrl-C would (default: the whole run)"
    )
    run.add_argument("--seconds", type=seconds, metavar="S", help="stop after S seconds, as Ctrl-C would")
    run.add_argument(
        "--grace",
        type=seconds,
        metavar="S",
        help="send SIGTERM S seconds after the request to end, and SIGKILL 5 s later. The default is 30 after "
        "--steps and --seconds. After your own Ctrl-C gpudoctor waits without limit; the "
        "third one ends the command.",
    )
    run.add_argument(
        "--recording", metavar="DIR", help="new folder for the recording (default: one in ~/.local/state/gpudoctor)"
    )
    run.add_argument(
        "--hang-after", type=seconds, metavar="S", help="print where every rank is if no step ends for S seconds"
    )
    run.add_argument(
        "--allow-watch",
        action="store_true",
        help="let `gpudoctor watch` read the ranks under Yama; every process of yours can then",
    )
    run.add_argument(
        "--show-data",
        action="store_true",
        help="show the first batch in an HTML report: the recording then holds private data",
    )
    add_report_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run, record, report; the exit code is the command's own unless --fail-on says otherwise."""
    command = command_of(arguments, "run")
    check_output(arguments)
    from gpudoctor.recorder.folder import new_folder
    from gpudoctor.vitals.output_files import own_output

    request = request_of(arguments, signs_first=True)
    folder, remark = new_folder(arguments.recording)
    write_line(remark)
    output = own_output()
    interrupts = Interrupts()
    try:
        ending = _record(command, folder, arguments, interrupts)
        found = _reported(command, folder, request, arguments, interrupts, output)
        own = ending.exit_code or 0
        if arguments.fail_on is None or found is None:
            return own
        failed = own != 0 and ending.stopped_by is None and arguments.fail_on != "never"
        return found or (FAILED if failed else 0)
    finally:
        interrupts.close(last=arguments.alone)


def _reported(
    command: tuple[str, ...],
    folder: Path,
    request: "Request",
    arguments: argparse.Namespace,
    interrupts: Interrupts,
    output: "OutputFiles",
) -> int | None:
    """The report and what else was asked for, within its time; gives the examination's exit code.

    Whatever goes wrong here is told, and the command's exit code stands.
    """
    found: int | None = None
    try:
        with interrupts.allowed():
            out, verdict, steps = limited(lambda: _made(command, folder, request, arguments, output), REPORT_SECONDS)
            found = send(out, arguments, sys.stderr)
            keep_shown(folder, verdict, steps)
    except Expired as error:
        write_line("gpudoctor: {error}; make it with: gpudoctor report {folder}", error=error, folder=folder)
        found = error.exit_code
    except DoctorError as error:
        write_line("gpudoctor: {error}", error=error)
        found = error.exit_code
    except KeyboardInterrupt:
        write_line("gpudoctor: interrupted; make the report with: gpudoctor report {folder}", folder=folder)
    except (OSError, ValueError) as error:
        write_line(
            "gpudoctor: the report could not be written ({error}); make it with: gpudoctor report {folder}",
            error=error,
            folder=folder,
        )
    except Exception as error:  # noqa: BLE001  # a fault of our own is none of the training's
        write_line(
            "{error}\ngpudoctor: internal error (see above); no report was written. The command's "
            "exit code is unchanged. Recording: {folder}",
            error=str(error) if isinstance(error, Fault) else traceback.format_exc().rstrip(),
            folder=folder,
        )
    return found


def _made(
    command: tuple[str, ...], folder: Path, request: "Request", arguments: argparse.Namespace, output: "OutputFiles"
) -> tuple[Rendered, str, int]:
    """What goes out, the verdict and the steps; nothing is written, so that this can be ended at any time."""
    report = examine_recorded(command, folder, request, quiet=arguments.quiet, output=output)
    out = rendered(report, arguments, arguments.fail_on or request.settings.fail_on, stream=sys.stderr)
    return out, report.summary.verdict, report.run.steps if report.run is not None else 0


def _record(
    command: tuple[str, ...], folder: Path, arguments: argparse.Namespace, interrupts: Interrupts
) -> "CommandEnd":
    """How the command ended."""
    from gpudoctor.recorder.live_ranks import HangWatch
    from gpudoctor.recorder.run import RunPlan, record
    from gpudoctor.ui.status_line import StatusLine

    line = StatusLine(sys.stderr, shown=not arguments.quiet)
    after = arguments.hang_after
    hang = HangWatch(folder, after) if after else None
    told: dict[str, object] = {"hang_after": after, "heartbeat": min(after, _HEARTBEAT)} if after else {}
    told |= {"allow_watch": True} if arguments.allow_watch else {}
    told |= {"show_data": True} if arguments.show_data else {}
    plan = RunPlan(
        command=command,
        folder=folder,
        steps=arguments.steps,
        seconds=arguments.seconds,
        grace=arguments.grace,
        settings=told,
    )

    last: Now | None = None

    def tell(text: str) -> None:
        line.release()
        write_line(text)

    def observe(now: "Now", passed: float) -> None:
        nonlocal last
        last = now if now.ranks else last
        line.show(_status(now, last, passed))
        if hang is not None and (stands := hang.look(now, passed)) is not None:
            tell(hang_text(*stands).rstrip())

    try:
        return record(plan, observe, line.release, tell=tell, afterwards=interrupts)
    finally:
        line.close()


def _status(now: "Now", last: "Now | None", passed: float) -> str:
    """The live line: the ranks as they are, or as they were seen last where they have ended."""
    from gpudoctor.ui.status_line import status_text

    if not now.ranks and last is not None:
        return status_text(passed, step=last.step, ranks=len(last.ranks), ended=True)
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


def hang_text(still: float, standings: Sequence["RankStanding"]) -> str:
    """The words for a run that stands still."""
    lines = [
        say(
            "gpudoctor: no step has ended for {still}; the command is still running.",
            still=duration(float(round(still))),
        )
    ]
    for item in standings:
        phase = term(item.phase.replace("_", " ")) if item.phase else ""
        at = concatenated(", ", filter(None, (phase, item.place)))
        place = say(", in {place}", place=at) if at else ""
        lines.append(say("  {who}: {step:,} steps done{at}", who=ranks(item.ranks), step=item.step, at=place))
    return "\n".join(lines) + "\n"
