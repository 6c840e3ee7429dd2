"""`gpudoctor watch`: a live view of a training process that nobody prepared."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.reporting import add_report_flags, check_output, choose_checks, deliver, load_settings
from gpudoctor.cli.values import positive, seconds
from gpudoctor.errors import UsageError

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.engine.registry import Registry
    from gpudoctor.engine.settings import Settings
    from gpudoctor.model.watch import Tick
    from gpudoctor.watch.session import Session

EPILOG = """\
examples:
  gpudoctor watch --find                     which processes train here
  gpudoctor watch 48213                      the live view; a torchrun agent leads to its ranks
  gpudoctor watch 48213 --once               look for some seconds, then a report
  gpudoctor watch 48213 --duration 60 --format json --fail-on warning
  gpudoctor watch 48213 --plain              a line a tick, for a log
The process is only looked at: never stopped, never signalled, never changed.
exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage, 3 it cannot be watched."""
ONCE_SECONDS = 8.0
"""How long `--once` looks: enough samples for a verdict."""
INTERVAL = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `watch`."""
    parser.usage = "gpudoctor watch [options] PID [PID ...]"
    parser.epilog = EPILOG
    parser.add_argument("targets", nargs="*", type=positive, metavar="PID", help="processes or launchers")
    parser.add_argument("--find", action="store_true", help="list the training processes of this machine")
    view = parser.add_argument_group("without the screen")
    view.add_argument("--once", action="store_true", help="look for 8 s, print one report and end")
    view.add_argument("--plain", action="store_true", help="a line of text a tick")
    view.add_argument("--json", action="store_true", help="a JSON report a tick, each on one line")
    view.add_argument("--duration", type=seconds, metavar="S", help="look for S seconds, then report and end")
    looks = parser.add_argument_group("looks")
    looks.add_argument(
        "--interval", type=seconds, default=INTERVAL, metavar="S", help="seconds a tick (default: 1)"
    )
    looks.add_argument(
        "--window",
        type=seconds,
        default=120.0,
        metavar="S",
        help="seconds that findings look back (default: 120)",
    )
    add_report_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Find, or watch; the exit code is DESIGN 4.4's."""
    check_output(arguments)
    if arguments.find:
        return _find(arguments)
    _check_view(arguments)
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.watch.session import Session

    registry = load_registry()
    settings = load_settings(arguments, registry, Path())
    request = _request(arguments, registry, settings)
    fail_on = arguments.fail_on or settings.fail_on
    session = Session(tuple(dict.fromkeys(arguments.targets)), request, length=arguments.window)
    try:
        if arguments.plain or arguments.json:
            return _stream(session, arguments, fail_on)
        return deliver(_observe(session, arguments).report, arguments, fail_on)
    finally:
        session.close()


def _check_view(arguments: argparse.Namespace) -> None:
    if not arguments.targets:
        raise UsageError("no process was named; see which ones train: gpudoctor watch --find")
    if arguments.plain and arguments.json:
        raise UsageError("--plain and --json exclude each other")
    silent = arguments.once or arguments.plain or arguments.json or arguments.duration
    if not silent and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the live view needs a terminal; without one use --once, --plain or --json")


def _request(arguments: argparse.Namespace, registry: "Registry", settings: "Settings") -> "Request":
    """The checks that read a live process, of those that the user selects."""
    from dataclasses import replace

    from gpudoctor.engine.examination import Request
    from gpudoctor.model import Reads

    selection = choose_checks(arguments, registry, settings)
    live = {code for code, check in registry.checks.items() if Reads.PROCESS in check.reads}
    return Request(
        registry=registry,
        selection=replace(selection, selected=selection.selected & live),
        settings=settings,
    )


def _observe(session: "Session", arguments: argparse.Namespace) -> "Tick":
    """Look for the whole duration; the last tick, examined."""
    from gpudoctor.ui.status_line import StatusLine

    end = time.monotonic() + (arguments.duration or ONCE_SECONDS)
    line = StatusLine(sys.stderr, shown=not arguments.quiet)
    try:
        while True:
            tick = session.tick()
            left = end - time.monotonic()
            if left <= 0 or tick.window.ended:
                return session.tick(judge=True)
            line.show(f"watching: {tick.window.samples} samples, {left:.0f} s to go")
            time.sleep(max(0.0, min(arguments.interval, left)))
    finally:
        line.close()


def _stream(session: "Session", arguments: argparse.Namespace, fail_on: str) -> int:
    """A line a tick until the end of the job, of the duration, or Ctrl-C."""
    from gpudoctor.engine.exit_codes import exit_code
    from gpudoctor.report.json import render_line
    from gpudoctor.ui.encoding import write_text
    from gpudoctor.ui.watch_line import plain_line

    limit = arguments.duration or (ONCE_SECONDS if arguments.once else None)
    end = None if limit is None else time.monotonic() + limit
    before = ""
    while True:
        tick = session.tick(judge=bool(arguments.json))
        text = render_line(tick.report) if arguments.json else plain_line(tick, before) + "\n"
        before = tick.report.summary.verdict
        write_text(text, sys.stdout)
        left = None if end is None else end - time.monotonic()
        if tick.window.ended or (left is not None and left <= 0):
            return exit_code(tick.report, fail_on, arguments.strict)
        try:
            time.sleep(arguments.interval if left is None else max(0.0, min(arguments.interval, left)))
        except KeyboardInterrupt:
            return exit_code(tick.report, fail_on, arguments.strict)


def _find(arguments: argparse.Namespace) -> int:
    from gpudoctor.cli.terminal import PIPE_WIDTH, terminal_width, wants_colour
    from gpudoctor.ui.encoding import write_text
    from gpudoctor.ui.found_jobs import render_jobs
    from gpudoctor.watch.finding import find_jobs

    jobs = find_jobs()
    if arguments.json:
        import json
        from dataclasses import asdict

        write_text(json.dumps([asdict(job) for job in jobs]) + "\n", sys.stdout)
        return 0
    terminal = sys.stdout.isatty()
    width = terminal_width() if terminal else PIPE_WIDTH
    write_text(render_jobs(jobs, width=width, colour=wants_colour(arguments.color, terminal)), sys.stdout)
    return 0
