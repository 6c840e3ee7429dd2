"""Ends everything that a bounded run has started: children, daemons, workers, whatever left its group."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from gpudoctor.recorder.processes import tree, usage

_PATIENCE = 5.0
"""Seconds to wait for killed processes to be gone: one inside a driver call cannot be killed at once."""
_ROUNDS = 5
_PARENT_DEATH = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""


def adopt_orphans() -> None:
    """Become the parent of what the command's processes leave behind, so that it can be found and ended."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


class Held:
    """Signals that would end us wait until `release`.

    One that arrives in the middle of a fork would be lost: Python calls its hooks of a fork then, and drops
    what they raise, a `KeyboardInterrupt` too.
    """

    def __init__(self) -> None:
        ends = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} if hasattr(signal, "pthread_sigmask") else set()
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ends) if ends else None

    def release(self) -> None:
        """They arrive from now on: what waited raises here. A child calls it before it becomes the command."""
        if self._before is not None:
            before, self._before = self._before, None
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_with_us() -> Callable[[], None] | None:
    """What a child does before exec, so that `kill -9` on us ends it too; None elsewhere than on Linux."""
    if sys.platform != "linux":
        return None
    try:
        prctl = ctypes.CDLL(None).prctl  # looked up before the fork
    except (OSError, AttributeError):
        return None
    parent = os.getpid()

    def prepare() -> None:
        prctl(_PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it happened before the call
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare


def end_all(root: int, folder: str) -> list[int]:
    """Kill a run's processes; returns those that are still there.

    They are stopped first, so that none starts another or goes on with its next line because a child has
    ended.
    """
    if not hasattr(signal, "SIGKILL"):
        return _end_elsewhere(root)
    known: list[int] = []
    for _ in range(_ROUNDS):
        new = [pid for pid in _members(root, folder) if pid not in known]
        if not new:
            break
        for pid in new:
            _send(pid, signal.SIGSTOP)
        known += new
    for pid in known:
        _send(pid, signal.SIGKILL)
    deadline = time.monotonic() + _PATIENCE
    left = known
    while (left := [pid for pid in left if _alive(pid, root)]) and time.monotonic() < deadline:
        _reap(left, root)
        time.sleep(0.005)
    return left


def _members(root: int, folder: str) -> Iterator[int]:
    """Descendants of the root, its session, and whoever carries the run's folder in its environment."""
    yield from tree(root)
    if not os.path.isdir("/proc/self"):
        return
    mark = f"GPUDOCTOR_RECORDING={folder}".encode()
    me = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == me:
            continue
        with suppress(OSError):
            if os.getsid(int(name)) == root:
                yield int(name)
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read():
                    yield int(name)


def _alive(pid: int, root: int) -> bool:
    found = usage(pid)
    return found is not None and found.state not in "ZX" and pid != root


def _reap(pids: list[int], root: int) -> None:
    """Take leave of orphans that have become ours; the root is waited for by who started it."""
    for pid in pids:
        if pid != root:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def _send(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _end_elsewhere(root: int) -> list[int]:
    import psutil

    with suppress(psutil.Error):
        every = psutil.Process(root).children(recursive=True)
        for process in [psutil.Process(root), *every]:
            with suppress(psutil.Error):
                process.kill()
        return [process.pid for process in psutil.wait_procs(every, _PATIENCE)[1]]
    return []
