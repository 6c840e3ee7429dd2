"""`gpudoctor report RECORDING`: a recorded run again, in any format, later, elsewhere."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.reporting import add_report_flags, check_output, choose_checks, deliver, load_settings
from gpudoctor.cli.run_hooks import add_tensorboard_flag, write_events
from gpudoctor.errors import IncompleteError

if TYPE_CHECKING:
    from gpudoctor.model.signs.recording import Recording

EPILOG = """\
examples:
  gpudoctor report ~/.local/state/gpudoctor/recordings/run-20261121-081502-4711
  gpudoctor report node0/ node1/ --format html --output run.html      several nodes of one run
  gpudoctor report run.zip --verbose                                  mailed by a colleague
  gpudoctor report rank0.pt.trace.json.gz                             a trace of the profiler, also .pftrace
  gpudoctor report smi.csv         a log of nvidia-smi --query-gpu=timestamp,... --format=csv -l 1
  gpudoctor report q.txt           a saved nvidia-smi -q, or -q -x: the state of the machine that wrote it
  gpudoctor report dmesg.log       a saved kernel log: dmesg, journalctl -k, syslog, also .gz; its Xid events
  gpudoctor report mem.pickle      a memory snapshot of PyTorch (_dump_snapshot): which lines hold the memory
exit codes: those of `gpudoctor check`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `report`."""
    parser.usage = "gpudoctor report [options] RECORDING ..."
    parser.epilog = EPILOG
    parser.add_argument(
        "targets",
        nargs="+",
        metavar="RECORDING",
        help="folder or zip file of a recording, several for the nodes of one run. Or a profiler trace, "
        "nvidia-smi log, saved kernel log or memory snapshot.",
    )
    add_tensorboard_flag(parser)
    add_report_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, examine, report."""
    check_output(arguments)
    from gpudoctor.engine.examination import Request, examine
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.vitals.build_recorded_patient import admit_recording

    registry = load_registry()
    settings = load_settings(arguments, registry, Path())
    request = Request(
        registry=registry, selection=choose_checks(arguments, registry, settings), settings=settings
    )
    recording = read(arguments.targets)
    report = examine(admit_recording(recording, arguments.targets), request)
    if arguments.tensorboard is not None:
        from gpudoctor.report.tensorboard import event_file

        write_events(arguments.tensorboard, report.subject.host, event_file(recording))
    return deliver(report, arguments, arguments.fail_on or settings.fail_on)


def read(paths: list[str]) -> "Recording":
    """The recording; raises `UsageError` for what is none, `IncompleteError` for one that cannot be read."""
    from gpudoctor.model import Unavailable
    from gpudoctor.vitals.recording import open_recording

    try:
        return open_recording(*paths)
    except Unavailable as reason:
        raise IncompleteError(str(reason)) from reason
