"""Measuring: the model with random weights, three real steps in a child process, bytes by instant."""

from gpudoctor.estimate.measure.compare import ComparedInstant, MeasuredEstimate, compare
from gpudoctor.estimate.measure.measurement import JobMeasurement, Machine, MeasuredStep, MeasureEnd
from gpudoctor.estimate.measure.start_measurement import measure

__all__ = [
    "ComparedInstant",
    "JobMeasurement",
    "Machine",
    "MeasureEnd",
    "MeasuredEstimate",
    "MeasuredStep",
    "compare",
    "measure",
]
