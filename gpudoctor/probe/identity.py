"""Which process this is: rank, world, launcher, folder and the name of its file."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any

from . import FORMAT
from .wire.masking import mask_text

_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "torchrun", "accelerate", "deepspeed")
"""Programs that start ranks and do not train themselves."""


class Identity:
    """Facts of the process, taken once from its environment."""

    def __init__(self) -> None:
        self.folder = os.environ.get("GPUDOCTOR_RECORDING", "")
        self.settings = _settings()
        self.argv = [str(word) for word in getattr(sys, "orig_argv", sys.argv)]
        self.spawned = any("multiprocessing.spawn" in word or "--multiprocessing-fork" in word for word in self.argv)
        self.launcher = _launches(self.argv)
        self.renew()

    def renew(self) -> None:
        """In a new process."""
        self.pid = os.getpid()
        self.parent = os.getppid()
        self.wall = time.time()
        self.find_rank(None)

    def find_rank(self, torch: Any) -> None:
        """Rank and world as the environment has them, or else the process group."""
        self.rank = _number(_RANKS)
        self.world = _number(_WORLDS)
        distributed: Any = getattr(torch, "distributed", None)
        known = self.rank is not None or distributed is None
        if not known and distributed.is_available() and distributed.is_initialized():
            self.rank, self.world = distributed.get_rank(), distributed.get_world_size()

    @property
    def label(self) -> str:
        """The rank as file names have it."""
        return "x" if self.rank is None else str(self.rank)

    def path(self, kind: str = "rank") -> str:
        """The file of this process in the folder."""
        of = f"{self.parent}-" if kind == "worker" else ""
        name = f"{kind}-{self.label}-{of}{self.pid}.gdr"
        return os.path.join(self.folder, name)

    def facts(self) -> dict[str, Any]:
        """The `start` record."""
        return {
            "format": FORMAT,
            "rank": self.rank,
            "world": self.world,
            "node": socket.gethostname(),
            "pid": self.pid,
            "ppid": self.parent,
            "wall": self.wall,
            "python": sys.version.split()[0],
            "cwd": mask_text(_cwd()),
        }


def _number(names: tuple[str, ...]) -> int | None:
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            # Slurm numbers every task of a job; a single one has no rank to speak of.
            if name.startswith("SLURM") and os.environ.get("SLURM_NTASKS", "1") == "1":
                continue
            return int(value)
    return None


def _settings() -> dict[str, Any]:
    try:
        found = json.loads(os.environ.get("GPUDOCTOR_SETTINGS") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _launches(argv: list[str]) -> bool:
    """Whether this is a launcher's own process."""
    words = argv[1:]
    for word in words[:6]:
        if word.startswith("-") and word != "-m":
            continue
        if word != "-m":
            return os.path.basename(word).removesuffix(".py") in LAUNCHERS or word.split(".")[0] in {
                "accelerate",
                "deepspeed",
            }
    return False


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
