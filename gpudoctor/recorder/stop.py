"""Stops a command gracefully: it gets what Ctrl-C would send, and time to save what it wants to save."""

import os
import signal
import time
from contextlib import suppress

from gpudoctor.recorder.processes import takes, tree, usage

PATIENCE = 60.0
"""Seconds after which a command that still runs gets SIGTERM as well; a checkpoint takes its time."""


class Stopper:
    """Sends SIGINT to the command's processes as a terminal would, later SIGTERM to it; never SIGKILL."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._asked: float | None = None
        self._insisted = False

    @property
    def asked(self) -> bool:
        """Whether the command has been told."""
        return self._asked is not None

    def ask(self) -> None:
        """Tell the command, once."""
        if self.asked:
            return
        self._asked = time.monotonic()
        if not hasattr(signal, "SIGKILL"):
            os.kill(self._root, signal.SIGTERM)  # Windows: there is no other way to one process
            return
        # A terminal's Ctrl-C reaches the foreground group: the command's processes that are in it, and us.
        # Our own group may hold more than that (a shell script that started us), which is to live on.
        group = os.getpgrp()
        for pid in tree(self._root):
            found = usage(pid)
            if found is not None and found.group == group:
                with suppress(OSError):
                    os.kill(pid, signal.SIGINT)
        if not takes(self._root, signal.SIGINT):  # started in the background: Ctrl-C never reaches it
            self.insist()

    def insist(self) -> None:
        """SIGTERM to the command, once."""
        if not self._insisted:
            self._insisted = True
            with suppress(OSError):
                os.kill(self._root, signal.SIGTERM)

    def look(self) -> bool:
        """Insist when patience is at its end; whether this call did."""
        if self._asked is None or self._insisted or time.monotonic() - self._asked < PATIENCE:
            return False
        self.insist()
        return True
