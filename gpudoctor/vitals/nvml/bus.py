"""What the kernel's files say about NVIDIA GPUs, without asking the driver's library."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpudoctor.model.records import frozen
from gpudoctor.model.signs.gpu import PciDevice
from gpudoctor.model.unavailable import Absent, Reading

_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # PCI base class: VGA, XGA, 3D and other display controllers
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: the host's own


@frozen
class Roots:
    """Where the kernel's file trees are."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    etc: Path = Path("/etc")

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Roots":
        """The usual places, or those under `GPUDOCTOR_ROOT`: a folder that stands for / (for tests)."""
        root = environment.get("GPUDOCTOR_ROOT")
        if not root:
            return cls()
        return cls(**{name: Path(root) / name for name in ("sys", "proc", "dev", "etc")})


def pci_devices(roots: Roots) -> tuple[PciDevice, ...]:
    """NVIDIA controllers of the display class, by address; empty where there is no PCI bus to see."""
    return tuple(_pci_devices(roots.sys / "bus" / "pci" / "devices"))


def _pci_devices(folder: Path) -> Iterator[PciDevice]:
    try:
        addresses = sorted(os.listdir(folder))
    except OSError:
        return
    for address in addresses:
        if _word(folder / address / "vendor") != _NVIDIA:
            continue
        if not _word(folder / address / "class").startswith(_DISPLAY):
            continue
        device = _word(folder / address / "device").removeprefix("0x")
        yield PciDevice(address=address.lower(), device_id=f"10de:{device}", driver=_link(folder / address / "driver"))


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip().lower()
    except OSError:
        return ""


def _link(path: Path) -> str | None:
    try:
        return os.path.basename(os.readlink(path)) or None
    except OSError:
        return None


def device_nodes(roots: Roots) -> tuple[str, ...]:
    """/dev/nvidia0, /dev/nvidia1, ... in order. WSL's /dev/dxg is no sign: any vendor's GPU has it."""
    try:
        names = os.listdir(roots.dev)
    except OSError:
        return ()
    numbers = sorted(int(name[6:]) for name in names if re.fullmatch(r"nvidia\d+", name))
    return tuple(f"/dev/nvidia{number}" for number in numbers)


def denied_nodes(roots: Roots, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes that this process may not open: file permissions, or a device cgroup that grants other GPUs."""
    inside = [(node, roots.dev / node.removeprefix("/dev/")) for node in nodes]
    return tuple(node for node, path in inside if not os.access(path, os.R_OK | os.W_OK))


def kernel_module_version(roots: Roots) -> Reading[str]:
    """`570.86.15`, of the module that is loaded now."""
    try:
        text = (roots.proc / "driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except PermissionError:
        return Absent("no permission")
    except OSError:
        return Absent("the nvidia kernel module is not loaded")
    found = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", text, re.MULTILINE)
    return found.group(1) if found else Absent("/proc/driver/nvidia/version has no version")


def compat_libcuda(roots: Roots, environment: Mapping[str, str]) -> str | None:
    """The real path of a CUDA forward-compatibility libcuda that the loader will find, or None.

    Source: NVIDIA's CUDA compatibility guide; the packages install into a folder named `compat`.
    """
    folders = environment.get("LD_LIBRARY_PATH", "").split(":") + list(_configured_folders(roots))
    for folder in folders:
        library = os.path.join(folder, "libcuda.so.1")
        if "compat" in folder and os.path.exists(library):
            return os.path.realpath(library)
    return None


def _configured_folders(roots: Roots) -> Iterator[str]:
    try:
        files = sorted((roots.etc / "ld.so.conf.d").glob("*.conf"))
        for file in files:
            yield from file.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return


def pids_visible(roots: Roots) -> bool:
    """Whether a pid that NVML names can be looked up here.

    NVML gives host pids: inside a container's own pid namespace the same number is another process.
    """
    namespace = _link(roots.proc / "self/ns/pid")
    return namespace is None or namespace == _INITIAL_PID_NAMESPACE


def process_name(roots: Roots, pid: int) -> str | None:
    """The process's name, or None when this pid cannot be looked up here."""
    if not pids_visible(roots):
        return None
    try:
        name = (roots.proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return name or None
