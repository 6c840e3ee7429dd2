"""Tells a step to copy from a sentence to read."""

import re

_WORDS = """
accelerate apt apt-get aws bash cat chmod conda cp curl deepspeed df dmesg dnf docker echo export
free getconf git gpudoctor grep journalctl kill kubectl ldconfig ls lscpu lsmod lspci mamba mkdir
modprobe mount mv numactl nvcc nvidia-smi pip pip3 podman ps python python3 rm rmmod rsync salloc
sbatch scancel scontrol sed setpci srun sudo sysctl systemctl taskset torchrun ulimit umount unset
uv yum
"""
_TOOLS = frozenset(_WORDS.split())
_ASSIGNMENT = re.compile(r"^[A-Z_][A-Z0-9_]*=\S*( |$)")
_PYTHON = re.compile(
    r"^(?:[\w.]+ = )?[\w.]+\(.*\)$|^[\w.]+ ?= ?\S+$|^(?:from [\w.]+ )?import [\w.*]+$|^with \S.*:$"
)


def is_code(step: str) -> bool:
    """Whether a step is a shell command or a line of Python, to be copied as it is."""
    line = step.strip().removeprefix("$ ")
    first = line.split(" ", 1)[0]
    if first in _TOOLS:
        # A sentence may begin with a tool's name, never with a tool's name and end in a full stop.
        return not line.endswith(".") or line.endswith(("..", " ."))
    return bool(_ASSIGNMENT.match(line) or _PYTHON.match(line)) or first.startswith(("./", "#SBATCH"))
