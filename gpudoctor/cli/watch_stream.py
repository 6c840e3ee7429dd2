"""`gpudoctor watch` without the screen: a report after some seconds, or a line a tick."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from gpudoctor.cli.reporting import deliver
from gpudoctor.lang import tr
from gpudoctor.text import duration

if TYPE_CHECKING:
    from gpudoctor.watch.session import WatchSession

ONCE_SECONDS = 8.0
"""How long `--once` looks: enough samples for a verdict."""


def observe(session: "WatchSession", arguments: argparse.Namespace) -> int:
    """Look for the whole duration, then one report."""
    from gpudoctor.ui.status_line import StatusLine

    end = time.monotonic() + (arguments.duration or ONCE_SECONDS)
    line = StatusLine(sys.stderr, shown=not arguments.quiet)
    try:
        while True:
            tick = session.tick()
            left = end - time.monotonic()
            if left <= 0 or tick.window.ended:
                break
            line.show(
                tr(
                    "watching: {samples} samples, {value} to go",
                    samples=tick.window.samples,
                    value=duration(max(0, round(left))),
                )
            )
            time.sleep(max(0.0, min(arguments.interval, left)))
        last = session.tick(judge=True)
    finally:
        line.close()
    return deliver(last.report, arguments, arguments.fail_on)


def stream(session: "WatchSession", arguments: argparse.Namespace) -> int:
    """A JSON report a tick until the end of the job, of the duration, or Ctrl-C."""
    from gpudoctor.engine.exit_codes import exit_code
    from gpudoctor.report.json import render_line
    from gpudoctor.report.sharing import shareable
    from gpudoctor.ui.encoding import write_text

    limit = arguments.duration or (ONCE_SECONDS if arguments.once else float("inf"))
    end = time.monotonic() + limit
    while True:
        last = time.monotonic() >= end
        tick = session.tick(judge=True)
        report = shareable(tick.report) if arguments.share else tick.report
        write_text(render_line(report), sys.stdout, rendered=True)
        code = exit_code(tick.report, arguments.fail_on, arguments.strict)
        if last or tick.window.ended:
            return code
        try:
            time.sleep(max(0.0, min(arguments.interval, end - time.monotonic())))
        except KeyboardInterrupt:
            return code
