"""`gpudoctor watch` without the screen: a report after some seconds, or a line a tick."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpudoctor.cli.reporting import deliver
from gpudoctor.errors import IncompleteError
from gpudoctor.lang import rendered, tr
from gpudoctor.text import duration

if TYPE_CHECKING:
    from gpudoctor.model import Report
    from gpudoctor.model.watch import Tick
    from gpudoctor.watch.tick_source import TickSource

ONCE_SECONDS = 8.0
"""How long `--once` looks: enough samples for a verdict."""


def observe(source: "TickSource", arguments: argparse.Namespace) -> int:
    """Look for the whole duration, then one report."""
    from gpudoctor.ui.status_line import StatusLine

    end = time.monotonic() + (arguments.duration or ONCE_SECONDS)
    line = StatusLine(sys.stderr, shown=not arguments.quiet)
    try:
        last = _last(source, arguments, line.show, end)
    finally:
        line.close()
    return deliver(last.report, arguments, arguments.fail_on)


def _last(source: "TickSource", arguments: argparse.Namespace, show: Callable[[str], None], end: float) -> "Tick":
    """The last tick of the time or of the tape, examined."""
    last: Tick | None = None
    while True:
        tick = source.tick()
        if tick is None:
            break
        last = tick
        left = end - time.monotonic()
        if not arguments.replay and (left <= 0 or tick.window.ended):
            last = source.tick(last=True) or last
            break
        show(
            tr(
                "watching: {samples} samples, {value} to go",
                samples=tick.window.samples,
                value=duration(max(0, round(left))),
            )
        )
        if not arguments.replay:
            time.sleep(max(0.0, min(arguments.interval, left)))
    if last is None:
        raise IncompleteError("{replay}: the recording has no tick", replay=arguments.replay)
    return last


def stream(source: "TickSource", arguments: argparse.Namespace) -> int:
    """A line a tick until the end of the job, of the duration, of the tape, or Ctrl-C."""
    from gpudoctor.engine.exit_codes import exit_code
    from gpudoctor.report.json import render_line
    from gpudoctor.report.printable import one_line, printable
    from gpudoctor.ui.encoding import write_text
    from gpudoctor.ui.watch_text import plain_line

    limit = arguments.duration or (ONCE_SECONDS if arguments.once else None)
    end = None if limit is None else time.monotonic() + limit
    before, code = "", 0
    while True:
        last = end is not None and time.monotonic() >= end
        tick = source.tick(judge=bool(arguments.json), last=last)
        if tick is None:
            return code
        text = render_line(_shared(tick, arguments)) if arguments.json else plain_line(tick, before) + "\n"
        before = one_line(printable(rendered(tick.report.summary.verdict)))
        code = exit_code(tick.report, arguments.fail_on, arguments.strict)
        write_text(text, sys.stdout, rendered=bool(arguments.json))
        if last or (tick.window.ended and not arguments.replay):
            return code
        left = None if end is None else end - time.monotonic()
        try:
            pause = 0.0 if arguments.replay else arguments.interval
            time.sleep(pause if left is None else max(0.0, min(pause, left)))
        except KeyboardInterrupt:
            return code


def _shared(tick: "Tick", arguments: argparse.Namespace) -> "Report":
    if not arguments.share:
        return tick.report
    from gpudoctor.report.sharing import shareable

    return shareable(tick.report)
