"""A control group of the kernel with a CPU quota, version 1 or 2, gone at the end. It needs root."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PERIOD = 100_000
"""Microseconds; the kernel's default."""
_PLACES = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup"))


def why_not() -> str:
    """Why no such group can be made here; "" if one can."""
    try:
        with cpu_group(1.0):
            return ""
    except OSError as error:
        return f"no control group with a CPU quota: {error.strerror or error}"


@contextmanager
def cpu_group(cpus: float) -> Iterator[Path]:
    """The folder of a group that gets so many CPUs' worth of time."""
    place = next((place for place in _PLACES if (place / "cgroup.procs").exists()), None)
    if place is None:
        raise OSError("no control group is mounted at /sys/fs/cgroup")
    group = place / f"gpd{os.getpid()}"
    group.mkdir()
    try:
        quota = str(round(cpus * PERIOD))
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text(quota, encoding="utf-8")
        else:
            with suppress(OSError):  # it is on already, or it cannot be: the next line says so
                (place / "cgroup.subtree_control").write_text("+cpu", encoding="utf-8")
            (group / "cpu.max").write_text(f"{quota} {PERIOD}", encoding="utf-8")
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """A group is busy as long as the last of its processes ends."""
    for _ in range(50):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
