"""Measuring: the model with random weights, three real steps in a child process, bytes by instant."""

from gpudoctor.estimate.measure.compare import ComparedInstant, MeasuredEstimate, compare
from gpudoctor.estimate.measure.launch import measure
from gpudoctor.estimate.measure.result import JobMeasurement, Machine, MeasuredStep, MeasureEnd

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
