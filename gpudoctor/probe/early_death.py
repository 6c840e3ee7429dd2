"""What ended a process that had not imported torch: its traceback goes into the recording.

The interpreter has shown it already, maybe on a terminal, which keeps nothing that could be read afterwards.
"""

from __future__ import annotations

import os
import traceback

from .wire.masking import mask_cut

_LONGEST = 100_000
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def write(error: BaseException) -> None:
    """The traceback, secrets masked, as `early-RANK-PARENT-PROCESS.txt`. Raises `OSError`."""
    rank = next((value for name in _RANKS if (value := os.environ.get(name, "")).isdigit()), "x")
    text = mask_cut("".join(traceback.format_exception(type(error), error, error.__traceback__)), _LONGEST)
    name = f"early-{rank}-{os.getppid()}-{os.getpid()}.txt"
    path = os.path.join(os.environ["GPUDOCTOR_RECORDING"], name)
    before = f"[rank{rank}]: " if rank != "x" else ""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.writelines(f"{before}{line}\n" for line in text.splitlines())
