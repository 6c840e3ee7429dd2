"""How the processes of a bounded run hang on us: orphans become ours, and none outlives us."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

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
