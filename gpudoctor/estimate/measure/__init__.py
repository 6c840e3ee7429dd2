"""Measuring a training program: a few real steps in a child process, bytes by instant, beside the estimate."""

from gpudoctor.estimate.measure.measurement import (
    ComparedInstant,
    JobMeasurement,
    Machine,
    MeasuredEstimate,
    MeasuredStep,
    MeasureEnd,
    compare,
)  # fmt: skip

__all__ = ["ComparedInstant", "JobMeasurement", "Machine", "MeasureEnd", "MeasuredEstimate", "MeasuredStep", "compare"]
