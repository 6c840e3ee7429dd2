"""A live process as checks see it: what a sliding window of looks at it has shown, immutable.

Filled by `gpudoctor.vitals.process` once a tick. What could not be seen is absent (None, NaN, an empty tuple) and
`gaps` says why and what would mend it.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.memo import remembered
from gpudoctor.model.records import field, frozen
from gpudoctor.model.signs.recording import PHASES

LIVE_PHASES = (*PHASES, "compile", "start", "other")
"""Phases that a stack can be in: those of a recording, compiling, starting up, and the rest."""

NAN = float("nan")


@frozen
class Frame:
    """One Python frame."""

    name: str
    """The function; a qualified name from Python 3.11 on."""
    path: str
    line: int

    @property
    def label(self) -> str:
        """`__getitem__ (data.py:31)`."""
        return f"{self.name.rpartition('.')[2]} ({self.path.rpartition('/')[2]}:{self.line})"


@frozen
class Place:
    """Where looks at a process found it: one line of the user's code in one phase."""

    phase: str
    kind: str
    """The row of the table of stack classes that recognised it, e.g. `loader-wait`, `read`, `save`."""
    via: str
    """The library's function that it was in, e.g. `DataLoader.__next__`; "" at the user's own line."""
    path: str
    """The innermost frame of the user's code; "" where the stack has none."""
    line: int
    function: str
    text: str
    """The source line, stripped; "" when it cannot be read or the file changed since the process started."""
    count: int
    episodes: int = 1
    """Runs of consecutive looks that found it."""

    @property
    def label(self) -> str:
        """`__getitem__ (data.py:31)`, or the library's function where no user frame is."""
        if not self.path:
            return self.via or "unknown"
        return f"{self.function.rpartition('.')[2]} ({self.path.rpartition('/')[2]}:{self.line})"


@frozen
class Series:
    """A quantity over time, oldest first; NaN where it was not known."""

    t: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    @property
    def last(self) -> float:
        """The newest value that is known; NaN without one."""
        return next((value for value in reversed(self.values) if value == value), NAN)

    @property
    def mean(self) -> float:
        """The mean of the known values; NaN without one."""
        known = self.known()
        return sum(known) / len(known) if known else NAN

    def known(self) -> list[float]:
        """The values without those that are not known."""
        return [value for value in self.values if value == value]


@frozen
class Worker:
    """A loader worker of a rank."""

    pid: int
    state: str
    """One letter, as `ps` has it: R running, S asleep, D waiting for a disk, Z dead."""
    cpu: float
    """Busy share of one core; NaN in the first look."""
    rss: int
    wait_channel: str = ""
    """The kernel function that it sleeps in, where that may be read."""
    disk_share: float = 0.0
    """Share of the looks in the window that found it in state D."""


@frozen
class LostWorker:
    """A loader worker that went away while its siblings stayed."""

    pid: int
    t: float


@frozen
class LiveSteps:
    """Exact numbers of a rank that `gpudoctor run` records; over its last steps."""

    step: int
    """Number of the last step."""
    seconds: float
    """Median seconds a step."""
    phases: Mapping[str, float]
    """Share of step time by phase, `other` included."""
    loss: float = NAN


@frozen
class Rank:
    """One training process."""

    rank: int | None
    """Global rank; None for a process without one."""
    pid: int
    command: tuple[str, ...]
    user: str
    cwd: str
    started: float
    python: str = ""
    state: str = "S"
    wait_channel: str = ""
    alive: bool = True
    cpu: float = NAN
    """Busy cores, its threads together."""
    rss: int = 0
    tree_rss: Series = field(default_factory=Series)
    """Resident bytes of it and its workers together, over the whole watch, thinned out."""
    device_memory: Series = field(default_factory=Series)
    """Bytes that it holds on its GPUs, the same way; empty where the driver's pids cannot be mapped."""
    gpus: tuple[int, ...] = ()
    """Indices of the GPUs that it holds memory on, or that its environment leaves it."""
    read_rate: float = NAN
    """Bytes a second that it and its workers read from disk."""
    samples: int = 0
    """Good stack samples in the window."""
    lost: int = 0
    """Stack samples in the window that failed or were cut: more often in fast Python code than in waits."""
    seconds: float = 0.0
    """From the oldest to the newest good sample in the window."""
    places: tuple[Place, ...] = ()
    """Most counted first."""
    worker_places: tuple[Place, ...] = ()
    """The same, of its loader workers together."""
    stack: tuple[Frame, ...] = ()
    """The newest one, outermost first."""
    still: float = 0.0
    """Seconds for which every sample had the same stack, up to the newest sample."""
    quiet: float = NAN
    """Seconds for which its main thread took hardly any CPU time and moved no bytes; NaN where not known."""
    stepless: float = NAN
    """Seconds since `steps` counted one more; NaN without `steps`."""
    trail: tuple[tuple[float, str], ...] = ()
    """Time and phase of each sample in the window, oldest first."""
    workers: tuple[Worker, ...] = ()
    lost_workers: tuple[LostWorker, ...] = ()
    steps: LiveSteps | None = None
    blind: str = ""
    """Why no stack can be read; "" when one can."""

    @property
    def title(self) -> str:
        """`rank 3`, or `pid 123` for a process without a rank."""
        return say("pid {pid}", pid=self.pid) if self.rank is None else say("rank {rank}", rank=self.rank)

    @property
    def phases(self) -> dict[str, int]:
        """Good samples by phase, most first."""
        return count_phases(self.places)


@frozen
class GpuUser:
    """A process on a GPU."""

    pid: int
    memory: int | None
    """Bytes; None where the driver does not tell."""


@frozen
class GpuWindow:
    """One GPU over the window, a value a tick."""

    index: int
    name: str
    memory_total: int | None = None
    power_limit: float | None = None
    busy: Series = field(default_factory=Series)
    """NVML's share of time (0..1) with any kernel."""
    sm: Series = field(default_factory=Series)
    """Share of SMs busy (0..1) by GPM; empty before Hopper."""
    memory: Series = field(default_factory=Series)
    power: Series = field(default_factory=Series)
    temperature: Series = field(default_factory=Series)
    reasons: Mapping[int, float] = field(default_factory=dict)
    """Clocks event reason (one bit) to the share of the window's ticks in which it was set."""
    users: tuple[GpuUser, ...] = ()
    lost: str = ""
    """Why it does not answer any more; "" while it does."""

    @property
    def activity(self) -> Series:
        """The honest busy share: GPM where it is there, else NVML's."""
        return self.sm if self.sm.known() else self.busy


@frozen
class DeviceEvent:
    """An error event that the driver reported while we watched."""

    t: float
    gpu: int
    kind: str
    """`xid`, `double-bit-ecc`, `recovery`, `unavailable`."""
    number: int
    pci_address: str = ""


@frozen
class HostWindow:
    """The machine beside the job, a value a tick."""

    cpus: float = NAN
    machine_cpus: float = NAN
    """CPUs of the machine, which every job on it shares."""
    cpu: Series = field(default_factory=Series)
    """Busy cores of the machine, the work of others included."""
    io_wait: Series = field(default_factory=Series)
    """Share of CPU time."""
    memory_total: int = 0
    """Bytes: of the machine, or of the control group's limit."""
    memory: Series = field(default_factory=Series)
    """Bytes used, over the whole watch, thinned out."""
    disk_read: Series = field(default_factory=Series)
    disk_write: Series = field(default_factory=Series)


@frozen
class Gap:
    """Something that cannot be seen."""

    panel: str
    """What is missing: `stacks`, `gpu`, `host`, `workers`."""
    reason: str
    fix: str = ""
    """What to type or change; "" when nothing helps."""


@frozen
class ProcessWindow:
    """One look at a running job, with what the looks before it in the window have shown."""

    t: float
    wall: float
    length: float
    """Seconds that the window covers at most."""
    ranks: tuple[Rank, ...]
    gpus: tuple[GpuWindow, ...] = ()
    host: HostWindow = field(default_factory=HostWindow)
    events: tuple[DeviceEvent, ...] = ()
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about the target: "pid 7 is a thread of 5: watching 5"."""
    ended: str = ""
    """How the job ended; "" while it runs."""
    memory: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    """Answers of questions that several checks ask (`gpudoctor.analysis.memo`)."""

    @property
    def samples(self) -> int:
        """Good stack samples of all ranks."""
        return sum(rank.samples for rank in self.ranks)

    @property
    def lost(self) -> int:
        """Stack samples of all ranks that failed or were cut."""
        return sum(rank.lost for rank in self.ranks)

    @property
    def places(self) -> tuple[Place, ...]:
        """Places of all ranks, equal ones added up, most first."""
        return remembered(self, "places", lambda: merge_places(place for rank in self.ranks for place in rank.places))

    @property
    def worker_places(self) -> tuple[Place, ...]:
        """Places of all loader workers, equal ones added up, most first."""
        return merge_places(place for rank in self.ranks for place in rank.worker_places)

    @property
    def phases(self) -> dict[str, int]:
        """Good samples of all ranks by phase, most first."""
        return count_phases(self.places)


def count_phases(places: Iterable[Place]) -> dict[str, int]:
    """Samples by phase, most first."""
    counts: Counter[str] = Counter()
    for place in places:
        counts[place.phase] += place.count
    return dict(counts.most_common())


def merge_places(places: Iterable[Place]) -> tuple[Place, ...]:
    """Equal places added up, most counted first."""
    merged: dict[tuple[str, str, str, str, int], list[Place]] = {}
    for place in places:
        merged.setdefault((place.phase, place.kind, place.via, place.path, place.line), []).append(place)
    summed = [_sum(group) for group in merged.values()]
    return tuple(sorted(summed, key=lambda place: -place.count))


def _sum(group: list[Place]) -> Place:
    first = group[0]
    if len(group) == 1:
        return first
    return Place(
        phase=first.phase,
        kind=first.kind,
        via=first.via,
        path=first.path,
        line=first.line,
        function=first.function,
        text=first.text or next((place.text for place in group if place.text), ""),
        count=sum(place.count for place in group),
        episodes=sum(place.episodes for place in group),
    )
