"""What a recording says in numbers: the `run` of a report. Seconds, bytes and shares are plain numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A quantity over the steps (or windows) of a run."""

    median: float
    mean: float
    min: float
    max: float
    std: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Rates over the steady steps, all ranks together; a None was not counted."""

    steps_per_second: float | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    """Model FLOPs a second by what the devices can do; None where one of both is not known."""
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    """By the names above, over windows of the steady time; empty for a run too short to have several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMemory:
    """Highest bytes of the run; a None was not seen."""

    device_allocated: int | None = None
    """Of the rank that held most."""
    device_reserved: int | None = None
    device_total: int | None = None
    rss: int | None = None
    """Resident in all processes of the command together; shared pages count in each."""
    machine: int | None = None
    """Used on the machine, or in the control group where that has a limit."""
    machine_total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGpu:
    """One GPU over the run; a None was not told by the driver."""

    name: str
    utilization: float | None = None
    """Mean share of time in which any kernel ran."""
    sm_active: float | None = None
    """Mean share of streaming multiprocessors that were busy (GPM, from Hopper on)."""
    memory: int | None = None
    """Highest bytes used, by whomever."""
    power: float | None = None
    """Mean watts."""
    temperature: float | None = None
    """Highest degrees Celsius."""
    clock: float | None = None
    """Mean MHz of the SMs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShare:
    """A line of the user's code and its share of the main thread's time."""

    path: str
    line: int
    function: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One quantity over the run, thinned out for drawing."""

    name: str
    unit: str
    t: tuple[float, ...]
    """Seconds since the run began."""
    values: tuple[float, ...]
    """NaN where it was not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run as reports show it."""

    recording: str
    """The folder or file."""
    origin: str = "gpudoctor"
    """`gpudoctor`, `kineto`, `nvidia-smi`."""
    command: tuple[str, ...] = ()
    seconds: float | None = None
    """Of the whole command; None where its end was not recorded."""
    exit_code: int | None = None
    signal: str | None = None
    stopped_by: str | None = None
    """`steps`, `seconds`, `interrupt`, or None when it ended by itself."""
    steps: int = 0
    """Steps that every rank has done."""
    ranks: int = 0
    """Ranks that reported."""
    marker: str | None = None
    """What ends a step: `optimizer`, `backward`, `loader`, `engine`."""
    warm_up: int = 0
    """Steps at the beginning that the numbers below leave out."""
    step_seconds: Spread | None = None
    """None without a steady step."""
    throughput: Throughput = field(default_factory=Throughput)
    phases: Mapping[str, float] = field(default_factory=dict)
    """Share of step time by phase, `other` included, largest first; empty without a step."""
    memory: RunMemory = field(default_factory=RunMemory)
    gpus: tuple[RunGpu, ...] = ()
    lines: tuple[LineShare, ...] = ()
    """The user's lines with most of the main thread's time, most first."""
    series: tuple[Series, ...] = ()
    """For drawings; not part of the JSON report."""
