"""What an active examination of nodes, cards, links and the network measured, in the order of its stages.

Nodes have an index from 0 in the order of their lowest rank. A unit is one card, or the CPUs of a node
without cards; it is named by node and local index. A rate is in bytes or operations a second.
"""

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from functools import cached_property

from gpudoctor.model.records import dataclass, field, frozen

CPU_QUOTA = "CPU quota"
"""Name of the fact of a node that says how many CPUs' worth of time its control group grants: `0.5`, `none`."""


class Stage(Enum):
    """A part of the examination, in order."""

    ARRIVE = "arrive"
    """All ranks reach the coordinator."""
    MACHINE = "machine"
    """The checks of `gpudoctor check`, on each node."""
    CARD = "card"
    """Each unit alone: products, memory, transfers, values."""
    NODE = "node"
    """The units of one node together: peer to peer, all-reduce."""
    PAIRS = "pairs"
    """Two nodes at a time."""
    GROUP = "group"
    """All proven nodes together, and halves of them."""
    STORAGE = "storage"
    """Reads and writes of every node at once."""
    BURN = "burn"
    """Load that lasts, to see a card throttle."""


class Quantity(Enum):
    """What a figure measures; the value is its name in JSON and in tables of references."""

    MATMUL = "matmul"
    """Operations of a matrix product a second (2mnk); `dtype` says of which numbers."""
    MEMORY_BANDWIDTH = "memory_bandwidth"
    """Bytes read and written a second by a copy inside the unit's memory."""
    HOST_TO_DEVICE = "host_to_device"
    """Bytes a second from pinned memory of the host."""
    DEVICE_TO_HOST = "device_to_host"
    PEER_BANDWIDTH = "peer_bandwidth"
    """Bytes a second from one card to another of its node, one way."""
    BUS_BANDWIDTH = "bus_bandwidth"
    """As nccl-tests define it: of an all-reduce, algorithm bandwidth times 2(n-1)/n."""
    ONE_WAY_BANDWIDTH = "one_way_bandwidth"
    """Bytes a second one way, `direction` says which: no longer measured; reports of former releases hold it."""
    LATENCY = "latency"
    """Seconds of a small message, one way."""
    RETRANSMITTED = "retransmitted"
    """Share of its data segments that TCP sent again, of `repetitions` segments; `direction` says which way."""
    WRITE_BANDWIDTH = "write_bandwidth"
    READ_BANDWIDTH = "read_bandwidth"
    CLOCK = "clock"
    """Hz of the compute clock under load."""
    POWER = "power"
    """Watts under load."""
    TEMPERATURE = "temperature"
    """Degrees Celsius under load."""

    @property
    def unit(self) -> str:
        """The unit of its figures, as in `Measurement.unit`."""
        return _UNITS.get(self, "B/s")


_UNITS = {
    Quantity.MATMUL: "FLOP/s",
    Quantity.LATENCY: "s",
    Quantity.RETRANSMITTED: "1",
    Quantity.CLOCK: "Hz",
    Quantity.POWER: "W",
    Quantity.TEMPERATURE: "Cel",
}
"""Units of what is no rate of bytes."""


@frozen
class Figure:
    """One measured figure of a unit, a node or a group."""

    quantity: Quantity
    value: float
    """The median of its repetitions: per second, seconds, Hz, watts, degrees Celsius."""
    spread: float = 0.0
    """Median absolute deviation of the repetitions, as a share of the value."""
    repetitions: int = 1
    dtype: str = ""
    """`bf16`, `fp16`, `fp8`, `fp32`; "" where it has no meaning."""
    payload: int = 0
    """Bytes of one message or buffer; 0 where it has no meaning."""
    algorithm: str = ""
    """`ring`, `nvls`, `tree` or "" where the library chose and did not say."""
    when: str = ""
    """Of a burn: `first` or `last` part; "" elsewhere."""
    direction: str = ""
    """`forward`, from the first node of a test to the second; `backward`; "" where both count together."""

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return self.quantity.unit


@frozen
class MachineFinding:
    """A finding of the machine's checks on one node."""

    code: str
    name: str
    severity: str
    message: str
    fix: str
    """The first sentence of its best remedy; "" without one."""


@frozen
class PreflightNode:
    """One node and what it said of itself."""

    index: int
    name: str
    ranks: tuple[int, ...]
    """Ranks of the launcher on it, ascending."""
    address: str = ""
    """The address from which the coordinator saw it."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What nodes must agree about: `torch`, `nccl`, `driver`, `env NCCL_IB_HCA`, `mtu eth0`, ..."""
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    """Free bytes of each folder that the job writes to."""
    clock_offset: float | None = None
    """Seconds that its wall clock is ahead of the coordinator's; None where it was not measured."""
    clock_error: float = 0.0
    """Seconds of uncertainty of it: half of the shortest round trip."""
    findings: tuple[MachineFinding, ...] = ()
    unexamined: tuple[str, ...] = ()
    """What its machine checks could not read, a clause each."""


@frozen
class Unit:
    """One card (or the CPUs of a node) and what it reached alone."""

    node: int
    local: int
    """Index of the card on its node."""
    device: str
    name: str
    """Name of the card, or of the processor."""
    bus_id: str = ""
    uuid: str = ""
    figures: tuple[Figure, ...] = ()
    digests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By product (`bf16 4096`): digest of the result of each repetition. Equal inputs on each unit."""
    failure: str = ""
    """Why it gave no figure; "" where it did."""

    def figure(self, quantity: Quantity, dtype: str = "", when: str = "") -> Figure | None:
        """The first figure of a quantity; None where it was not measured."""
        wanted = (quantity, dtype, when)
        return next((item for item in self.figures if (item.quantity, item.dtype, item.when) == wanted), None)


@frozen
class LinkTest:
    """A test of several units together: two cards, one node, two nodes, many nodes."""

    stage: Stage
    round: int
    """0 is the first round of its stage."""
    nodes: tuple[int, ...]
    """Indices of the nodes; one of them where the test is inside a node."""
    units: tuple[tuple[int, int], ...] = ()
    """Node and local index of each unit, in the order of the group's ranks."""
    figures: tuple[Figure, ...] = ()
    failure: str = ""
    """Why it gave no figure (`timed out after 20 s`, the library's message); "" where it did."""
    blamed: tuple[int, ...] = ()
    """Nodes at which the failure itself points: a process that died or did not answer there."""

    def figure(self, quantity: Quantity) -> Figure | None:
        """The figure of a quantity; None where it was not measured."""
        return next((item for item in self.figures if item.quantity is quantity), None)


@frozen
class StorageTest:
    """What one node saw of one folder while every node used it."""

    node: int
    folder: str
    visible: bool
    writable: bool
    same: bool | None
    """Whether it read what the coordinator's node had written; None where that was not tried."""
    figures: tuple[Figure, ...] = ()
    failure: str = ""


class LossKind(Enum):
    """How a rank was lost."""

    NEVER_CAME = "never came"
    DIED = "died"
    SILENT = "silent"
    """Its connection stands, and it answers nothing."""
    STUCK = "stuck"
    """It answers, and its stage did not end within the limit."""
    REFUSED = "refused"
    """It came with another world size, rank or version."""


@frozen
class Loss:
    """A rank that did not take part to the end."""

    rank: int
    """-1 where it is not known."""
    node: int | None
    """None where it never came."""
    stage: Stage
    kind: LossKind
    words: str
    """What was seen, a clause: `killed by signal 9`, `cannot resolve head-node`."""
    stack: tuple[str, ...] = ()
    """`file:line function`, innermost last; empty where it could not be read."""


@frozen
class StageRun:
    """A stage that was begun."""

    stage: Stage
    seconds: float
    limit: float
    """Seconds it might have used."""
    ended: bool
    """Whether it ended by itself, within its limit."""


@dataclass(frozen=True, kw_only=True)  # without slots: the names are kept
class Preflight:
    """One active examination."""

    mode: str
    """`quick`, `standard` or `deep`."""
    backend: str
    """`nccl` or `gloo`; "" where no group was made."""
    world: int
    """Ranks that the launcher announced."""
    nodes: tuple[PreflightNode, ...]
    units: tuple[Unit, ...] = ()
    tests: tuple[LinkTest, ...] = ()
    storage: tuple[StorageTest, ...] = ()
    losses: tuple[Loss, ...] = ()
    stages: tuple[StageRun, ...] = ()
    untested: tuple[str, ...] = ()
    """What was not examined and why, a sentence each."""
    seconds: float = 0.0
    before: "Preflight | None" = None
    """An earlier one, to compare with; it is not part of the JSON report."""

    def name(self, node: int) -> str:
        """The host name of a node, with its index where two nodes have the same one."""
        return self._names[node]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        counts = Counter(item.name for item in self.nodes)
        placed = enumerate(self.nodes)
        return tuple(item.name if counts[item.name] == 1 else f"{item.name}#{index}" for index, item in placed)
