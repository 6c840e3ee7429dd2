"""A made-up machine: what its driver answers, and what the kernel's files say beside it."""

import os
from dataclasses import dataclass, field
from pathlib import Path

GIB = 1 << 30
MIB = 1 << 20
HOST_NAMESPACE = "pid:[4026531836]"
CONTAINER_NAMESPACE = "pid:[4026532741]"


def h100(count: int = 8) -> list[str]:
    """Answers of `count` healthy, idle H100 SXM cards behind NVSwitches, driver 570."""
    lines = [
        "- Init 0",
        "- DriverVersion 0 570.86.15",
        "- CudaDriverVersion 0 12080",
        f"- Count 0 {count}",
        "* HandleByIndex 0",
        "* Name 0 NVIDIA H100 80GB HBM3",
        "* VbiosVersion 0 96.00.89.00.01",
        "* Architecture 0 9",
        "* CudaComputeCapability 0 9 0",
        "* DisplayActive 0 0",
        f"* MemoryInfo 0 {80 * GIB} {600 * MIB}",
        "* UtilizationRates 0 0 0",
        "* EccMode 0 1 1",
        "* TotalEccErrors:0:0 0 0",
        "* TotalEccErrors:1:0 0 0",
        "* TotalEccErrors:1:1 0 0",
        "* MemoryErrorCounter:1:1:7 0 0",
        "* ValidateInforom 0",
        "* RemappedRows 0 0 0 0 0",
        "* RowRemapperHistogram 0 0",
        "* SramEccErrorStatus 0 0",
        "* FieldValues:230 0 0",
        "* FieldValues:82 0 40",
        *(f"* FieldValues:{key} 0 0" for key in (74, 269, 270, 271)),
        "* ClocksEventReasons 0 1",
        "* ClockInfo:1 0 345",
        "* MaxClockInfo:1 0 1980",
        "* ApplicationsClock:1 0 1980",
        "* DefaultApplicationsClock:1 0 1980",
        "* PowerUsage 0 70000",
        "* EnforcedPowerLimit 0 700000",
        "* PowerManagementDefaultLimit 0 700000",
        "* PersistenceMode 0 1",
        "* Temperature:0 0 32",
        "* TemperatureThreshold:1 0 90",
        "* TemperatureThreshold:2 0 95",
        "* TemperatureThreshold:3 0 87",
        "* MarginTemperature 0 50",
        "* CurrPcieLinkWidth 0 16",
        "* MaxPcieLinkWidth 0 16",
        "* CurrPcieLinkGeneration 0 1",
        "* MaxPcieLinkGeneration 0 5",
        "* PcieReplayCounter 0 0",
        *(f"* NvLinkState:{port} 0 1" for port in range(18)),
        *(f"* NvLinkErrorCounter:{counter} 0 0" for counter in range(3)),
        "* GpuFabricInfo 0 3 0 1",
        "* ComputeMode 0 0",
        "* MigMode 0 0 0",
        "* ComputeProcesses 0 0",
        "* GraphicsProcesses 0 0",
    ]
    for index in range(count):
        lines += [
            f"{index} UUID 0 GPU-0000000{index}-0000-0000-0000-000000000000",
            f"{index} PciInfo 0 00000000:{0x1B + index:02X}:00.0",
        ]
    return lines


def rtx3060() -> list[str]:
    """Answers of one GeForce in a desktop that drives a display: no ECC, no NVLink, no MIG, no margin."""
    return [
        "- Init 0",
        "- DriverVersion 0 550.54.14",
        "- CudaDriverVersion 0 12040",
        "- Count 0 1",
        "* HandleByIndex 0",
        "* Name 0 NVIDIA GeForce RTX 3060",
        "* UUID 0 GPU-aaaaaaaa-0000-0000-0000-000000000000",
        "* PciInfo 0 00000000:01:00.0",
        "* Architecture 0 7",
        "* CudaComputeCapability 0 8 6",
        "* DisplayActive 0 1",
        f"* MemoryInfo 0 {12 * GIB} {900 * MIB}",
        "* UtilizationRates 0 3 1",
        "* FieldValues:230 3",
        "* ClocksEventReasons 0 1",
        "* ClockInfo:1 0 210",
        "* MaxClockInfo:1 0 2100",
        "* PowerUsage 0 15000",
        "* EnforcedPowerLimit 0 170000",
        "* PowerManagementDefaultLimit 0 170000",
        "* PersistenceMode 0 0",
        "* Temperature:0 0 41",
        "* TemperatureThreshold:1 0 95",
        "* TemperatureThreshold:3 0 93",
        "* CurrPcieLinkWidth 0 16",
        "* MaxPcieLinkWidth 0 16",
        "* CurrPcieLinkGeneration 0 1",
        "* MaxPcieLinkGeneration 0 4",
        "* PcieReplayCounter 0 0",
        "* ComputeMode 0 0",
        f"* ComputeProcesses 0 1 2201 {250 * MIB}",
        f"* GraphicsProcesses 0 2 1001 {400 * MIB} 2201 {250 * MIB}",
    ]


@dataclass(kw_only=True)
class Machine:
    """What to lay out below a folder that stands for /."""

    answers: list[str] = field(default_factory=h100)
    """Lines of the fake library's file."""
    library: bool = True
    """Whether there is a libnvidia-ml.so.1 at all."""
    old_driver: bool = False
    """A library without the functions that came after r470."""
    addresses: tuple[str, ...] = tuple(f"0000:{0x1B + index:02x}:00.0" for index in range(8))
    """NVIDIA controllers on the PCI bus."""
    bound_to: str | None = "nvidia"
    """The kernel driver that has them."""
    nodes: int = 8
    """/dev/nvidia0 to N-1."""
    module: str | None = "570.86.15"
    """The version of the loaded kernel module."""
    namespace: str = HOST_NAMESPACE
    """The pid namespace."""
    names: dict[int, str] = field(default_factory=dict)
    """Processes that /proc shows."""

    def build(self, root: Path) -> dict[str, str]:
        """Lay it out; returns the environment variables that make gpudoctor see it."""
        for address in self.addresses:
            self._device(root / "sys/bus/pci/devices" / address)
        (root / "dev").mkdir(parents=True)
        for number in range(self.nodes):
            (root / "dev" / f"nvidia{number}").touch()
        (root / "etc").mkdir()
        proc = root / "proc"
        (proc / "self/ns").mkdir(parents=True)
        os.symlink(self.namespace, proc / "self/ns/pid")
        for pid, name in self.names.items():
            (proc / str(pid)).mkdir()
            (proc / str(pid) / "comm").write_text(name + "\n")
        if self.module:
            (proc / "driver/nvidia").mkdir(parents=True)
            (proc / "driver/nvidia/version").write_text(
                f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {self.module}  Thu Jan 23 03:14:15 UTC 2025\n"
                "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
            )
        (root / "answers").write_text("\n".join(self.answers) + "\n")
        return {"GPUDOCTOR_ROOT": str(root), "FAKE_NVML": str(root / "answers")}

    def _device(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
        (folder / "device").write_text("0x2330\n")
        if self.bound_to:
            os.symlink(f"../../../bus/pci/drivers/{self.bound_to}", folder / "driver")
