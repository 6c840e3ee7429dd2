"""Which processes of this machine have loaded torch: a quick look, without their ranks, jobs and GPUs."""

import os

from gpudoctor.vitals.process import procfs

_BOUNDED = 4096
"""Processes that are looked at; a machine with more of them is a container host."""


def torch_processes() -> list[tuple[int, tuple[str, ...]]]:
    """Pid and command line of every process that has loaded torch and was started by none that has.

    Processes that we may not look into are left out; so are we and what started us.
    """
    known = procfs.parents()
    ours = set(_ancestors(os.getpid(), known))
    found = {pid for pid in sorted(known)[:_BOUNDED] if pid not in ours and procfs.maps(pid, "libtorch")}
    tops = [pid for pid in sorted(found) if not found & set(_ancestors(known[pid], known))]
    return [(pid, words) for pid in tops if (words := procfs.command(pid))]


def _ancestors(pid: int, known: dict[int, int]) -> list[int]:
    """The process and those that led to it, the nearest first."""
    chain: list[int] = []
    while pid in known and pid not in chain:
        chain.append(pid)
        pid = known[pid]
    return chain
