"""The command's processes: who they are and what they use. On Linux straight from /proc, else by psutil."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass

_TICK = float(os.sysconf("SC_CLK_TCK")) if hasattr(os, "sysconf") else 100.0
_PAGE = int(os.sysconf("SC_PAGE_SIZE")) if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """One process at one moment."""

    pid: int
    ppid: int
    group: int
    state: str
    """One letter, as `ps` has it: R running, S asleep, D waiting for a disk, Z dead."""
    cpu: float
    """Seconds of CPU time so far, without children."""
    rss: int
    """Resident bytes."""


def usage(pid: int) -> ProcessSnapshot | None:
    """What a process uses now; None when it is gone."""
    if sys.platform != "linux":
        return _usage_elsewhere(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read(4096)
    except OSError:
        return None
    # The name in brackets may hold anything, brackets and spaces too: fields count from the last bracket.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    return ProcessSnapshot(
        pid,
        int(fields[1]),
        int(fields[2]),
        fields[0].decode("ascii", "replace"),
        (int(fields[11]) + int(fields[12])) / _TICK,
        max(0, int(fields[21])) * _PAGE,
    )


def born(pid: int) -> float | None:
    """The moment of a process's birth, to tell it from a later one of the same number; None when it is gone."""
    if sys.platform != "linux":
        import psutil

        try:
            return psutil.Process(pid).create_time()
        except psutil.Error:
            return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read(4096)
        return float(text[text.rfind(b")") + 2 :].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def tree(root: int) -> list[int]:
    """Process ids of a process and all that descend from it, parents first."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:  # it grows while it is walked
        found += sorted(children.get(pid, ()))
    return found


def takes(pid: int, number: int) -> bool:
    """Whether a process does something on a signal: it has a handler, or the signal ends it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            ignored = next((line.split()[1] for line in file if line.startswith(b"SigIgn:")), b"0")
    except OSError:
        return True
    return not int(ignored, 16) >> (number - 1) & 1


def _parents() -> dict[int, int]:
    """Every process id with its parent's."""
    if sys.platform != "linux":
        import psutil

        return {process.pid: process.info["ppid"] or 0 for process in psutil.process_iter(["ppid"])}
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                text = file.read(1024)
                found[int(name)] = int(text[text.rfind(b")") + 2 :].split(None, 2)[1])
    return found


def _usage_elsewhere(pid: int) -> ProcessSnapshot | None:
    import psutil

    letters = {psutil.STATUS_RUNNING: "R", psutil.STATUS_DISK_SLEEP: "D", psutil.STATUS_ZOMBIE: "Z"}
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            group = os.getpgid(pid) if hasattr(os, "getpgid") else 0
            return ProcessSnapshot(
                pid,
                process.ppid(),
                group,
                letters.get(process.status(), "S"),
                times.user + times.system,
                process.memory_info().rss,
            )
    except (psutil.Error, OSError):
        return None
