"""`gpudoctor report RECORDING`: a recorded run again, in any format, later, elsewhere."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.reporting import add_report_flags, check_output, deliver, request_of
from gpudoctor.cli.run_common import keep_shown, write_line
from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.lang import template
from gpudoctor.text import cut

if TYPE_CHECKING:
    from gpudoctor.model.signs.recording import Recording

EPILOG = template("""\
examples:
  gpudoctor report                                                    the last recording
  gpudoctor report run-20261121-081502-4711                           one of `gpudoctor recordings`
  gpudoctor report node0/ node1/ --format html --output run.html      several nodes of one run
  gpudoctor report proof.json      a report that --format json wrote, of `verify` or another command
  gpudoctor report dmesg.log       a saved kernel log: dmesg, journalctl -k, syslog, also .gz; its Xid events
exit codes: those of `gpudoctor check`.""")
_LONGEST = 80
"""Characters of a command that are shown."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `report`."""
    parser.usage = "gpudoctor report [options] [RECORDING ...]"
    parser.epilog = EPILOG
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="RECORDING",
        help="name or folder of a recording (default: the last one of this folder), several for the nodes of one "
        "run. Or a saved JSON report or kernel log.",
    )
    parser.add_argument(
        "--show-data", action="store_true", help="show the first batch in an HTML report, of a run with --show-data"
    )
    add_report_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, examine, report."""
    check_output(arguments)
    if not arguments.targets:
        arguments.targets = [_last(quiet=arguments.quiet)]
    from gpudoctor.engine.examination import examine
    from gpudoctor.vitals.build_recorded_patient import admit_recording

    request = request_of(arguments)
    fail_on = arguments.fail_on or request.settings.fail_on
    if len(arguments.targets) == 1 and arguments.targets[0].endswith(".json"):
        from gpudoctor.report.saved import read_report

        return deliver(read_report(arguments.targets[0]), arguments, fail_on)
    recording = read(arguments.targets)
    report = examine(admit_recording(recording, arguments.targets, request.registry.log_messages()), request)
    if report.run is not None and recording.origin == "gpudoctor":
        keep_shown(Path(recording.path), report.summary.verdict, report.run.steps)
    return deliver(report, arguments, fail_on)


def _last(*, quiet: bool) -> str:
    """The last recording of this folder, else of all, named on standard error. Raises `UsageError` without one."""
    from gpudoctor.cli.recordings import ago, short_command
    from gpudoctor.recorder.folder import state_folder
    from gpudoctor.recorder.kept_recordings import newest_recording

    newest = newest_recording()
    if newest is None:
        raise UsageError(
            "no recording is in {state_folder}; name one, or make one: gpudoctor run -- python train.py",
            state_folder=state_folder(),
        )
    if not quiet:
        command = cut(short_command(newest.command), _LONGEST)
        write_line(
            "gpudoctor: {name} ({ago}, in {folder}): {command}",
            name=newest.name,
            ago=ago(time.time() - newest.started),
            folder=newest.folder,
            command=command,
        )
    return str(newest.path)


def read(paths: list[str]) -> "Recording":
    """The recording of paths, or of names of `gpudoctor recordings`.

    Raises `UsageError` for what is none, `IncompleteError` for one that cannot be read.
    """
    from gpudoctor.model import Unavailable
    from gpudoctor.recorder.kept_recordings import recording_path
    from gpudoctor.vitals.recording.opening import open_recording

    try:
        return open_recording(*map(recording_path, paths))
    except Unavailable as reason:
        raise IncompleteError(str(reason)) from reason
