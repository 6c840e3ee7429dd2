"""What a node says of itself without any library: who it is, what nodes must agree about, free disk."""

import os
import platform
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir

from gpudoctor import __version__
from gpudoctor.model.external_files import read_head
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.preflight import CPU_QUOTA
from gpudoctor.recorder.checkout import checked_out
from gpudoctor.text import joined
from gpudoctor.vitals.host.cgroup import read_group
from gpudoctor.vitals.host.disks import read_mounts
from gpudoctor.vitals.host.proc_tree import Tree

_MOST = 1 << 20
"""Bytes read of a file of the kernel's."""
_CHOICES = re.compile(r"(NCCL|TORCH_NCCL|TORCH_FR|GLOO|OMP|MKL|FI|UCX|PYTORCH|CUBLAS|TORCH_CUDNN)_[A-Z0-9_]+")
"""Variables that change what the libraries do; they must be equal on each node, or have a reason."""


def identity() -> str:
    """Which node this is: two network namespaces of one machine count as two, two ranks of one as one."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(_read(Path("/proc/sys/kernel/random/boot_id")).strip())
    with suppress(OSError):
        parts.append(str(os.stat("/proc/self/ns/net").st_ino))
    return " ".join(parts)


def node_facts(environment: Mapping[str, str]) -> dict[str, str]:
    """What nodes must agree about, by name."""
    facts = {
        "gpudoctor": __version__,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": processor(),
        "CPUs": str(len(os.sched_getaffinity(0))),
        CPU_QUOTA: cpu_quota(),
    }
    with suppress(OSError, ValueError):
        text = _read(Path("/proc/driver/nvidia/version"))
        if found := re.search(r"Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)", text):
            facts["driver"] = found[1]
    facts |= _interfaces()
    for name, value in sorted(environment.items()):
        if _CHOICES.fullmatch(name):
            facts[f"env {name}"] = mask_text(value)[:200]
    if commit := checked_out(Path.cwd()):
        facts["code"] = commit
    return facts


def cpu_quota(tree: Tree | None = None) -> str:
    """CPUs' worth of time that the control group grants, `1.5`; `none` where it sets no quota."""
    tree = tree or Tree()
    quota = read_group(tree, read_mounts(tree)).cpu_quota()
    return "none" if quota is None else f"{quota:.3g}"


def processor() -> str:
    """The processor's name, as the kernel has it."""
    with suppress(OSError, ValueError):
        for line in _read(Path("/proc/cpuinfo")).splitlines():
            if line.lower().startswith(("model name", "cpu model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _interfaces() -> dict[str, str]:
    facts: dict[str, str] = {}
    for name in sorted(_names_of_interfaces()):
        folder = Path("/sys/class/net", name)
        with suppress(OSError, ValueError):
            up = _read(folder / "operstate").strip() in ("up", "unknown")
            if name != "lo" and up:
                facts[f"mtu {name}"] = _read(folder / "mtu").strip()
    if facts:
        facts["interfaces"] = joined([name.removeprefix("mtu ") for name in facts])
    return facts


def _names_of_interfaces() -> list[str]:
    with suppress(OSError):
        return [name for _, name in socket.if_nameindex()]
    return []


def free_bytes(folders: tuple[str, ...]) -> dict[str, int]:
    """Free bytes of each folder that is there, for this user."""
    found = {}
    for folder in dict.fromkeys((os.getcwd(), gettempdir(), "/dev/shm", *folders)):
        with suppress(OSError):
            disk = os.statvfs(folder)
            found[folder] = disk.f_bavail * disk.f_frsize
    return found


def interface_of(address: str) -> str:
    """The interface that has an IPv4 address; "" where none has."""
    import fcntl
    import struct

    for name in _names_of_interfaces():
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            request = struct.pack("256s", name.encode()[:15])
            own = socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, request)[20:24])  # SIOCGIFADDR
            if own == address:
                return name
    return ""


def _read(path: Path) -> str:
    return read_head(path, _MOST).decode("utf-8", "replace")
