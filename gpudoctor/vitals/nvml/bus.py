"""What the kernel's files say about NVIDIA GPUs, without asking the driver's library."""

import os
import re
from collections.abc import Mapping

from gpudoctor.model.signs.gpu import PciDevice
from gpudoctor.model.unavailable import Absent, Reading
from gpudoctor.vitals.host.proc_tree import Tree

_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # PCI base class: VGA, XGA, 3D and other display controllers
_DEVICES = "/sys/bus/pci/devices"
_VERSION = "/proc/driver/nvidia/version"
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: the host's own


def tree_of(environment: Mapping[str, str]) -> Tree:
    """The machine's own files, or those under `GPUDOCTOR_ROOT`: a folder that stands for / (for tests)."""
    return Tree(root=environment.get("GPUDOCTOR_ROOT") or "/")


def pci_devices(tree: Tree) -> tuple[PciDevice, ...]:
    """NVIDIA controllers of the display class, by address; empty where there is no PCI bus to see."""
    found = []
    for address in tree.names(_DEVICES):
        vendor, kind, device = (
            (tree.text(f"{_DEVICES}/{address}/{name}") or "").strip().lower() for name in ("vendor", "class", "device")
        )
        if vendor == _NVIDIA and kind.startswith(_DISPLAY):
            driver = os.path.basename(tree.link(f"{_DEVICES}/{address}/driver")) or None
            number = device.removeprefix("0x")
            found.append(PciDevice(address=address.lower(), device_id=f"10de:{number}", driver=driver))
    return tuple(found)


def device_nodes(tree: Tree) -> tuple[str, ...]:
    """/dev/nvidia0, /dev/nvidia1, ... in order. WSL's /dev/dxg is no sign: any vendor's GPU has it."""
    numbers = sorted(int(name[6:]) for name in tree.names("/dev") if re.fullmatch(r"nvidia\d+", name))
    return tuple(f"/dev/nvidia{number}" for number in numbers)


def denied_nodes(tree: Tree, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes that this process may not open: file permissions, or a device cgroup that grants other GPUs."""
    return tuple(node for node in nodes if not os.access(tree.at(node), os.R_OK | os.W_OK))


def kernel_module_version(tree: Tree) -> Reading[str]:
    """`570.86.15`, of the module that is loaded now."""
    text = tree.text(_VERSION)
    if text is None:
        there = tree.exists(_VERSION)
        return Absent("no permission") if there else Absent("the nvidia kernel module is not loaded")
    found = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", text, re.MULTILINE)
    return found.group(1) if found else Absent("/proc/driver/nvidia/version has no version")


def compat_libcuda(tree: Tree, environment: Mapping[str, str]) -> str | None:
    """The real path of a CUDA forward-compatibility libcuda that the loader will find, or None.

    Source: NVIDIA's CUDA compatibility guide; the packages install into a folder named `compat`.
    """
    folders = environment.get("LD_LIBRARY_PATH", "").split(":")
    for name in tree.names("/etc/ld.so.conf.d"):
        folders += (tree.text(f"/etc/ld.so.conf.d/{name}") or "").split() if name.endswith(".conf") else []
    for folder in folders:
        library = os.path.join(folder, "libcuda.so.1")
        if "compat" in folder and os.path.exists(library):
            return os.path.realpath(library)
    return None


def pids_visible(tree: Tree) -> bool:
    """Whether a pid that NVML names can be looked up here.

    NVML gives host pids: inside a container's own pid namespace the same number is another process.
    """
    return tree.link("/proc/self/ns/pid") in ("", _INITIAL_PID_NAMESPACE)


def process_name(tree: Tree, pid: int) -> str | None:
    """The process's name, or None when this pid cannot be looked up here."""
    return (tree.text(f"/proc/{pid}/comm") or "").strip() or None if pids_visible(tree) else None
