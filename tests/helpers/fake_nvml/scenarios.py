"""The scenario matrix: machines, sick and well, with the findings that they must raise and no others."""

from dataclasses import dataclass

from fake_nvml.machine import CONTAINER_NAMESPACE, GIB, Machine, h100, rtx3060


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One machine and what a doctor must say about it."""

    name: str
    machine: Machine
    findings: tuple[str, ...] = ()
    """Codes with severity, `GPU003 error`, sorted; none for a machine in good health."""
    container: str | None = None
    """The container runtime that the host reader would report."""
    limit: float = 20.0
    """Seconds the driver may stay silent."""
    kernel_log: tuple[str, ...] = ()
    """Kernel messages of the last hour."""


def _sick(*changes: str, count: int = 8) -> Machine:
    return Machine(answers=[*h100(count), *changes])


_OF_A_GUEST = frozenset({
    "Init", "DriverVersion", "CudaDriverVersion", "Count", "HandleByIndex", "UUID", "PciInfo", "Architecture",
    "CudaComputeCapability", "DisplayActive", "UtilizationRates", "PersistenceMode", "ComputeMode", "MigMode",
    "ClockInfo", "ComputeProcesses", "GraphicsProcesses",
})  # fmt: skip
"""What a driver in a virtual machine answers of its part of a card; of errors, power, links and heat it says nothing."""

_NO_GPU = {"addresses": (), "nodes": 0, "module": None}

SCENARIOS = (
    Scenario(name="healthy 8x H100", machine=Machine()),
    Scenario(
        name="healthy desktop GeForce",
        machine=Machine(
            answers=rtx3060(), addresses=("0000:01:00.0",), nodes=1, names={1001: "Xorg", 2201: "gnome-shell"}
        ),
    ),
    Scenario(name="one GPU lost", machine=_sick("3 HandleByIndex 15"), findings=("GPU008 error",)),
    Scenario(
        name="row remap pending, uncorrectable", machine=_sick("2 RemappedRows 0 0 1 1 0"), findings=("GPU003 error",)
    ),
    Scenario(name="row remap failed", machine=_sick("5 RemappedRows 0 0 9 0 1"), findings=("GPU003 error",)),
    Scenario(name="uncorrectable ECC errors", machine=_sick("5 TotalEccErrors:1:0 0 3"), findings=("GPU003 error",)),
    Scenario(
        name="HW thermal slowdown",
        machine=_sick(
            "4 ClocksEventReasons 0 0x48",
            "4 UtilizationRates 0 97 40",
            "4 ClockInfo:1 0 800",
            "4 CurrPcieLinkGeneration 0 5",
        ),
        findings=("GPU002 warning",),
    ),
    Scenario(
        name="hot GPU", machine=_sick("4 Temperature:0 0 89", "4 MarginTemperature 0 1"), findings=("GPU011 warning",)
    ),
    Scenario(name="power limit at 50 %", machine=_sick("* EnforcedPowerLimit 0 350000"), findings=("GPU010 warning",)),
    Scenario(name="PCIe x8", machine=_sick("6 CurrPcieLinkWidth 0 8"), findings=("GPU005 warning",)),
    Scenario(name="one NVLink down", machine=_sick("1 NvLinkState:7 0 0"), findings=("GPU006 error",)),
    Scenario(name="fabric in progress", machine=_sick("* GpuFabricInfo 0 2 0 0"), findings=("GPU006 error",)),
    Scenario(name="recovery action 1 (reset)", machine=_sick("7 FieldValues:230 0 1"), findings=("GPU008 error",)),
    Scenario(
        name="MIG on",
        machine=_sick(
            "0 MigMode 0 1 1",
            "0 MaxMigDeviceCount 0 7",
            "0 MigDevice:0 0",
            "0 MigDevice:1 0",
            "4096 UUID 0 MIG-11111111-0000-0000-0000-000000000000",
            "4097 UUID 0 MIG-22222222-0000-0000-0000-000000000000",
        ),
        findings=("GPU007 note",),
    ),
    Scenario(
        name="occupied GPU",
        machine=Machine(
            answers=[*h100(), f"2 ComputeProcesses 0 1 4711 {40 * GIB}", f"2 MemoryInfo 0 {80 * GIB} {41 * GIB}"],
            names={4711: "python"},
        ),
        findings=("GPU007 warning",),
    ),
    Scenario(name="persistence off", machine=_sick("* PersistenceMode 0 0"), findings=("GPU012 note",)),
    Scenario(
        name="virtual GPU of a guest",
        machine=Machine(
            answers=[
                *(line for line in h100(1) if line.split()[1].partition(":")[0] in _OF_A_GUEST),
                "* Name 0 NVIDIA H100-20C",
                f"* MemoryInfo 0 {20 * GIB} {600 << 20}",
                "* EccMode 22",
                "* TotalEccErrors:1:0 22",
                "* PowerUsage 3",
                "* FieldValues 3",
            ],
            nodes=1,
            addresses=("0000:02:00.0",),
        ),
    ),
    Scenario(
        name="old driver",
        machine=Machine(
            answers=[
                *h100(),
                "- DriverVersion 0 470.57.02",
                "- CudaDriverVersion 0 11040",
                "* FieldValues:230 3",
                "* GpuFabricInfo 13",
            ],
            old_driver=True,
            module="470.57.02",
        ),
    ),
    Scenario(
        name="container, host pids",
        machine=Machine(
            answers=[*h100(2), f"0 ComputeProcesses 0 1 4711 {40 * GIB}"],
            nodes=2,
            namespace=CONTAINER_NAMESPACE,
            names={4711: "innocent"},
        ),
        findings=("GPU007 warning",),
        container="docker",
    ),
    Scenario(
        name="no permission for any detail",
        machine=_sick("* * 4", "* HandleByIndex 0", "* Name 0 NVIDIA H100 80GB HBM3"),
    ),
    Scenario(name="no permission at start", machine=_sick("- Init 4"), findings=("ENV001 error",)),
    Scenario(name="zero GPUs", machine=Machine(answers=h100(0), **_NO_GPU)),  # type: ignore[arg-type]
    Scenario(name="no library, no GPU", machine=Machine(library=False, **_NO_GPU)),  # type: ignore[arg-type]
    Scenario(
        name="no library, GPU on the bus",
        machine=Machine(library=False, nodes=0, module=None, bound_to="nouveau"),
        findings=("ENV001 error",),
    ),
    Scenario(
        name="container started without its GPUs",
        machine=Machine(library=False, nodes=0, module=None, namespace=CONTAINER_NAMESPACE),
        findings=("ENV001 note",),
        container="docker",
    ),
    Scenario(
        name="driver not loaded",
        machine=Machine(answers=["- Init 9"], nodes=0, module=None, bound_to=None),
        findings=("ENV001 error",),
    ),
    Scenario(
        name="driver and library differ",
        machine=Machine(answers=["- Init 18"], module="550.54.14"),
        findings=("ENV001 error",),
    ),
    Scenario(
        name="driver hangs at start", machine=Machine(answers=["- Init hang"]), findings=("ENV001 error",), limit=1.5
    ),
    Scenario(
        name="driver hangs on GPU 3", machine=_sick("3 EnforcedPowerLimit hang"), findings=("ENV001 error",), limit=1.5
    ),
    Scenario(name="driver crashes", machine=_sick("2 RemappedRows crash"), findings=("ENV001 error",)),
    Scenario(
        name="Xid 79 and 48 in the kernel log",
        machine=Machine(),
        findings=("GPU004 error", "GPU004 error"),
        kernel_log=(
            "NVRM: Xid (PCI:0000:1d:00): 48, pid=1234, name=python, DBE (double bit error) at location 0x1",
            "NVRM: Xid (PCI:0000:1e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        ),
    ),
)
