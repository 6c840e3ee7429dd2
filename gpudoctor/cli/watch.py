"""`gpudoctor watch`: a live view of a training process that nobody prepared."""

import argparse
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from gpudoctor.cli.argument_parser import BadValue
from gpudoctor.cli.flag_types import positive, seconds
from gpudoctor.cli.output import tell
from gpudoctor.cli.reporting import add_report_flags, check_output, request_of
from gpudoctor.errors import UsageError
from gpudoctor.lang import template

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry
    from gpudoctor.model.watch import FoundJob
    from gpudoctor.watch.session import WatchSession

EPILOG = template("""\
examples:
  gpudoctor watch                            the training of this machine; a list where several run
  gpudoctor watch --find                     which processes train here
  gpudoctor watch 48213                      the live view; a torchrun agent leads to its ranks
  gpudoctor watch 48213 --once               sample for some seconds, then report
  gpudoctor watch 48213 --duration 60 --format json --fail-on warning
gpudoctor only reads the process: it never stops, signals or changes it.
exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage, 3 it cannot be watched.""")
INTERVAL, WINDOW = 1.0, 120.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `watch`."""
    parser.usage = "gpudoctor watch [options] [PID ...]"
    parser.epilog = EPILOG
    parser.add_argument(
        "targets", nargs="*", type=positive, metavar="PID", help="processes or launchers (default: the only training)"
    )
    parser.add_argument("--find", action="store_true", help="list the training processes of this machine")
    view = parser.add_argument_group("without the live view")
    view.add_argument("--once", action="store_true", help="sample for 8 s, print one report and exit")
    view.add_argument("--json", action="store_true", help="print a JSON report per tick, each on one line")
    view.add_argument("--duration", type=seconds, metavar="S", help="sample for S seconds, report and exit")
    looks = parser.add_argument_group("looks")
    looks.add_argument("--interval", type=seconds, default=INTERVAL, metavar="S", help="seconds per tick (default: 1)")
    looks.add_argument(
        "--window", type=seconds, default=WINDOW, metavar="S", help="seconds that findings cover (default: 120)"
    )
    files = parser.add_argument_group("files and metrics")
    files.add_argument("--prometheus", type=_port, metavar="PORT", help="serve metrics on 127.0.0.1:PORT")
    add_report_flags(parser, json=False)


def run(arguments: argparse.Namespace) -> int:
    """Find, or watch; the exit code is `gpudoctor.engine.exit_codes`'s."""
    check_output(arguments)
    if arguments.find:
        from gpudoctor.ui.encoding import write_text
        from gpudoctor.watch.find_jobs import find_jobs

        jobs = find_jobs()
        if arguments.json:
            import json
            from dataclasses import asdict

            write_text(json.dumps([asdict(job) for job in jobs]) + "\n", sys.stdout, rendered=True)
            return 0
        _show_jobs(jobs, arguments)
        return 0
    silent = bool(arguments.once or arguments.json or arguments.duration)
    if not silent and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the live view needs a terminal; without one use --once or --json")
    if not arguments.targets:
        found = _only_job(arguments)
        if found is None:
            return UsageError.exit_code
        arguments.targets = [found]
    with ExitStack() as stack:
        if not silent:
            from gpudoctor.cli.watch_screen import show

            return show(lambda: open_session(arguments, stack), arguments)
        from gpudoctor.cli.watch_stream import observe, stream

        session, _ = open_session(arguments, stack)
        return (stream if arguments.json else observe)(session, arguments)


def open_session(arguments: argparse.Namespace, stack: ExitStack) -> "tuple[WatchSession, Registry]":
    """Load the checks and attach; the stack closes it all. Raises `DoctorError`s with a sentence."""
    from dataclasses import replace

    from gpudoctor.model import Reads
    from gpudoctor.watch.session import WatchSession

    request = request_of(arguments)
    registry = request.registry
    arguments.fail_on = arguments.fail_on or request.settings.fail_on

    live = {code for code, check in registry.checks.items() if Reads.PROCESS in check.reads}
    request = replace(request, selection=replace(request.selection, selected=request.selection.selected & live))
    exporter = None
    if arguments.prometheus is not None:
        from gpudoctor.watch.exporter import Exporter

        exporter = Exporter(arguments.prometheus)
    session = WatchSession(tuple(dict.fromkeys(arguments.targets)), request, length=arguments.window, exporter=exporter)
    stack.callback(session.close)
    return session, registry


def _show_jobs(jobs: "list[FoundJob]", arguments: argparse.Namespace) -> None:
    from gpudoctor.cli.output import look
    from gpudoctor.ui.encoding import write_text
    from gpudoctor.ui.watch_text import render_jobs

    width, colour = look(arguments)
    text = render_jobs(jobs, width=width, colour=colour)
    write_text(text, sys.stdout, rendered=True)


def _only_job(arguments: argparse.Namespace) -> int | None:
    """The pid of the only training here; None where several were listed. Raises `UsageError` for none."""
    from gpudoctor.watch.find_jobs import find_jobs

    jobs = find_jobs()
    if not jobs:
        raise UsageError(
            "no process that you may read has loaded torch; name one: gpudoctor watch PID (sudo for those of others), "
            "or start the training with: gpudoctor run -- python train.py"
        )
    if len(jobs) == 1:
        if not arguments.quiet:
            tell(
                "gpudoctor: the only training here is pid {pid}: {command}\n", pid=jobs[0].pid, command=jobs[0].command
            )
        return jobs[0].pid
    _show_jobs(jobs, arguments)
    tell("gpudoctor: {jobs} trainings run on this machine; name one of them\n", jobs=len(jobs))
    return None


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 1 <= number <= 65535:
        raise BadValue("{text!r} is not a port (1 to 65535)", text=text)
    return number
