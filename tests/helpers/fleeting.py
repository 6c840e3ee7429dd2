"""Folders for a few small files that are written, read at once and deleted: in memory, where the system has such a place.

On a disk, to delete a folder waits for the file system each time, and so does what a mended file is written with.
"""

import os
import sys
from tempfile import TemporaryDirectory

_MEMORY = "/dev/shm"
_PLACE = _MEMORY if sys.platform == "linux" and os.access(_MEMORY, os.W_OK | os.X_OK) else None


def fleeting_folder() -> "TemporaryDirectory[str]":
    """A folder that goes with its context."""
    return TemporaryDirectory(dir=_PLACE)
