"""From a measurement to what later estimates on that machine may use."""

import datetime

from gpudoctor.estimate.calibration_records import CPU, Calibration, Observation
from gpudoctor.estimate.card import expected_reserved
from gpudoctor.estimate.measure.compare import PEAK, MeasuredEstimate
from gpudoctor.estimate.measure.result import JobMeasurement, MeasureEnd


def calibration_of(compared: MeasuredEstimate, found: JobMeasurement, release: str) -> Calibration | None:
    """The calibration that a complete measurement gives; None of one that was not completed."""
    machine = found.machine
    if machine is None or found.ending is not MeasureEnd.COMPLETE or found.last is None:
        return None
    estimate = compared.estimate
    reserved = None
    if found.reserved is not None:
        expected = expected_reserved(estimate.job, estimate.instants, estimate.peak)
        reserved = (max(expected, 1), found.reserved)
    seen = Observation(
        model=estimate.shape.name[:200], method=estimate.job.method, reserved=reserved,
        instants={row.instant: (row.predicted, row.measured) for row in compared.rows if row.instant != PEAK},
    )  # fmt: skip
    return Calibration(
        gpu=CPU if machine.kind == "cpu" else machine.name, bytes=machine.bytes, versions=machine.versions,
        date=datetime.date.today().isoformat(), gpudoctor=release, context=found.context,
        workspace=found.workspace, nccl=found.nccl, observations=(seen,),
    )  # fmt: skip
