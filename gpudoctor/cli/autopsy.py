"""`gpudoctor autopsy FILE...`: the first cause of a death, from the logs that a job left behind."""

import argparse
import sys

from gpudoctor.cli.reporting import add_report_flags, check_output, deliver, request_of
from gpudoctor.errors import UsageError
from gpudoctor.lang import template

EPILOG = template("""\
examples:
  gpudoctor autopsy slurm-4711.out                 the first cause of a job's death
  gpudoctor autopsy logs/ --verbose                a folder of logs, one a rank; prints the time line
  gpudoctor autopsy job.out train.py ds.json       ties the cause to lines of the script and the config
  gpudoctor autopsy job.out nccl_trace_rank_*      with the dumps of torch's flight recorder
  gpudoctor autopsy job.out dmesg.txt              with the kernel's log of the node
  gpudoctor autopsy job.out sacct.txt              and sacct, kubectl, py-spy
  kubectl logs pod/train-0 | gpudoctor autopsy -   standard input
  gpudoctor autopsy job.out.gz --format json       roles and time line for programs
reads text, also packed by gzip, xz or zstd. Nothing is sent anywhere, and nothing of it is run.
exit codes: those of `gpudoctor check`; 1 if the job died.""")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `autopsy`."""
    parser.usage = "gpudoctor autopsy [options] FILE ... [-]"
    parser.epilog = EPILOG
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="FILE",
        help="logs, folders or patterns of logs, - for standard input; also the job's scripts and configs",
    )
    add_report_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, find the first cause, report."""
    check_output(arguments)
    if not arguments.targets:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("no log was named; try: gpudoctor autopsy slurm-4711.out")
        arguments.targets = ["-"]
    from gpudoctor.engine.examination import examine
    from gpudoctor.vitals.build_log_patient import admit_log, sort_left_behind
    from gpudoctor.vitals.file_kinds import LEFT, FileKind

    request = request_of(arguments)
    found = sort_left_behind(arguments.targets)
    if not any(map(found.of, (FileKind.LOG, *LEFT))):
        raise UsageError("{name}: not a log; name the job's output: slurm-4711.out", name=arguments.targets[0])
    patient = admit_log(found, request.registry.log_messages())
    report = examine(patient, request, found.problems)
    return deliver(report, arguments, arguments.fail_on or request.settings.fail_on)
