"""Records of NCCL Inspector: the collectives that each process completed, with their time on the device."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicatorRank:
    """What one rank of one communicator completed."""

    communicator: str
    """Its hash: `0x7f8c496ae9f661`."""
    name: str
    """As the framework called it; "" if it did not."""
    rank: int
    """Position in the communicator, not in the job."""
    ranks: int
    nodes: int
    host: str
    process: int
    path: str
    collectives: int
    """Records of collectives that were read."""
    sends: int
    """Records of sends and receives."""
    last: Mapping[str, int]
    """The highest number of each kind of collective; NCCL counts each kind by itself."""
    times: Mapping[tuple[str, int], tuple[int, int]]
    """By kind and number: bytes, and microseconds of the kernel by the GPU's clock. A sample if there are many;
    every rank keeps the same numbers."""
    written: tuple[int, int]
    """When the first and the last record were written: microseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorRecords:
    """The files of one job, one a process."""

    ranks: tuple[CommunicatorRank, ...]
    """By communicator and rank."""
    problems: tuple[str, ...] = ()
    """What could not be read, a sentence each."""
    remarks: tuple[str, ...] = field(default=())
    """What was left out, a sentence each."""
