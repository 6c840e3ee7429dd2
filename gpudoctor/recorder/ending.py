"""Ends everything that a command has started: children, daemons, workers, whatever left its group."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from gpudoctor.vitals.process.procfs import tree, usage

_PATIENCE = 5.0
"""Seconds to wait for killed processes to be gone: one inside a driver call cannot be killed at once."""
_ROUNDS = 5


def end_all(root: int, folder: str) -> list[int]:
    """Kill a run's processes; returns those that are still there."""
    known = kill(lambda: members(root, folder))
    deadline = time.monotonic() + _PATIENCE
    left = known
    while (left := [pid for pid in left if alive(pid, root)]) and time.monotonic() < deadline:
        _reap(left, root)
        time.sleep(0.005)
    return left


def kill(find: Callable[[], Iterable[int]]) -> list[int]:
    """SIGKILL to every process that `find` names; returns them.

    They are stopped first, so that none starts another or goes on with its next line because a child has
    ended. What was started meanwhile is looked for again.
    """
    known: dict[int, None] = {}
    for _ in range(_ROUNDS):
        new = [pid for pid in find() if pid not in known]
        if not new:
            break
        for pid in new:
            send(pid, signal.SIGSTOP)
        known |= dict.fromkeys(new)
    for pid in known:
        send(pid, signal.SIGKILL)
    return list(known)


def members(root: int, folder: str) -> Iterator[int]:
    """Descendants of the root, its session, and whoever carries the run's folder in its environment."""
    yield from tree(root)
    yield from marked(folder, session=root)


def marked(folder: str, session: int | None = None) -> Iterator[int]:
    """Processes that carry the run's folder in their environment, or are of a session."""
    if not os.path.isdir("/proc/self"):
        return
    mark = f"\0GPUDOCTOR_RECORDING={folder}\0".encode()
    me = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == me:
            continue
        with suppress(OSError):
            if session is not None and os.getsid(int(name)) == session:
                yield int(name)
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in b"\0" + file.read():
                    yield int(name)


def alive(pid: int, root: int | None = None) -> bool:
    """Whether a process is neither gone nor dead, and not the root, which is waited for by who started it."""
    found = usage(pid)
    return found is not None and found.state not in "ZX" and pid != root


def _reap(pids: list[int], root: int) -> None:
    """Take leave of orphans that have become ours; the root is waited for by who started it."""
    for pid in pids:
        if pid != root:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def send(pid: int, number: int) -> None:
    """A signal to a process that may be gone."""
    with suppress(OSError):
        os.kill(pid, number)
