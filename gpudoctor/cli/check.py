"""`gpudoctor check`: examine the machine, and scripts, configs and job scripts, without running them."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.flag_types import count, positive, seconds
from gpudoctor.cli.front_door import refuse_elsewhere
from gpudoctor.cli.mending import add_mend_flags, apply_fix, check_mend_flags, load_baseline, print_diff, write_baseline
from gpudoctor.cli.reporting import add_report_flags, check_output, deliver, request_of
from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.lang import template

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.engine.registry import Registry
    from gpudoctor.model import Patient, Report
    from gpudoctor.vitals.build_patient import PatientRequest
    from gpudoctor.vitals.targets import Targets

PROFILES = ("auto", "slurm", "k8s", "torchrun", "none")

EPILOG = template("""\
examples:
  gpudoctor check                          this machine
  gpudoctor check train.py ds_config.json  a script and its config
  gpudoctor check train.py -- --lr 3e-4    with its command-line arguments
  gpudoctor check job.sbatch || exit 1     a job script and what it launches
exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage, 3 examination incomplete.""")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `check`."""
    parser.usage = "gpudoctor check [options] [TARGET ...] [-- SCRIPT ARGUMENTS]"
    parser.epilog = EPILOG
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="scripts, notebooks, configs, job scripts, folders; logs and dumps of a dead job",
    )
    job = parser.add_argument_group("the job")
    job.add_argument("--profile", choices=PROFILES, default="auto", help="launcher (default: from the environment)")
    job.add_argument("--ranks", type=positive, metavar="N", help="training processes on this node")
    job.add_argument("--gpus", type=count, metavar="N", help="GPUs that the job expects on this node")
    job.add_argument(
        "--gpu", metavar="NAME|BYTES", help="GPU that the job will run on: H100, 24GiB (default: this machine's)"
    )
    job.add_argument("--python", metavar="PATH", help="interpreter or environment folder that the job will use")
    job.add_argument("--pid", type=positive, metavar="PID", help="read environment variables from this process")
    parser.add_argument(
        "--wait", type=seconds, default=None, metavar="SECONDS", help="seconds to wait for an unresponsive driver"
    )
    parser.add_argument(
        "--preview", action="store_true", help="also show suspicions of checks that are often wrong without a run"
    )
    add_mend_flags(parser)
    add_report_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Examine and report; the exit code is `gpudoctor.engine.exit_codes`'s."""
    check_output(arguments)
    check_mend_flags(arguments)
    from gpudoctor.vitals.build_patient import admit
    from gpudoctor.vitals.targets import sort_targets

    refuse_elsewhere(arguments.targets)
    request = request_of(arguments, Path(*arguments.targets[:1]), signs_first=True)
    settings = request.settings
    request = replace(
        request, baseline=load_baseline(arguments, settings), preview=arguments.preview or settings.preview
    )
    targets = sort_targets(arguments.targets)
    admission = _admission(arguments, targets, request.registry)
    patient = admit(admission)
    # Refuse a process or an environment that the user named and that cannot be read.
    from gpudoctor.model import Unavailable

    for flag, value, sign in (
        ("--pid", arguments.pid, patient.signs.environment),
        ("--python", arguments.python, patient.signs.packages),
    ):
        if value is not None:
            try:
                sign.take()
            except Unavailable as reason:
                raise IncompleteError("{flag} {value}: {reason}", flag=flag, value=value, reason=reason) from reason
    report = _examine(patient, request, arguments, targets)
    if arguments.write_baseline:
        return write_baseline(report, arguments.write_baseline)
    fail_on = arguments.fail_on or settings.fail_on
    if arguments.diff:
        return print_diff(report, arguments, fail_on)
    if arguments.fix and apply_fix(report, arguments):
        report = _examine(admit(admission), request, arguments, targets)
    return deliver(report, arguments, fail_on, preflight=_in_a_job(patient, arguments))


def _admission(arguments: argparse.Namespace, targets: "Targets", registry: "Registry") -> "PatientRequest":
    from gpudoctor.model.signs.job import Profile
    from gpudoctor.vitals.build_patient import DRIVER_LIMIT, PatientRequest

    if arguments.script_arguments and not targets.items:
        raise UsageError(
            "arguments after -- are for a script, but you named none; name it: gpudoctor check train.py -- --lr 3e-4"
        )
    return PatientRequest(
        targets=targets,
        arguments=arguments.script_arguments,
        profile=None if arguments.profile == "auto" else Profile(arguments.profile),
        python=arguments.python,
        pid=arguments.pid,
        ranks=arguments.ranks,
        gpus=arguments.gpus,
        gpu=_card(arguments.gpu),
        driver_limit=arguments.wait or DRIVER_LIMIT,
        log_messages=registry.log_messages(),
    )


def _examine(patient: "Patient", request: "Request", arguments: argparse.Namespace, targets: "Targets") -> "Report":
    from gpudoctor.engine.examination import examine
    from gpudoctor.ui.status_line import waiting

    with waiting(patient, quiet=arguments.quiet):
        return examine(patient, request, targets.problems)


def _in_a_job(patient: "Patient", arguments: argparse.Namespace) -> bool:
    """Whether a scheduler or launcher runs us: then the text is a paragraph for the log of the job."""
    from gpudoctor.model import ReaderCrashed, Unavailable
    from gpudoctor.model.signs.job import Profile
    from gpudoctor.vitals.job import detect_profile

    if arguments.profile == "none":
        return False
    try:
        return detect_profile(patient.environment.variables) is not Profile.NONE
    except (Unavailable, ReaderCrashed):
        return False


def _card(name: str | None) -> str | None:
    """The named card, once it is known to be one. Raises `UsageError`."""
    if name is not None:
        from gpudoctor.estimate import device

        device(name)
    return name
