"""A recording of a run as checks see it: columns of steps, records of every rank, the machine beside it.

The reader (`gpudoctor.vitals.recording`) fills it from a folder that `gpudoctor run` wrote
(docs/recording.md), or from an imported trace. What was not recorded is absent: an empty column, None, NaN.
"""

import re
from array import array
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from gpudoctor.model.records import field, frozen
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor.probe.wire.steps import DEVICE as DEVICE
from gpudoctor.probe.wire.steps import PHASES as PHASES

EARLY_DEATH_FILE = re.compile(r"early-(x|[0-9]{1,9})-([0-9]{1,9})-([0-9]{1,9})\.txt$")
"""Name of the file about a process that ended before torch was imported: rank or `x`, its parent, itself."""
_BY_TYPE = "records by type"


@frozen
class Table:
    """Rows of one table, column by column; all columns are equally long."""

    columns: Mapping[str, "array[float] | array[int]"]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> "Sequence[float]":
        """A column's values; empty where it was not recorded."""
        return self.columns.get(name, array("d"))


@frozen
class Record:
    """One JSON record."""

    type: str
    t: float
    fields: Mapping[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or the default."""
        return self.fields.get(name, default)


@frozen
class Process:
    """One recorded process: a rank, or a loader worker."""

    rank: int
    """Global rank; 0 where there is one process without a rank."""
    node: str
    pid: int
    wall: float
    """Epoch seconds at its t = 0."""
    steps: Table
    """Empty for workers."""
    records: tuple[Record, ...]
    lost_bytes: int = 0
    """Bytes at the end of its file that could not be read: a frame cut short."""
    clean: bool = False
    """Whether it said goodbye."""
    memory: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    """Answers about it that were worked out once (`gpudoctor.analysis.memo`)."""

    def of(self, *types: str) -> tuple[Record, ...]:
        """Records of these types, in order."""
        if len(types) == 1:
            return self._by_type().get(types[0], ())
        return tuple(record for record in self.records if record.type in types)

    def first(self, type: str) -> Record | None:
        """The first record of a type."""
        return next(iter(self.of(type)), None)

    def last(self, type: str) -> Record | None:
        """The last record of a type."""
        found = self.of(type)
        return found[-1] if found else None

    def _by_type(self) -> "Mapping[str, tuple[Record, ...]]":
        """The records by their type, sorted out once.

        A copy of a process with other records shares its memory, so the records that they are of are kept too.
        """
        known = self.memory.get(_BY_TYPE)
        if known is None or known[0] is not self.records:
            lists: dict[str, list[Record]] = {}
            for record in self.records:
                lists.setdefault(record.type, []).append(record)
            known = (self.records, {name: tuple(found) for name, found in lists.items()})
            self.memory[_BY_TYPE] = known
        found: Mapping[str, tuple[Record, ...]] = known[1]
        return found


@frozen
class RunEnd:
    """How the command ended."""

    exit_code: int | None = None
    signal: str | None = None
    seconds: float | None = None
    stopped_by: str | None = None
    """`steps`, `seconds` or `interrupt` when gpudoctor or the user ended it; None when it ended by itself."""
    oom_kills: int = 0
    """Processes that the kernel or the cgroup killed for memory meanwhile."""
    kernel: tuple[str, ...] = ()
    """Kernel messages of that time that speak of the command: OOM, Xid, segfault."""

    @property
    def failed(self) -> bool:
        """Whether the command died: a non-zero exit that nobody asked for."""
        return self.exit_code not in (None, 0) and self.stopped_by is None


@frozen
class Beside:
    """The machine beside a run on one of its nodes."""

    node: str
    machine: Table
    facts: Mapping[str, Any]


@frozen
class Recording:
    """One run."""

    path: str
    """The folder or file, as the user named it."""
    command: tuple[str, ...]
    """Secrets masked; empty for an imported trace."""
    cwd: str
    started: str
    node: str = ""
    """Name of the machine that the manifest speaks of."""
    commit: str = ""
    """Commit of the checkout around the working folder; "" without one."""
    gpudoctor: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that matter to training, secrets masked."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    scripts: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    """Hash and text of the run's own scripts by absolute path, secrets masked; None where the text was not kept."""
    ranks: tuple[Process, ...] = ()
    workers: tuple[Process, ...] = ()
    """Loader workers; `rank` is their parent's."""
    launchers: tuple[Process, ...] = ()
    """Processes without a rank beside ranks: a launcher, whose last words say how its children died."""
    machine: Table = field(default_factory=lambda: Table(columns={}))
    """Samples beside the run; columns as in docs/recording.md, of several GPUs `gpu0_sm`, `gpu1_sm`...

    Of several nodes: the first rank's, and the GPUs of all others behind its own, at its moments.
    """
    machine_facts: Mapping[str, Any] = field(default_factory=dict)
    """Names, counts and limits of the machine: `gpus`, `cpus`, `memory`, `cgroup_memory`."""
    nodes: tuple[Beside, ...] = ()
    """What was sampled on each node, as it was; the first rank's node first."""
    end: RunEnd | None = None
    """None where the recorder itself was killed."""
    early_deaths: Mapping[str, bytes] = field(default_factory=dict)
    """By the path of each file: what processes printed that died before they imported torch."""
    kernel_log: KernelLog | None = None
    """Messages of the kernel, where a saved log of it was named."""
    origin: str = "gpudoctor"
    """`gpudoctor`, `kernel log`."""
    problems: tuple[str, ...] = ()
    """What could not be read, a sentence each."""
    memory: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    """Answers about it that were worked out once (`gpudoctor.analysis.memo`)."""

    @property
    def holds_run(self) -> bool:
        """Whether a run was recorded; a kernel log holds none."""
        return bool(self.ranks) or self.origin == "gpudoctor"
