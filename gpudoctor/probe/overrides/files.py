"""`files.replaced`: a config that the program opens is another text."""

from __future__ import annotations

import builtins
import io
import os
from typing import Any

_STATE: dict[str, Any] = {"opened": False, "trial": None}
"""Whether one of them was opened, and who is to be told."""


def adopt(trial: Any) -> None:
    """The probe is there."""
    _STATE["trial"] = trial
    if _STATE["opened"]:
        trial.reached("files.replaced")


def _opened() -> None:
    _STATE["opened"] = True
    if _STATE["trial"] is not None:
        _STATE["trial"].reached("files.replaced")


def install(table: dict[str, str]) -> None:
    """Replace `open` for reading these files (path to path)."""
    known = {os.path.realpath(path): other for path, other in table.items()}
    names = {os.path.basename(path) for path in known}
    original = io.open

    def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, (str, os.PathLike)) and not set(mode) & set("wax+"):
            path = os.fspath(file)
            if isinstance(path, str) and os.path.basename(path) in names:
                other = known.get(os.path.realpath(path))
                if other is not None:
                    _opened()
                    file = other
        return original(file, mode, *args, **kwargs)

    builtins.open = io.open = open_
