"""What a run says in numbers: the `run` and `synthetic` of a report. Seconds, bytes, shares: plain numbers."""

from collections.abc import Mapping
from typing import Any

from gpudoctor.model.records import field, frozen


@frozen
class Spread:
    """A quantity over the steps of a run."""

    median: float
    mean: float
    min: float
    max: float
    std: float
    p10: float
    p90: float


@frozen
class RunThroughput:
    """Means over the steady steps, all ranks together; a None was not counted."""

    steps_per_second: float | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    """Model FLOPs a second by what the devices can do in bf16; None where one of both is not known."""


@frozen
class RunMemory:
    """Highest bytes of the run; a None was not seen."""

    allocated: int | None = None
    """By the device allocator of the rank that held most."""
    reserved: int | None = None
    device: int | None = None
    """Bytes of that rank's device."""
    rss: int | None = None
    """Resident in one training process."""
    tree_rss: int | None = None
    """Resident in all processes of the command; shared pages count in each."""
    machine: int | None = None
    """Used on the machine, or in the control group where that has a limit."""
    machine_limit: int | None = None


@frozen
class RunGpu:
    """One GPU in steady state; a None was not told by the driver."""

    name: str
    utilization: float | None = None
    """Mean share of time in which any kernel ran."""
    sm_active: float | None = None
    """Mean share of streaming multiprocessors that were busy (GPM, from Hopper on)."""
    memory: float | None = None
    """Highest bytes used, by whomever."""
    power: float | None = None
    """Mean watts."""
    temperature: float | None = None
    """Highest degrees Celsius."""
    memory_total: float | None = None
    """Bytes of the card."""
    power_limit: float | None = None
    """Watts."""


@frozen
class LineShare:
    """A line of the user's code and its share of the main thread's time."""

    path: str
    line: int
    function: str
    share: float


@frozen
class Warned:
    """A warning that Python or a library gave during the run."""

    library: str
    """The package that gave it; "" for the program itself."""
    text: str
    """Cut, secrets masked."""
    count: int
    """How often it came, on all ranks."""
    path: str | None = None
    """The innermost place of the user's; None where there was none."""
    line: int | None = None


@frozen
class RunSeries:
    """One quantity over the run, thinned out for drawing."""

    name: str
    """`step_seconds`, `phase.data_wait`, `loss`, `device_allocated`, `gpu0_util`..."""
    unit: str
    t: tuple[float, ...]
    """Seconds since the command began."""
    values: tuple[float, ...]
    """NaN where it was not known."""
    steps: tuple[float, ...] = ()
    """Number of the step that ended at each point; empty for what is not sampled by step."""


@frozen
class StepTimes:
    """How many steady steps took how long: a histogram."""

    edges: tuple[float, ...]
    """Seconds, rising; one more than counts."""
    counts: tuple[int, ...]
    beyond: int = 0
    """Steps that took longer than the last edge."""


@frozen
class CardLine:
    """One line of the training card: what a run really trained."""

    name: str
    """`batch`, `labels`, `parameters`, `schedule`, `gradients`, `ranks`, `evaluation`, `resumed`, `logged`."""
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Its numbers for JSON: counts, shares (0..1), learning rates, names."""


@frozen
class RunSummary:
    """A run as reports show it."""

    recording: str
    origin: str = "gpudoctor"
    """`gpudoctor`, `watch`."""
    command: tuple[str, ...] = ()
    seconds: float | None = None
    """Of the whole command; None where its end was not recorded."""
    exit_code: int | None = None
    signal: str | None = None
    stopped_by: str | None = None
    """`steps`, `seconds`, `interrupt`, or None when it ended by itself."""
    steps: int = 0
    """Warm-up included, of the rank that made most."""
    steady_steps: int = 0
    """Steps that the numbers below are of."""
    ranks: int = 0
    marker: str | None = None
    """What ends a step: `optimizer`, `backward`, `loader`, `gradients`, `engine`."""
    warm_up_seconds: float = 0.0
    start_seconds: float | None = None
    """From the start of the process to the end of its first step."""
    step_seconds: Spread | None = None
    """None without a steady step."""
    throughput: RunThroughput = field(default_factory=RunThroughput)
    phases: Mapping[str, float] = field(default_factory=dict)
    """Share of steady time by phase, `other` included; empty without a step."""
    work: float = 0.0
    """The part of `other` on lines that are the job's own work (the loss, an environment); no loss of time."""
    device_idle: float | None = None
    """Share of steady time in which the device can have had nothing to do; None without its clock."""
    room: float | None = None
    """The same, or without its clock the share in which the driver saw no kernel; not in the JSON report."""
    gain_unknown: str = ""
    """Why it is not known what a wait of the host costs, as a clause; "" where it is."""
    memory: RunMemory = field(default_factory=RunMemory)
    gpus: tuple[RunGpu, ...] = ()
    lines: tuple[LineShare, ...] = ()
    """The user's lines with most of the main thread's time, most first."""
    training: tuple[CardLine, ...] = ()
    """What was trained; empty where nothing of it was seen."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """The first batch, with `--show-data`: `pictures` (RGB) with their `width`, or `text`; not in the JSON report."""
    warnings: tuple[Warned, ...] = ()
    """What Python and libraries warned of, in the order in which it came."""
    samples: int = 0
    """Stack samples that phases and lines are of, when a live process was watched; 0 for a recording."""
    lost_samples: int = 0
    """Stack samples that failed or were cut, more often in fast Python code than in waits."""
    healthy: bool = False
    """Whether nothing about it needs a second look: it ended well, made steps enough, and loses little."""
    series: tuple[RunSeries, ...] = ()
    """For drawings; not part of the JSON report."""
    step_times: StepTimes | None = None
    """The same; None without several steady steps."""
    bad_step: int | None = None
    """The first step whose loss or gradients were not finite, and reached the weights; None without one."""
    started: str = ""
    node: str = ""
    commit: str = ""
    """Of the checkout around the working folder; "" without one."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of Python, torch, CUDA and gpudoctor, as recorded."""

    @property
    def failed(self) -> bool:
        """Whether the command ended with an error that nobody asked for."""
        return self.exit_code not in (None, 0) and self.stopped_by is None


# A synthetic job as reports show it: estimated beside measured memory, and how fast it ran. Bytes, seconds.


@frozen
class MemoryRow:
    """One instant of a step."""

    instant: str
    """`load`, `loss`, `layer`, `backward`, `accumulation`, `step`, `static`, `peak`."""
    title: str
    estimated: int
    """Bytes by formula."""
    measured: int
    """Bytes that torch's allocator had handed out, in the program itself."""

    @property
    def ratio(self) -> float:
        """Estimated over measured."""
        return self.estimated / self.measured if self.measured else float("inf")


@frozen
class SyntheticSummary:
    """A job that was made from a model's configuration."""

    model: str
    method: str
    """`full`, `lora`, `qlora`..."""
    parameters: int
    """Of the model, adapters apart."""
    job: str
    """Sequence, batch, types, optimizer and the like, in words."""
    script: str
    """The program; it needs nothing of gpudoctor."""
    kind: str
    device: str
    device_bytes: int
    """Memory of one card, or of the host."""
    ranks: int
    versions: Mapping[str, str] = field(default_factory=dict)
    memory: tuple[MemoryRow, ...] = ()
    """By instant, of the fullest rank; empty where the measurement came to no end."""
    notes: tuple[str, ...] = ()
    """What the device says beside tensors, and what a CPU does otherwise."""
    assumptions: tuple[str, ...] = ()
    estimated_peak: int
    """Bytes of one rank at its peak, by formula."""
    run_peak: int | None = None
    """Bytes that torch's allocator had handed out at most in the whole first run; None on the CPU."""
    run_resident: int | None = None
    """Highest resident bytes of one training process."""
    step_seconds: float | None = None
    """Mean of the steady steps; None where it made too few."""
    tokens_per_step: int = 0
    """All ranks together; patches of images."""
    tokens_per_second: float | None = None
    flops_per_step: float = 0.0
    """Of the model, all ranks together: what checkpointing computes again is left out."""
    flops_per_second: float | None = None
    peak_flops: float | None = None
    """What the cards can do in dense bf16, all together; None for a CPU or a card that is in no table."""
    mfu: float | None = None
    """The model's operations a second over that; None where one of both is not known."""
    estimate: Mapping[str, Any] = field(default_factory=dict)
    """The whole estimate as `gpudoctor estimate --format json` has it (`gpudoctor.estimate/1`)."""
