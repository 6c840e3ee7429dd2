"""What NVML, the PCI bus and the device nodes say about the GPUs."""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TypeVar

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Absent, Reading, Unavailable

T = TypeVar("T")

_LAPTOP = re.compile(r"\b(Laptop|Max-Q|Mobile|MX\d+)\b|\b\d{3,4}M\b")
_DESK = re.compile(
    r"GeForce|TITAN|Quadro|\bRTX\b|\bGTX\b|\bNVS\b|Laptop|Max-Q|\bMX\d+|\bOrin\b|\bXavier\b|\bThor\b|\bGB10\b|^GRID|"
    r"-\d+[QBC]$"
)


class DriverState(Enum):
    """How NVML answered."""

    READY = "ready"
    NO_LIBRARY = "no driver library"
    NOT_LOADED = "driver not loaded"
    MISMATCH = "driver and library differ"
    NO_PERMISSION = "no permission"
    FAILED = "failed"
    HUNG = "hung"
    CRASHED = "crashed"


@frozen
class PciDevice:
    """An NVIDIA display or 3D controller on the PCI bus, whether or not a driver has it."""

    address: str
    device_id: str
    driver: str | None
    """The kernel driver bound to it: `nvidia`, `nouveau`, `vfio-pci`, or None."""


@frozen
class LostGpu:
    """A GPU that the driver counts but that does not answer."""

    index: int
    error: str
    cause: str = "lost"
    """`lost` (off the bus), `reset required`, `no permission` (granted to somebody else), `driver` (it hung or
    crashed there) or `unknown`."""

    @property
    def label(self) -> str:
        """How messages name it: `GPU 5`."""
        return f"GPU {self.index}"


@frozen
class GpuProcess:
    """A process that holds memory on a GPU."""

    pid: int
    """As NVML says it: a host pid, which a container cannot map."""
    memory: Reading[int]
    kind: str
    """`compute` or `graphics`."""
    name: str | None = None
    """The process's name, where this pid is visible here."""
    ours: bool = False
    """True for this examination's own job (the target process and its children)."""


@frozen
class RowRemap:
    """Row remapping of HBM cards (Ampere and later)."""

    uncorrectable: int
    pending: bool
    failure: bool


@frozen
class NvLink:
    """One NVLink port."""

    index: int
    active: bool


@frozen
class Gpu:
    """One GPU's readings at one moment. Bytes, watts, degrees Celsius, megahertz."""

    index: int
    name: str
    uuid: Reading[str]
    pci_address: Reading[str]
    memory_total: Reading[int]
    memory_used: Reading[int]
    compute_capability: Reading[tuple[int, int]]
    utilization: Reading[float]
    """NVML's busy share (0..1): time with at least one kernel, not how full the card is."""
    ecc_uncorrected_volatile: Reading[int]
    """Since the driver was loaded."""
    row_remap: Reading[RowRemap]
    retired_pages: Reading[int]
    recovery_action: Reading[int]
    """NVML field 230: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset, ..."""
    event_reasons: Reading[int]
    """Bit mask of current clocks event (throttle) reasons."""
    power: Reading[float]
    power_limit: Reading[float]
    """The enforced limit, watts."""
    power_limit_default: Reading[float]
    temperature: Reading[float]
    temperature_slowdown: Reading[float]
    temperature_max: Reading[float]
    """GPU_MAX threshold: where performance is no longer guaranteed."""
    temperature_memory: Reading[float]
    temperature_memory_max: Reading[float]
    temperature_margin: Reading[float]
    pcie_width: Reading[int]
    pcie_width_max: Reading[int]
    pcie_generation: Reading[int]
    pcie_generation_max: Reading[int]
    nvlinks: Reading[tuple[NvLink, ...]]
    fabric_state: Reading[int]
    """0 not applicable, 1 not started, 2 in progress, 3 done."""
    fabric_unhealthy: Reading[bool]
    persistence: Reading[bool]
    compute_mode: Reading[int]
    """0 default, 2 prohibited, 3 exclusive process."""
    mig_enabled: Reading[bool]
    mig_instances: Reading[tuple[str, ...]]
    processes: Reading[tuple[GpuProcess, ...]]
    display_active: Reading[bool]

    @property
    def label(self) -> str:
        """How messages name it: `GPU 5`."""
        return f"GPU {self.index}"

    @property
    def server_card(self) -> bool:
        """Whether it is a data-centre card by its name: not GeForce, workstation, laptop, Jetson or vGPU."""
        return is_server_card(self.name)

    @property
    def grace(self) -> bool:
        """Whether it is one module with a Grace CPU: joined by NVLink-C2C, its memory a node of the host's."""
        return is_grace(self.name)

    @property
    def laptop(self) -> bool:
        """Whether it is a laptop's card, whose power and clocks the firmware moves about."""
        return bool(_LAPTOP.search(self.name))


def is_server_card(name: str) -> bool:
    """Whether a card's name is that of a data-centre card; see `Gpu.server_card`."""
    return "Server Edition" in name or not _DESK.search(name)


def is_grace(name: str) -> bool:
    """Whether a card's name is that of a module with a Grace CPU; see `Gpu.grace`."""
    return bool(re.search(r"\bG[BH]\d+", name))


@frozen
class GpuSurvey:
    """The driver, the bus and every GPU; always takeable, even where there is no GPU."""

    driver: DriverState
    driver_error: str = ""
    """NVML's words, or ours, when the driver is not ready."""
    driver_version: Reading[str]
    cuda_driver_version: Reading[tuple[int, int]]
    """Newest CUDA that the driver speaks, e.g. (12, 8)."""
    kernel_module_version: Reading[str]
    """From /proc/driver/nvidia/version."""
    pci_devices: tuple[PciDevice, ...]
    device_nodes: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    lost: tuple[LostGpu, ...] = ()
    compat_libcuda: str | None = None
    """A CUDA forward-compatibility libcuda on the loader path, symbolic links resolved."""
    denied_nodes: tuple[str, ...] = ()
    """Device nodes that this process may not open: file permissions, or a cgroup that grants other GPUs."""
    pids_visible: bool = True
    """False in a container's own pid namespace: its pids cannot be mapped here."""

    @property
    def absence(self) -> str:
        """Why there is no GPU to examine, as a clause."""
        if self.driver is DriverState.READY:
            return say("the driver sees no GPU") if not self.lost else say("no GPU answers")
        if self.driver is DriverState.NO_LIBRARY and not self.pci_devices:
            return say("no NVIDIA GPU on this machine")
        error = say(" ({driver_error})", driver_error=self.driver_error) if self.driver_error else ""
        return say("NVIDIA driver: {driver}", driver=self.driver.value) + error


def answering(gpus: tuple[Gpu, ...], reading: Callable[[Gpu], Reading[T]]) -> Iterator[tuple[Gpu, T]]:
    """Pairs of a GPU and a reading, for those that have it; raises `Unavailable` when none has."""
    values = [(gpu, reading(gpu)) for gpu in gpus]
    known = [(gpu, value) for gpu, value in values if not isinstance(value, Absent)]
    if values and not known:
        first = values[0][1]
        raise Unavailable(first.reason if isinstance(first, Absent) else say("no reading"))
    yield from known


def name_gpus(gpus: "Iterable[Gpu | LostGpu]") -> str:
    """`GPU 5`, `GPU 3, 5` or `GPU 0-7`: how a finding about several names its subject."""
    runs: list[list[int]] = []
    for index in sorted({gpu.index for gpu in gpus}):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    words = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return "GPU " + concatenated(", ", words) if words else ""


def list_gpus(gpus: "Iterable[Gpu | LostGpu]") -> str:
    """`0,1,2`: the indices as commands take them."""
    return ",".join(str(index) for index in sorted({gpu.index for gpu in gpus}))
