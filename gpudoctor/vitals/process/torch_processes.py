"""Which processes of this machine have loaded torch: a quick look, without their ranks, jobs and GPUs."""

import os
import re
from collections.abc import Sequence

from gpudoctor.vitals.process import procfs

_PYTHON = re.compile(r"(python|pypy)[\d.]*\w?")
_BOUNDED = 4096
"""Processes that are looked at; a machine with more of them is a container host."""


def is_python(words: Sequence[str], name: str, pid: int) -> bool:
    """Whether a process runs Python, by its command line, its program, its name or its libraries."""
    heads = (os.path.basename(words[0]) if words else "", os.path.basename(procfs.executable(pid)), name)
    if any(_PYTHON.fullmatch(head) for head in heads):
        return True
    return bool(procfs.maps(pid, "libpython"))


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
