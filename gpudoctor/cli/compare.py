"""`gpudoctor compare A B`: two recordings side by side, and an exit code for CI."""

import argparse
from typing import TYPE_CHECKING

from gpudoctor.cli.argument_parser import BadValue
from gpudoctor.cli.output import add_color_flag, add_format_flags, deliver_text, look, tell
from gpudoctor.cli.report import read
from gpudoctor.cli.reporting import check_output
from gpudoctor.errors import UsageError
from gpudoctor.lang import template

if TYPE_CHECKING:
    from gpudoctor.model import Report
    from gpudoctor.model.comparison import Comparison
    from gpudoctor.model.signs.recording import Recording

FORMATS = ("text", "json", "markdown")
BEYOND = 1
UNKNOWN = 3

EPILOG = template("""\
examples:
  gpudoctor compare before/ after/
  gpudoctor compare baseline/ run/ --max-regression 5%         in CI: exit code 1 if it got slower
The time compared is that of a step, or of a sample where the batches differ in size.
exit codes: 0; 1 slower by more than --max-regression, and not by chance; 2 wrong usage; 3 a recording cannot be
read or, with --max-regression, compared.""")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `compare`."""
    parser.epilog = EPILOG
    parser.add_argument("before", metavar="A", help="recording of the first run: its folder")
    parser.add_argument("after", metavar="B", help="recording of the second run")
    parser.add_argument(
        "--max-regression",
        type=_share,
        metavar="SHARE",
        help="exit code 1 if it is slower by more than this: 5%% or 0.05",
    )
    add_format_flags(
        parser, FORMATS, template("write the comparison to FILE, the verdict to stderr (-: standard output)")
    )
    add_color_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read both, compare, print."""
    check_output(arguments)
    from gpudoctor.engine.comparison import compare

    recordings = read([arguments.before]), read([arguments.after])
    for recording in recordings:
        if recording.kernel_log is not None:
            raise UsageError(
                "{path}: a {origin} has no run to compare; use `gpudoctor report`",
                path=recording.path,
                origin=recording.origin,
            )
    reports = tuple(_examined(item) for item in recordings)
    result = compare(*recordings, (reports[0], reports[1]))
    deliver_text(_render(result, arguments), arguments)
    if arguments.output is not None:
        tell("gpudoctor: {verdict} Comparison: {output}\n", verdict=result.verdict, output=arguments.output)
    most = arguments.max_regression
    if most is None:
        return 0
    return UNKNOWN if result.time is None else BEYOND if result.beyond(most) else 0


def _examined(recording: "Recording") -> "Report":
    from gpudoctor.engine.examination import Request, examine
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.engine.selection import make_selection
    from gpudoctor.vitals.build_recorded_patient import admit_recording

    registry = load_registry()
    request = Request(registry=registry, selection=make_selection(registry, [], []))
    return examine(admit_recording(recording, (recording.path,)), request)


def _render(result: "Comparison", arguments: argparse.Namespace) -> str:
    if arguments.format == "json":
        from gpudoctor.report.comparison import comparison_json

        return comparison_json(result, arguments.max_regression)
    if arguments.format == "markdown":
        from gpudoctor.report.markdown import render_comparison as render_comment

        return render_comment(result)
    from gpudoctor.ui.console.run_text import render_comparison

    width, colour = look(arguments)
    return render_comparison(result, width=width, colour=colour)


def _share(text: str) -> float:
    """`5%` or `0.05`."""
    word = text.strip()
    try:
        number = float(word.removesuffix("%")) / (100.0 if word.endswith("%") else 1.0)
    except ValueError:
        raise BadValue("{text!r} is not a share; give 5% or 0.05", text=text) from None
    if not 0 <= number < 100 or (not word.endswith("%") and number > 1):
        raise BadValue("{text} is not a share; give 5% or 0.05", text=text)
    return number
