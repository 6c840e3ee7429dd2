"""The machine beside the job: CPUs, memory, disks and network since the last look."""

import os
import re
from typing import Any

from gpudoctor.model.signs.process import NAN, HostWindow
from gpudoctor.vitals.host.cgroup import ControlGroup, read_group
from gpudoctor.vitals.host.mounts import read_mounts
from gpudoctor.vitals.host.proc_tree import Tree
from gpudoctor.vitals.process.time_series import DownsampledSeries, RollingSeries

SHORTEST = 0.25
"""Seconds between two looks below which a rate would be noise: CPU time is counted in hundredths."""
_SECTOR = 512
_WHOLE_DISK = re.compile(r"^(sd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+)$")
_RATES = ("cpu", "io_wait", "disk_read", "disk_write", "net_rx", "net_tx")


class HostMeter:
    """One row a tick."""

    def __init__(self, pid: int) -> None:
        tree = Tree(process=str(pid))
        self._group: ControlGroup = read_group(tree, read_mounts(tree))
        self._recent = {name: RollingSeries() for name in (*_RATES, "swap")}
        self._memory = DownsampledSeries()
        self._before: dict[str, float] = {}
        self._known: dict[str, float] = {}
        self._at = 0.0
        self._total = 0
        self._cpus = _allowed_cpus(pid, self._group)
        self._machine_cpus = float(os.cpu_count() or 1)

    def tick(self, t: float) -> HostWindow:
        """The machine now."""
        memory = _memory()
        total, used = memory["total"], memory["used"]
        granted = self._group.memory(int(total))
        if granted.limit is not None and granted.used is not None:
            total, used = granted.limit, granted.used
        self._total = int(total)
        self._memory.add(t, used)
        rates = self._rates(t)
        for name, history in self._recent.items():
            history.add(t, memory["swap"] if name == "swap" else rates.get(name))
        made: dict[str, Any] = {name: history.series() for name, history in self._recent.items()}
        return HostWindow(
            cpus=self._cpus,
            machine_cpus=self._machine_cpus,
            memory_total=self._total,
            memory=self._memory.series(),
            **made,
        )

    def _rates(self, t: float) -> dict[str, float]:
        seconds = t - self._at
        if self._known and seconds < SHORTEST:
            return self._known
        counters = _counters()
        rates = {
            name: max(0.0, value - self._before[name]) / seconds
            for name, value in counters.items()
            if name in self._before and seconds > 0
        }
        self._before, self._at = counters, t
        every = rates.pop("every", 0.0)
        if "io_wait" in rates:
            rates["io_wait"] = rates["io_wait"] / every if every else NAN
        self._known = rates
        return rates


def _allowed_cpus(pid: int, group: ControlGroup) -> float:
    try:
        allowed = float(len(os.sched_getaffinity(pid)))
    except (OSError, AttributeError):
        allowed = float(os.cpu_count() or 1)
    quota = group.cpu_quota()
    return min(allowed, quota) if quota else allowed


def _memory() -> dict[str, float]:
    import psutil

    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return {"total": memory.total, "used": memory.total - memory.available, "swap": swap.used}


def _counters() -> dict[str, float]:
    """Counters that only grow: seconds of CPU time, bytes."""
    import psutil

    times = psutil.cpu_times()
    io_wait = getattr(times, "iowait", 0.0)
    # Linux counts the time of guests in user time too.
    every = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    found = {"cpu": every - times.idle - io_wait, "every": every, "io_wait": io_wait}
    return found | _disk_counters() | _net_counters()


def _disk_counters() -> dict[str, float]:
    try:
        with open("/proc/diskstats", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return {}
    disks = [row for row in rows if len(row) > 9 and _WHOLE_DISK.match(row[2])]
    return {
        "disk_read": float(sum(int(row[5]) for row in disks) * _SECTOR),
        "disk_write": float(sum(int(row[9]) for row in disks) * _SECTOR),
    }


def _net_counters() -> dict[str, float]:
    try:
        with open("/proc/net/dev", encoding="ascii", errors="replace") as file:
            rows = [line.replace(":", " ").split() for line in file.readlines()[2:]]
    except OSError:
        return {}
    cards = [row for row in rows if len(row) > 9 and row[0] != "lo"]
    return {
        "net_rx": float(sum(int(row[1]) for row in cards)),
        "net_tx": float(sum(int(row[9]) for row in cards)),
    }
