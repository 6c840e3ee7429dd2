"""`writes.moves`: folders can be renamed under an overlay that cannot rename them (one of a user namespace).

The kernel answers that it is another file system; `mv` and `shutil.move` copy then, `os.rename` does not.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from typing import Any


def install() -> None:
    """Replace `os.rename` and `os.replace`."""
    os.rename = _copying(os.rename)
    os.replace = _copying(os.replace)


def _copying(original: Callable[..., Any]) -> Callable[..., Any]:
    def rename(source: Any, target: Any, **kwargs: Any) -> None:
        try:
            original(source, target, **kwargs)
        except OSError as error:
            folder = error.errno == errno.EXDEV and not kwargs and stat.S_ISDIR(os.lstat(source).st_mode)
            if not folder:
                raise
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(source)

    return rename
