"""Flight-recorder dumps of simulated ranks, in the format of torch 2.13."""

import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpudoctor.model.signs.flight_recorder import FlightRecords
from gpudoctor.vitals.flight_recorder.child import answer
from gpudoctor.vitals.flight_recorder.read_dumps import records_of

START = 1_795_000_000_000_000_000
TIMEOUT_MS = 600_000
WORLD = "default_pg"


@dataclass
class Rank:
    """A rank that enters operations; `dump` is what torch writes of it."""

    number: int
    groups: Mapping[str, Sequence[int]]
    """Members by description."""
    backend: str = "nccl"
    limit: int = 2_000
    clock: int = START
    entries: list[dict[str, Any]] = field(default_factory=list)
    sequences: dict[str, int] = field(default_factory=dict)

    def call(
        self,
        name: str = "all_reduce",
        group: str = WORLD,
        *,
        sizes: Sequence[Sequence[int]] = ((4, 4),),
        outputs: Sequence[Sequence[int]] | None = None,
        dtype: str = "Float",
        state: str = "completed",
        line: int = 10,
        function: str = "train_step",
        more: Mapping[str, Any] | None = None,
    ) -> "Rank":
        """One operation, by default one that completes."""
        p2p = name.split(" ")[0] in ("send", "recv")
        key = f"p2p {group}" if p2p else group
        number = self.sequences[key] = self.sequences.get(key, 0) + 1
        self.clock += 1_000_000
        names = list(self.groups)
        gloo = self.backend == "gloo"
        self.entries.append(
            {
                "frames": [
                    {
                        "name": name.split(" ")[0],
                        "filename": "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
                        "line": 3245,
                    },
                    {"name": function, "filename": "/job/train.py", "line": line},
                    {"name": "<module>", "filename": "/job/train.py", "line": 99},
                ],
                "record_id": len(self.entries),
                "pg_id": names.index(group),
                "process_group": (str(names.index(group)), group),
                "collective_seq_id": 0 if p2p else number,
                "p2p_seq_id": number if p2p else 0,
                "op_id": len(self.entries) + 1,
                "profiling_name": f"{self.backend}:{name}",
                "time_created_ns": self.clock,
                "input_sizes": [list(size) for size in sizes],
                "input_dtypes": [dtype for _ in sizes],
                "output_sizes": [list(size) for size in (sizes if outputs is None else outputs)],
                "output_dtypes": [dtype for _ in (sizes if outputs is None else outputs)],
                "state": "scheduled" if gloo else state,
                "time_discovered_started_ns": None if state == "scheduled" else self.clock + 1,
                "time_discovered_completed_ns": self.clock + 2 if state == "completed" else None,
                "retired": state == "completed",
                "timeout_ms": TIMEOUT_MS,
                "is_p2p": p2p,
                **(more or {}),
            }
        )
        return self

    def calls(self, count: int, name: str = "all_reduce", group: str = WORLD, **more: Any) -> "Rank":
        """The same operation several times."""
        for _ in range(count):
            self.call(name, group, **more)
        return self

    def dump(self) -> dict[str, Any]:
        """What torch writes."""
        config = {
            str(number): {"name": str(number), "desc": name, "ranks": str(list(ranks))}
            for number, (name, ranks) in enumerate(self.groups.items())
        }
        return {
            "version": "2.10",
            "pg_config": config if self.backend == "nccl" else {"": {"name": "", "desc": "", "ranks": "[]"}},
            "comm_lib_version": "2.27.5",
            "pg_status": {},
            "entries": self.entries[-self.limit :],
        }


def make_ranks(world: int, groups: Mapping[str, Sequence[Sequence[int]]] | None = None, **more: Any) -> list[Rank]:
    """Ranks of a job with a default group and, by description, groups of which each rank is in one."""
    found = []
    for number in range(world):
        own: dict[str, Sequence[int]] = {WORLD: range(world)}
        for name, sets in (groups or {}).items():
            own[name] = next(members for members in sets if number in members)
        found.append(Rank(number, own, **more))
    return found


def write(folder: Path, ranks: Iterable[Rank], *, after: float = 600.0, name: str = "nccl_trace_rank_") -> list[str]:
    """Write the dumps, as if so many seconds after the last operation of all."""
    ranks = list(ranks)
    end = max(rank.clock for rank in ranks) + int(after * 1e9)
    paths = []
    for rank in ranks:
        path = folder / f"{name}{rank.number}"
        path.write_bytes(pickle.dumps(rank.dump(), protocol=2))
        os.utime(path, ns=(end, end))
        paths.append(str(path))
    return paths


def read_here(paths: Sequence[str]) -> FlightRecords:
    """What `read_flight_records` gives, read in this process: these dumps are our own."""
    return records_of(paths, map(answer, paths))
