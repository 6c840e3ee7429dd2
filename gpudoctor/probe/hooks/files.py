"""Files that the program opens for writing: what writes on every step shows by the file, whatever its name.

`save_image`, `savefig`, `to_csv`, `np.savez` and their kin all open a file in the end, and Python audits that.
An audit hook cannot be taken back, so it does nothing but count, in the training thread alone.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from ..call_sites import PROBE
from ..table import OTHER

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "files"
OPEN = "open"
_WRITES = os.O_WRONLY | os.O_RDWR
_NO_FILES = ("/dev/", "/proc/", "/sys/")


def install(probe: Probe) -> None:
    """Count files that are opened for writing, by the user's line."""
    guard, clock, sites, steps = probe.guard, probe.clock, probe.sites, probe.steps
    if not guard.wanted(HOOK):
        return

    def count(path: Any) -> None:
        if threading.get_ident() != clock.ident or probe.worker is not None or clock.phase != OTHER:
            return
        if not steps.index or (isinstance(path, str) and path.startswith(_NO_FILES)):
            return
        frame = sys._getframe(3)  # count, safe, heard, and who opens the file
        if not frame.f_code.co_filename.startswith(PROBE):
            sites.at("other", OPEN, frame).add(0.0, steps.index)

    safe = guard.safely_of(HOOK, count)

    def heard(event: str, given: Any) -> None:
        if event == OPEN and isinstance(given[2], int) and given[2] & _WRITES:
            safe(given[0])

    try:
        sys.addaudithook(heard)
    except Exception as error:  # a hook of the program's forbids it
        guard.lose(HOOK, error)
