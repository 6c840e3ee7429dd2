"""What the machine beside a job does: memory now, rates of CPU and disks since the last look."""

import os
import re
from contextlib import suppress
from typing import Any

from gpudoctor.vitals.host.cgroup import ControlGroup, control_group

SHORTEST = 0.25
"""Seconds between two looks below which a rate would be noise: CPU time is counted in hundredths."""
_STACKED = re.compile(r"(dm-|md|loop|z?ram|bcache|drbd)\d")
"""Block devices whose bytes are those of others below them, or of memory."""
_TOTAL = "_cpu_total"


class HostMeter:
    """Rates between two calls of `sample`, for a process on this machine (the own one unless told)."""

    def __init__(self, pid: int | None = None, group: ControlGroup | None = None) -> None:
        self._pid = pid or 0
        self._group = group or control_group(pid)
        self._before: dict[str, float] = {}
        self._rates: dict[str, float] = {}
        self._at = 0.0
        self.memory_total = 0
        """Bytes of memory that the process may use, at the last look."""

    def sample(self, now: float) -> dict[str, float]:
        """One reading at `now` (monotonic seconds): `memory` and `swap` used, in bytes.

        From the second look on also, as far as this system counts them, `cpu` (busy cores), `io_wait` (share of
        CPU time), and in bytes a second `disk_read`, `disk_write`.
        """
        import psutil

        memory = psutil.virtual_memory()
        granted = self._group.memory(memory.total)
        self.memory_total, used = memory.total, memory.total - memory.available
        if granted.limit is not None and granted.used is not None:
            self.memory_total, used = granted.limit, granted.used
        self._take_rates(now)
        return {"memory": float(used), "swap": float(psutil.swap_memory().used), **self._rates}

    def _take_rates(self, now: float) -> None:
        seconds = now - self._at
        if self._rates and seconds < SHORTEST:
            return
        counters = _counters()
        if self._before and seconds > 0:
            rates = {
                name: max(0.0, value - self._before[name]) / seconds
                for name, value in counters.items()
                if name in self._before
            }
            total = rates.pop(_TOTAL, 0.0)
            rates["io_wait"] = rates["io_wait"] / total if total and "io_wait" in rates else float("nan")
            self._rates = rates
        self._before, self._at = counters, now

    def limits(self) -> dict[str, Any]:
        """Counts and limits: `cpus` that affinity and quota leave the process of `machine_cpus`, `memory` and
        `cgroup_memory` (bytes).
        """
        import psutil

        total, every = psutil.virtual_memory().total, os.cpu_count()
        cpus: float | None = every
        with suppress(OSError):
            cpus = len(os.sched_getaffinity(self._pid))
        quota = self._group.cpu_quota()
        if cpus is not None and quota is not None:
            cpus = min(cpus, quota)
        return {"cpus": cpus, "machine_cpus": every, "memory": total, "cgroup_memory": self._group.memory(total).limit}


def _counters() -> dict[str, float]:
    """Counters that only grow; what this system does not count is left out."""
    import psutil

    times = psutil.cpu_times()
    # The time of guests is counted in user time too.
    every = sum(times) - times.guest - times.guest_nice
    found = {"cpu": every - times.idle - times.iowait, _TOTAL: every, "io_wait": times.iowait}
    with suppress(OSError, RuntimeError):
        counted = psutil.disk_io_counters(perdisk=True, nowrap=True)
        # Linux counts partitions, and disks that lie on others, beside the disks themselves.
        disks = [
            disk
            for name, disk in counted.items()
            if not _STACKED.match(name) and os.path.isdir(f"/sys/block/{name.replace('/', '!')}")
        ]
        if disks:
            found |= {
                "disk_read": float(sum(disk.read_bytes for disk in disks)),
                "disk_write": float(sum(disk.write_bytes for disk in disks)),
            }
    return found
