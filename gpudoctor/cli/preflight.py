"""`gpudoctor preflight`: measure nodes, cards, links and the network before the job does."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.flag_types import count, duration, positive
from gpudoctor.cli.output import write_file
from gpudoctor.cli.reporting import add_report_flags, check_output, deliver, request_of
from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template

if TYPE_CHECKING:
    from gpudoctor.model import Patient
    from gpudoctor.model.signs.preflight import Preflight

EPILOG = template("""\
examples:
  gpudoctor preflight                                       this machine
  srun gpudoctor preflight --quick                          every node of a Slurm job
  torchrun --nnodes 4 --nproc-per-node 1 ... -m gpudoctor preflight
  gpudoctor preflight --rank 1 --world 4 --head node0       a bare list of hosts, one command each
  srun gpudoctor preflight --storage /data/run7 --burn 10m  storage and lasting load as well
  srun gpudoctor preflight --exclude-to bad.txt || sbatch --exclude=$(cat bad.txt) job.sbatch
rank 0 prints the report; every rank ends with its exit code.
exit codes: 0 well, 1 findings or a node to leave out, 2 wrong usage or ranks that contradict each other,
3 if a part was not measured.""")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `preflight`."""
    parser.usage = "gpudoctor preflight [options]"
    parser.epilog = EPILOG
    how = parser.add_argument_group("how much")
    mode = how.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="mode", action="store_const", const="quick", help="about 20 seconds, 40 at most")
    mode.add_argument(
        "--standard",
        dest="mode",
        action="store_const",
        const="standard",
        help="less than 90 seconds at 64 nodes (default)",
    )
    mode.add_argument(
        "--deep", dest="mode", action="store_const", const="deep", help="every two nodes, larger messages"
    )
    how.add_argument("--burn", type=duration, metavar="TIME", help="load every unit for so long: 90s, 10m")
    how.add_argument("--storage", metavar="DIR", help="write and read DIR from every node at once")
    who = parser.add_argument_group("who takes part (default: from torchrun, srun or mpirun)")
    who.add_argument("--rank", type=count, metavar="N", help="number of this rank, from 0")
    who.add_argument("--world", type=positive, metavar="N", help="number of ranks")
    who.add_argument("--head", metavar="HOST", help="host of rank 0")
    who.add_argument("--port", type=positive, metavar="N", help="port at which rank 0 listens")
    who.add_argument("--wait", type=duration, metavar="TIME", help="longest wait for all ranks")
    who.add_argument("--python", metavar="PATH", help="interpreter or environment folder that the job will use")
    report = parser.add_argument_group("beside the report")
    report.add_argument("--baseline", metavar="FILE", help="compare with this JSON report of an earlier preflight")
    report.add_argument("--exclude-to", metavar="FILE", help="write the nodes to leave out, with commas; empty if none")
    add_report_flags(parser)
    parser.set_defaults(mode="standard")


def run(arguments: argparse.Namespace) -> int:
    """Take part; on rank 0, examine what was measured and report. Every rank returns the same exit code."""
    from gpudoctor.preflight.place import PlaceFlags, find_place

    flags = PlaceFlags(rank=arguments.rank, world=arguments.world, head=arguments.head, port=arguments.port)
    place = find_place(flags, os.environ)
    check_output(arguments)
    _check_python(arguments.python)
    from gpudoctor.preflight.agent import take_part
    from gpudoctor.preflight.budget import BUDGETS, Wishes

    before = _baseline(arguments.baseline) if place.rank == 0 else None
    wishes = Wishes(
        storage=os.path.abspath(arguments.storage) if arguments.storage else "",
        burn=arguments.burn or 0.0,
        arrive=arguments.wait,
        python=arguments.python or "",
    )
    return take_part(
        place, BUDGETS[arguments.mode], wishes, lambda found: _report(replace(found, before=before), arguments)
    )


def _check_python(python: str | None) -> None:
    """Refuse an interpreter that is none."""
    if python is None:
        return
    from gpudoctor.model import Unavailable
    from gpudoctor.vitals.interpreter import find_interpreter

    try:
        find_interpreter(python, os.environ)
    except Unavailable as reason:
        raise UsageError("--python {python}: {reason}", python=python, reason=reason) from reason


def _report(preflight: "Preflight", arguments: argparse.Namespace) -> int:
    """Examine what was measured, print the report, and return the exit code."""
    from gpudoctor.engine.examination import examine
    from gpudoctor.engine.exit_codes import FOUND
    from gpudoctor.engine.preflight_verdict import nodes_to_leave_out

    request = request_of(arguments, signs_first=len(preflight.nodes) < 2)
    report = examine(_patient(preflight, arguments), request, preflight.untested)
    fail_on = arguments.fail_on or request.settings.fail_on
    code = deliver(report, arguments, fail_on)
    sys.stdout.flush()
    bad = nodes_to_leave_out(report.findings)
    if arguments.exclude_to:
        write_file(Path(arguments.exclude_to), ",".join(bad), "--exclude-to")
    return FOUND if code == 0 and bad and fail_on != "never" else code


def _baseline(path: str | None) -> "Preflight | None":
    """The earlier preflight; a file that is none is refused before anything is measured."""
    if path is None:
        return None
    from gpudoctor.model import Unavailable
    from gpudoctor.vitals.saved_preflight import read_preflight

    try:
        return read_preflight(Path(path))
    except Unavailable as reason:
        raise UsageError("--baseline: {reason}", reason=reason) from reason


def _patient(preflight: "Preflight", arguments: argparse.Namespace) -> "Patient":
    """This machine with what was measured on it, or the cluster that several nodes are."""
    from gpudoctor.model import Patient, PatientKind, Sign, Signs

    sign = Sign.of("the preflight", preflight)
    if len(preflight.nodes) > 1:
        return Patient(PatientKind.CLUSTER, say("{nodes} nodes", nodes=len(preflight.nodes)), Signs(preflight=sign))
    from gpudoctor.vitals.build_patient import PatientRequest, admit
    from gpudoctor.vitals.targets import sort_targets

    machine = admit(PatientRequest(targets=sort_targets([]), python=arguments.python))
    return Patient(machine.kind, machine.title, replace(machine.signs, preflight=sign))
