"""Measuring a training program: a few real steps in a child process, bytes by instant, beside the estimate."""

from gpudoctor.estimate.measure.compare import ComparedInstant, MeasuredEstimate, compare
from gpudoctor.estimate.measure.measurement import JobMeasurement, Machine, MeasuredStep, MeasureEnd

__all__ = ["ComparedInstant", "JobMeasurement", "Machine", "MeasureEnd", "MeasuredEstimate", "MeasuredStep", "compare"]
