"""The machine beside the run: what its CPUs, memory, disks and network do, as numbers since the last look."""

import os
from contextlib import suppress
from typing import Any

from gpudoctor.vitals.host.cgroup import ControlGroup, read_group
from gpudoctor.vitals.host.mounts import read_mounts
from gpudoctor.vitals.host.proc_tree import Tree

_NOT_A_NET = ("lo", "Loopback")


class HostMeter:
    """Rates between two calls of `sample`."""

    def __init__(self, group: ControlGroup | None = None) -> None:
        self._group = group or control_group()
        self._before: dict[str, float] = {}
        self._at = 0.0

    def sample(self, now: float) -> dict[str, float]:
        """One reading at `now` (monotonic seconds); rates are missing in the first."""
        import psutil

        memory = psutil.virtual_memory()
        granted = self._group.memory(memory.total)
        used = granted.used if granted.limit is not None and granted.used is not None else None
        taken = {
            "memory": float(memory.total - memory.available if used is None else used),
            "swap": float(psutil.swap_memory().used),
        }
        counters = _counters()
        seconds = now - self._at
        if self._before and seconds > 0:
            taken |= {
                name: max(0.0, value - self._before[name]) / seconds
                for name, value in counters.items()
                if name in self._before
            }
            total = taken.pop("_cpu_total", 0.0)
            taken["io_wait"] = taken["io_wait"] / total if total and "io_wait" in taken else float("nan")
        self._before, self._at = counters, now
        return taken

    def facts(self) -> dict[str, Any]:
        """Counts and limits: `cpus` that affinity and quota leave the command of `machine_cpus`, `memory` and
        `cgroup_memory` (bytes), `disks`.
        """
        import psutil

        total, every = psutil.virtual_memory().total, os.cpu_count()
        cpus: float | None = every
        with suppress(OSError, AttributeError):
            cpus = len(os.sched_getaffinity(0))
        quota = self._group.cpu_quota()
        if cpus is not None and quota is not None:
            cpus = min(cpus, quota)
        memory = self._group.memory(total).limit
        return {
            "cpus": cpus,
            "machine_cpus": every,
            "memory": total,
            "cgroup_memory": memory,
            "disks": _disks(),
        }


def control_group() -> ControlGroup:
    """The control group that we and the command are in."""
    tree = Tree()
    return read_group(tree, read_mounts(tree))


def _counters() -> dict[str, float]:
    """Counters that only grow; what this system does not count is left out."""
    import psutil

    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Linux counts the time of guests in user time too.
    every = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    found = {"cpu": every - idle, "_cpu_total": every}
    if hasattr(times, "iowait"):
        found["io_wait"] = times.iowait
    with suppress(OSError, RuntimeError):
        disks = psutil.disk_io_counters(nowrap=True)
        if disks is not None:
            found |= {"disk_read": disks.read_bytes, "disk_write": disks.write_bytes}
    with suppress(OSError, RuntimeError):
        nets = psutil.net_io_counters(pernic=True, nowrap=True)
        cards = [net for name, net in nets.items() if not name.startswith(_NOT_A_NET)]
        found |= {
            "net_rx": float(sum(net.bytes_recv for net in cards)),
            "net_tx": float(sum(net.bytes_sent for net in cards)),
        }
    return found


def _disks() -> list[str]:
    """Kind of file system of the working folder, its mount point before it: `/data nfs4`."""
    import psutil

    try:
        here = os.getcwd()
        parts = psutil.disk_partitions(all=True)
    except OSError:
        return []
    on = [
        part for part in parts if here == part.mountpoint or here.startswith(part.mountpoint.rstrip("/") + "/")
    ]
    return [
        f"{part.mountpoint} {part.fstype}" for part in sorted(on, key=lambda part: -len(part.mountpoint))[:1]
    ]
