"""What stands between GPUs and network cards: InfiniBand devices, the IOMMU, PCIe access control."""

import os
import re

from gpudoctor.model import Absent, Reading
from gpudoctor.vitals.host.proc_tree import Tree

_ADDRESS = re.compile(r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_EXTENDED = 0x100
"""Offset of the extended capabilities in PCI Express configuration space."""
_ACS = 0x000D
"""Id of the Access Control Services capability (PCI Express base specification 7.7.8)."""
_REDIRECT = 0x0004 | 0x0008
"""P2P request redirect and P2P completion redirect of the ACS control register."""


def infiniband(tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """RDMA devices with a port that is up, and those of them that run over Ethernet (RoCE)."""
    devices, ethernet = [], []
    for name in tree.names("/sys/class/infiniband"):
        ports = [f"/sys/class/infiniband/{name}/ports/{port}" for port in tree.names(
            f"/sys/class/infiniband/{name}/ports"
        )]  # fmt: skip
        states = [tree.text(f"{port}/state") for port in ports]
        # A card whose ports do not say is counted; one whose ports are all down carries nothing.
        told = [state for state in states if state is not None]
        if told and not any("ACTIVE" in state for state in told):
            continue
        devices.append(name)
        layers = {(tree.text(f"{port}/link_layer") or "").strip() for port in ports}
        if layers == {"Ethernet"}:
            ethernet.append(name)
    return tuple(devices), tuple(ethernet)


def gpu_addresses(tree: Tree) -> tuple[str, ...]:
    """PCI addresses of NVIDIA display and 3D controllers."""
    found = []
    for address in tree.names("/sys/bus/pci/devices"):
        folder = f"/sys/bus/pci/devices/{address}"
        if (tree.text(f"{folder}/vendor") or "").strip() == "0x10de" and (
            tree.text(f"{folder}/class") or ""
        ).startswith("0x03"):
            found.append(address)
    return tuple(found)


def iommu(tree: Tree, gpus: tuple[str, ...]) -> Reading[bool]:
    """Whether the IOMMU translates the GPUs' addresses; passthrough ("identity") does not count as on."""
    if not tree.exists("/sys/class"):
        return Absent("no /sys on this system")
    if not tree.names("/sys/class/iommu"):
        return False
    domains = [tree.text(f"/sys/bus/pci/devices/{gpu}/iommu_group/type") for gpu in gpus]
    told = [domain.strip() for domain in domains if domain]
    if told:
        return any(domain.startswith("DMA") for domain in told)
    words = (tree.text("/proc/cmdline") or "").split()
    passthrough = {"iommu=pt", "iommu=off", "intel_iommu=off", "amd_iommu=off", "iommu.passthrough=1"}
    return not passthrough & set(words)


def acs(tree: Tree, gpus: tuple[str, ...]) -> Reading[bool]:
    """Whether a bridge above a GPU redirects peer-to-peer traffic to the root complex."""
    if not gpus:
        return Absent("no NVIDIA GPU on the PCI bus")
    bridges = {bridge for gpu in gpus for bridge in _bridges(tree, gpu)}
    if not bridges:
        return Absent("no PCIe bridge above the GPUs is visible (a virtual machine or a container)")
    read = [control for bridge in sorted(bridges) if (control := _control(tree, bridge)) is not None]
    if not read:
        return Absent("PCIe configuration space needs root")
    return any(control & _REDIRECT for control in read)


def _bridges(tree: Tree, gpu: str) -> list[str]:
    """Paths of the bridges between the root complex and a GPU."""
    real = os.path.realpath(tree.at(f"/sys/bus/pci/devices/{gpu}"))
    found = []
    parent = os.path.dirname(real)
    while _ADDRESS.match(os.path.basename(parent)):
        found.append(parent)
        parent = os.path.dirname(parent)
    return found


def _control(tree: Tree, bridge: str) -> int | None:
    """The ACS control register of a bridge; 0 without the capability, None when it may not be read."""
    del tree  # the path is a real one already
    try:
        with open(os.path.join(bridge, "config"), "rb") as file:
            space = file.read(4096)
    except OSError:
        return None
    return acs_control(space)


def acs_control(space: bytes) -> int | None:
    """The ACS control register in a configuration space; None when only its head could be read."""
    if len(space) <= _EXTENDED + 4:  # without CAP_SYS_ADMIN the kernel gives 64 bytes
        return None
    offset, seen = _EXTENDED, set[int]()
    while _EXTENDED <= offset <= len(space) - 8 and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(space[offset : offset + 4], "little")
        if header & 0xFFFF == _ACS:
            return int.from_bytes(space[offset + 6 : offset + 8], "little")
        offset = header >> 20
    return 0
