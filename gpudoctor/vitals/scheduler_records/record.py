"""One record of a scheduler: a job's or a container's end."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRecord:
    """What a scheduler says of a job, a step, a pod or a container."""

    job: str
    """Its number or name; what belongs to one job has the same."""
    line: int
    """1-based, where the file has lines that mean something; else 1."""
    text: str
    """The record as it stands, in one line."""
    kind: str = ""
    """The wording of a death that it is (`time-limit`); "" for one that tells of none."""
    healthy: bool = False
    """Whether it ended well."""
    node: str = ""
    stamp: str = ""
    """ISO 8601, where the record has its end."""
    values: tuple[tuple[str, str], ...] = ()
    """Named parts for the wording: `limit`, `used`, `when`, `who`, `pid`, `program`."""


ORDER = (
    "oom-kernel",
    "oom-slurm",
    "oom-kubernetes",
    "no-space",
    "node-failure",
    "preemption",
    "evicted",
    "probe",
    "time-limit",
    "held",
    "launch",
    "cancelled",
    "sigkill",
    "sigterm",
)
"""Kinds, the most telling first: of a job that ran out of memory, the steps are merely cancelled."""
BEFORE_ALL = frozenset(ORDER[:7])
"""What strikes a job that is well: what its log says is later. A limit of time may end what stood still."""
