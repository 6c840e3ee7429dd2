"""`gpudoctor estimate --measure`, `--write-calibration` and `--calibration`."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.argument_parser import BadValue
from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.lang import say

if TYPE_CHECKING:
    from gpudoctor.estimate import Device, Estimate
    from gpudoctor.estimate.answer import Answer
    from gpudoctor.estimate.calibration_records import Calibration
    from gpudoctor.estimate.measure import JobMeasurement, MeasuredEstimate

NONE = "none"


def add_measure_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of measuring and of what it leaves behind."""
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--measure", action="store_true",
        help="build the model with random weights, run three real steps here, and compare",
    )  # fmt: skip
    group.add_argument(
        "--measure-device", choices=("auto", "cuda", "cpu"), default="auto",
        help="device to measure on (default: auto, CUDA if present, else the CPU)",
    )  # fmt: skip
    group.add_argument(
        "--measure-seconds", type=_seconds, metavar="S", help="stop measuring after S seconds (default: 900)"
    )
    group.add_argument(
        "--write-calibration", nargs="?", const="", metavar="FILE",
        help="save what --measure found for later estimates, in FILE or the user's data folder",
    )  # fmt: skip
    group.add_argument(
        "--calibration", metavar="FILE|none",
        help="use this calibration (default: the user's own, if it is for this card)",
    )  # fmt: skip


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 1 <= found <= 86400:
        raise BadValue(say("{text!r} is not a number of seconds from 1 to 86400", text=text))
    return found


def check_flags(arguments: argparse.Namespace) -> None:
    """Refuse early what would fail after minutes; raises `UsageError`."""
    if arguments.write_calibration is not None:
        if not arguments.measure:
            raise UsageError("--write-calibration saves a measurement; add --measure")
        path = _target(arguments)
        if os.path.isdir(path):
            raise UsageError(say("--write-calibration {path}: is a folder; give a file", path=path))
        if os.path.exists(path):
            from gpudoctor.estimate.calibration import read

            read(path)
    elif not arguments.measure and (
        arguments.measure_device != "auto" or arguments.measure_seconds is not None
    ):
        raise UsageError("--measure-device and --measure-seconds need --measure")


def known(arguments: argparse.Namespace, card: "Device | None") -> tuple["Calibration | None", list[str]]:
    """The calibration of this card, and what is to be said of one that is not used."""
    if arguments.calibration == NONE:
        return None, []
    explicit = arguments.calibration is not None
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    name = arguments.calibration if explicit else os.path.join(base, "gpudoctor", "calibration.json")
    if not explicit and not os.path.exists(name):  # before the import, which this answer then does without
        return None, []
    from gpudoctor import __version__
    from gpudoctor.estimate.calibration import CalibrationError, pick, read

    try:
        entries = read(Path(name))
    except CalibrationError as error:
        if explicit:
            raise UsageError(say("--calibration {error}", error=error)) from None
        return None, [say("the calibration is not used: {error}", error=error)]
    found = pick(entries, card, __version__)
    if found is None and explicit:
        held = ", ".join(dict.fromkeys(entry.gpu for entry in entries)) or say("no card")
        wanted = card.name if card is not None else say("no card")
        return None, [
            say(
                "{name} is not used: it is for {measured_for}, and the estimate is for {wanted}",
                name=name,
                measured_for=held,
                wanted=wanted,
            )
        ]
    return found, []


def measured(answer: "Answer", arguments: argparse.Namespace, path: str | None) -> "Answer":
    """The answer with its shown job measured; `path` is the model's config.json, where it came from one.

    Raises `UsageError`, and `IncompleteError` where nothing was measured.
    """
    from gpudoctor.estimate.measure import MeasureEnd, measure
    from gpudoctor.estimate.measure.start_measurement import LIMIT, host_need

    shown = answer.shown
    found = measure(
        shown.shape, shown.job, device=arguments.measure_device, limit=arguments.measure_seconds or LIMIT,
        source=path, predicted=host_need(shown),
    )  # fmt: skip
    if found.ending is MeasureEnd.FAILED:
        raise IncompleteError(
            say("--measure: {said} (reached: {reached})", said=found.said, reached=found.reached)
        )
    compared = beside(shown, found)
    said = list(answer.assumptions)
    if len(answer.estimates) > 1:
        said.append(f"--measure ran {shown.job.method}, the first job; choose another with --method")
    if arguments.write_calibration is not None:
        said.append(_write(compared, found, _target(arguments)))
    return replace(answer, measured=compared, assumptions=tuple(said))


def beside(shown: "Estimate", found: "JobMeasurement") -> "MeasuredEstimate":
    """The measurement beside the same job's estimate for the card that measured."""
    from gpudoctor.estimate import Device, estimate_job
    from gpudoctor.estimate.measure import compare

    machine, card = found.machine, None
    if machine is not None and machine.kind == "cuda":
        card = Device(name=machine.name, bytes=machine.bytes, capability=machine.capability)
    return compare(estimate_job(shown.shape, shown.job, card), found)


def _target(arguments: argparse.Namespace) -> Path:
    from gpudoctor.estimate.calibration import user_file

    return Path(arguments.write_calibration) if arguments.write_calibration else user_file()


def _write(compared: "MeasuredEstimate", found: "JobMeasurement", path: Path) -> str:
    """Write the calibration; returns what to say of it."""
    from gpudoctor import __version__
    from gpudoctor.estimate.calibration import write
    from gpudoctor.estimate.measure.compare import calibration_of

    made = calibration_of(compared, found, __version__)
    if made is None:
        return say("no calibration was written: the measurement ended with {ending}", ending=found.ending.value)
    written = write(path, made)
    count = len(written.observations)
    return say(
        "calibration of {gpu} written to {path} ({count} observation{s})",
        gpu=written.gpu,
        path=path,
        count=count,
        s=say("s") if count > 1 else "",
    )


def exit_code(answer: "Answer") -> int:
    """1 where memory ran out, 3 where time did, else 0."""
    if answer.measured is None:
        return 0
    from gpudoctor.estimate.measure import MeasureEnd

    ending = answer.measured.measurement.ending
    return {MeasureEnd.OUT_OF_MEMORY: 1, MeasureEnd.TIME_LIMIT: 3}.get(ending, 0)
