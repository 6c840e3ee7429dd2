"""Memory and swap of the machine, and how busy the swap is."""

import os
import time
from dataclasses import dataclass

from gpudoctor.lang import say
from gpudoctor.model import Absent, Reading, Unavailable
from gpudoctor.vitals.host.proc_tree import Tree, table

_LOOK = 0.05
"""Seconds between two looks at the swap counters: what a check of the machine can afford."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """Bytes of the machine."""

    total: int
    available: int
    swap_total: int
    swap_used: int


def read_memory(tree: Tree) -> HostMemory:
    """From /proc/meminfo, through psutil where there is none; raises `Unavailable` when neither tells."""
    lines = table(tree.text("/proc/meminfo"))
    if {"MemTotal", "MemAvailable"} <= lines.keys() and lines["MemTotal"] > 0:
        kib = 1024
        swap = max(0, lines.get("SwapTotal", 0))
        return HostMemory(
            total=lines["MemTotal"] * kib,
            available=max(0, min(lines["MemAvailable"], lines["MemTotal"])) * kib,
            swap_total=swap * kib,
            swap_used=max(0, swap - max(0, lines.get("SwapFree", swap))) * kib,
        )
    if not tree.live:
        raise Unavailable("/proc/meminfo does not report the memory")
    return _portable()


def swap_rate(tree: Tree, used: int) -> Reading[float]:
    """Bytes a second swapped in and out over a short look; 0 without looking when no swap is used."""
    if used <= 0:
        return 0.0
    start = time.perf_counter()
    before = _swapped(tree)
    if before is None:
        return Absent("no swap counters on this system")
    time.sleep(_LOOK)
    after = _swapped(tree)
    if after is None:
        return Absent("no swap counters on this system")
    return max(0, after - before) / (time.perf_counter() - start)


def _swapped(tree: Tree) -> int | None:
    counters = table(tree.text("/proc/vmstat"))
    if not {"pswpin", "pswpout"} <= counters.keys():
        return None
    page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
    return (counters["pswpin"] + counters["pswpout"]) * page


def _portable() -> HostMemory:
    import psutil

    try:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    except (OSError, RuntimeError, psutil.Error) as error:
        raise Unavailable(say("the memory of this machine cannot be read ({error})", error=error)) from error
    return HostMemory(total=memory.total, available=memory.available, swap_total=swap.total, swap_used=swap.used)
