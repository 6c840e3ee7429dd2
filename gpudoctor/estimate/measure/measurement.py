"""What a measurement is: bytes by instant of a real run, what ended it, and predicted beside measured."""

from dataclasses import dataclass, field
from enum import Enum

from gpudoctor.estimate.measure.cpu import DIFFERENCES, ONE_BY_ONE, UNPACKED, CpuDifference, on_cpu
from gpudoctor.estimate.result import Estimate


class MeasureEnd(Enum):
    """How the run ended."""

    COMPLETE = "complete"
    """All steps were made."""
    OUT_OF_MEMORY = "out of memory"
    """The allocator, or the system, refused a block."""
    TIME_LIMIT = "time limit"
    """It was stopped at its time limit."""
    FAILED = "failed"
    """The model could not be built or a step raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where it ran, as little of it as a number needs."""

    kind: str
    """`cuda` or `cpu`."""
    name: str
    """The card's name as the driver says it, or the CPU's model."""
    bytes: int
    """The device's memory."""
    capability: tuple[int, int] | None
    """Compute capability; None on the CPU."""
    gpus: int
    """Cards in the machine; 0 on the CPU."""
    versions: dict[str, str] = field(default_factory=dict)
    """Package to version: torch, transformers, peft, bitsandbytes, and the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """One training step by instant."""

    instants: dict[str, int]
    """Instant to the most bytes allocated in it: loss, layer, backward, accumulation, step."""
    peak: int
    """The most of the whole step."""
    static: int
    """Bytes allocated after it, gradients freed: what stays between two steps."""
    scratch: dict[str, int]
    """Instant to what the CPU kernels' own scratch adds at its worst; empty on CUDA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMeasurement:
    """A real run of a job, by instant."""

    machine: Machine | None
    """Where it ran; None when not even that was reported."""
    ending: MeasureEnd
    """How it ended."""
    said: str
    """What ended it, in one sentence; "" when it is complete."""
    reached: str
    """The last instant that was begun: `start`, `load`, `step 1: loss`..."""
    most: int | None
    """The most bytes that were allocated by then; None when unknown."""
    load: int | None
    """Allocated when the model stood, before the first step."""
    steps: tuple[MeasuredStep, ...]
    """Steps that were completed."""
    reserved: int | None = None
    """The most that torch's allocator had reserved; None on the CPU."""
    used: int | None = None
    """What the driver counts for this process at the end; None where it cannot be read."""
    used_how: str = ""
    """Where `used` comes from: this process by NVML, or the card's change while it ran."""
    reserved_then: int | None = None
    """Reserved when `used` was read."""
    workspace: int | None = None
    """cuBLAS workspaces inside the allocator; None on the CPU or where torch cannot clear them."""
    nccl: int | None = None
    """Communicators of a process, where there were several GPUs to measure it on."""
    seconds: float = 0.0
    """How long it took, model building included."""

    @property
    def last(self) -> MeasuredStep | None:
        """The last complete step: its optimizer state exists from the start, as in all later ones."""
        return self.steps[-1] if len(self.steps) > 1 else None

    @property
    def context(self) -> int | None:
        """What the process holds on the card outside torch's allocator: context, kernels, libraries."""
        if self.used is None or self.reserved_then is None or self.used <= self.reserved_then:
            return None
        return self.used - self.reserved_then


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
            instant="static", title="static between steps", predicted=expected.static, measured=last.static
        )
        peak = ComparedInstant(
            instant="peak", title="the peak of a step", predicted=expected.peak.bytes, measured=last.peak
        )
        rows += [static, peak]
    return rows
