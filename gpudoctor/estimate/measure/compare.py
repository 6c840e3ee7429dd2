"""Predicted beside measured, instant by instant."""

from dataclasses import dataclass

from gpudoctor.estimate.measure.cpu import DIFFERENCES, ONE_BY_ONE, UNPACKED, CpuDifference, on_cpu
from gpudoctor.estimate.measure.measurement import JobMeasurement
from gpudoctor.estimate.result import Estimate

STATIC = "static"
PEAK = "peak"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedInstant:
    """One instant: what was predicted and what a real step had."""

    instant: str
    """load, loss, layer, backward, accumulation, step, static, peak."""
    title: str
    """The same for a person."""
    predicted: int
    """Bytes by formula, on the device that measured."""
    measured: int
    """Bytes measured in the last step."""

    @property
    def difference(self) -> int:
        """Predicted less measured: above 0 where we said too much."""
        return self.predicted - self.measured

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured if self.measured else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEstimate:
    """A measurement beside the estimate of the same job on the same device."""

    estimate: Estimate
    """The estimate, with what the measuring device does otherwise."""
    measurement: JobMeasurement
    """The measurement."""
    rows: tuple[ComparedInstant, ...]
    """Instant by instant, then the static state and the peak; empty when no second step was made."""
    differences: tuple[CpuDifference, ...]
    """What was computed otherwise because it ran on the CPU; empty on CUDA."""
    standins: bool = True
    """Whether layers and optimizers of bitsandbytes and torchao were stand-ins of the same bytes."""


def compare(estimate: Estimate, measurement: JobMeasurement, *, program: bool = False) -> MeasuredEstimate:
    """Put the two side by side; `estimate` is of the GPU that measured, or of any where the CPU did.

    `program` says that a program of its own ran (`measure.program`): the real libraries, AdamW as it is.
    """
    cpu = measurement.machine is not None and measurement.machine.kind == "cpu"
    expected = on_cpu(estimate, foreach=not program) if cpu else estimate
    differences: tuple[CpuDifference, ...] = DIFFERENCES if cpu else ()
    if program:
        differences = tuple(ONE_BY_ONE if each.kind == ONE_BY_ONE.kind else each for each in differences)
        if cpu and (estimate.job.method == "int8-lora" or "8bit" in estimate.job.optimizer):
            differences += (UNPACKED,)
    return MeasuredEstimate(
        estimate=expected, measurement=measurement, rows=tuple(_rows(expected, measurement)),
        differences=differences, standins=not program,
    )  # fmt: skip


def _rows(expected: Estimate, measurement: JobMeasurement) -> list[ComparedInstant]:
    rows, last = [], measurement.last
    for instant in expected.instants:
        measured = measurement.load if instant.name == "load" else None
        if last is not None:
            measured = last.instants.get(instant.name, measured)
        if measured is not None:
            row = ComparedInstant(instant=instant.name, title=instant.title, predicted=instant.bytes, measured=measured)
            rows.append(row)
    if last is not None:
        static = ComparedInstant(
            instant=STATIC, title="static between steps", predicted=expected.static, measured=last.static
        )
        peak = ComparedInstant(
            instant=PEAK, title="the peak of a step", predicted=expected.peak.bytes, measured=last.peak
        )
        rows += [static, peak]
    return rows
