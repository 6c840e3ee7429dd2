"""Synthetic recordings: as signs that checks read, and as folders on disk that the reader reads.

    recording = make_recording(make_process(make_steps(200, data_wait=0.02), records=[site(...)]))
    write_recording(recording, tmp_path / "recording")

A healthy step of 10 ms is where everything starts; what is given replaces its part. Numbers are drawn from a
seeded generator, so that two calls make the same recording.
"""

import json
import random
import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from gpudoctor.model.signs.recording import PHASES, Process, Record, Recording, RunEnd, Table

NAN = float("nan")
Values = float | Sequence[float] | Callable[[int], float]
"""A column: one number for each step, all numbers, or a function of the step."""

CODES = {"index": "I", "count": "I", "t": "d", "allocated": "d", "reserved": "d", "peak": "d", "rss": "d"}
"""Type codes of columns of `steps` that are not float32 (docs/recording.md)."""
HEALTHY = {"data_wait": 0.0002, "forward": 0.003, "backward": 0.005, "optimizer": 0.0015}
"""Seconds of each phase in a step of a small model that has nothing wrong with it."""
OTHER = 0.0003
UNKNOWN = (
    "device_transfer", "device_forward", "device_backward", "device_optimizer", "device_collective", "device_busy",
    "samples", "tokens", "padding", "allocated", "reserved", "peak", "rss", "loss", "grad_norm", "scale", "lr",
)  # fmt: skip
COUNTS = {"backwards": 1.0, "batches": 1.0, "reads": 0.0, "logs": 0.0, "saves": 0.0, "flushes": 0.0, "syncs": 0.0,
          "collectives": 0.0, "starts": 0.0}  # fmt: skip


def make_steps(
    n: int,
    *,
    noise: float = 0.03,
    seed: int = 0,
    begin: float = 2.0,
    warm_up: int = 3,
    other: Values = OTHER,
    **columns: Values,
) -> Table:
    """A table of n steps; columns are seconds of phases or values of counters.

    Each phase varies by `noise` (a standard deviation, as a share); the first `warm_up` steps take four times
    as long in forward and backward. Durations are the sums of the phases and `other`.
    """
    spread = _standard_normal(seed, n * (len(PHASES) + 1))
    phases = {name: _values(columns.pop(name, HEALTHY.get(name, 0.0)), n) for name in PHASES}
    rest = _values(other, n)
    for row, (name, values) in enumerate(phases.items()):
        for i in range(n):
            cold = 4.0 if i < warm_up and name in ("forward", "backward") else 1.0
            values[i] *= cold * max(0.1, 1.0 + noise * spread[row * n + i])
    duration = [sum(phases[name][i] for name in PHASES) + rest[i] for i in range(n)]
    table: dict[str, array[float] | array[int]] = {"index": array("I", range(n)), "count": array("I", [1]) * n}
    ends, now = [], begin
    for seconds in duration:
        now += seconds
        ends.append(now)
    made: dict[str, Sequence[float]] = {"t": ends, "duration": duration, "longest": duration, **phases}
    made |= {name: [NAN] * n for name in UNKNOWN} | {name: [value] * n for name, value in COUNTS.items()}
    made["loss"] = [2.0 * 0.995**i + 0.02 * drawn + 0.3 for i, drawn in enumerate(spread[-n:])]
    made |= {name: _values(values, n) for name, values in columns.items()}
    table |= {name: array(CODES.get(name, "f"), values) for name, values in made.items()}
    return Table(columns=table)


@lru_cache(maxsize=64)
def _standard_normal(seed: int, n: int) -> tuple[float, ...]:
    """The first n draws of a seeded generator."""
    dice = random.Random(seed)
    return tuple(dice.gauss(0.0, 1.0) for _ in range(n))


def _values(given: Values, n: int) -> list[float]:
    if callable(given):
        return [float(given(i)) for i in range(n)]
    if isinstance(given, int | float):
        return [float(given)] * n
    assert len(given) == n
    return [float(value) for value in given]


def record(type: str, t: float = 1.0, **fields: object) -> Record:
    """One JSON record."""
    return Record(type=type, t=t, fields=fields)


def site(phase: str, what: str, seconds: float, calls: int, **fields: object) -> Record:
    """What one place of the user's script cost."""
    given = {"path": "/job/train.py", "line": 40, "function": "train", "steps": calls, "tensor": False, **fields}
    return record("site", 9.0, phase=phase, what=what, seconds=seconds, calls=calls, **given)


def lines(*counts: tuple[str, str, int, str, int], t: float = 9.0) -> Record:
    """What the sampler saw: (phase, path, line, function, samples)."""
    return record("lines", t, samples=sum(item[4] for item in counts), counts=[list(item) for item in counts])


def make_process(
    steps: Table | None = None,
    *,
    records: Iterable[Record] = (),
    rank: int = 0,
    world: int = 1,
    node: str = "node-1",
    wall: float = 1_790_000_000.0,
    clean: bool = True,
) -> Process:
    """A rank that trains in a plain loop on the CPU; `records` come after those that every rank has.

    A record of a type that every rank has replaces it.
    """
    table = steps if steps is not None else make_steps(200)
    pid = 4712 + rank
    own = list(records)
    common = [
        record("start", 0.0, format=1, rank=rank if world > 1 else None, world=world, node=node,
               pid=pid, ppid=4711, wall=wall, python="3.11.7", cwd="/job"),
        record("torch", 0.9, version="2.9.1", cuda=None, device=None, device_bytes=None, capability=None, threads=1),
        record("loop", 1.5, marker="optimizer", path="/job/train.py", line=50, function="<module>", engine=None),
    ]  # fmt: skip
    given = {item.type for item in own}
    last = [record("end", 99.0, clean=True, steps=len(table), dropped={})] if clean and "end" not in given else []
    return Process(
        rank=rank,
        node=node,
        pid=pid,
        wall=wall,
        steps=table,
        records=(*(item for item in common if item.type not in given), *own, *last),
        clean=clean,
    )


def make_worker(pid: int, *, rank: int = 0, node: str = "node-1", records: Iterable[Record] = ()) -> Process:
    """A loader worker of a rank."""
    wall = 1_790_000_001.0
    start = record("start", 0.0, format=1, rank=rank, node=node, pid=pid, ppid=4712 + rank, wall=wall)
    empty = Table(columns={})
    return Process(rank=rank, node=node, pid=pid, wall=wall, steps=empty, records=(start, *records))


def make_recording(*ranks: Process, **changes: object) -> Recording:
    """A run that ended well, with the fields to change."""
    fields: dict[str, object] = {
        "path": "recording",
        "command": ("python", "train.py"),
        "cwd": "/job",
        "started": "2026-11-21T08:15:02.000+01:00",
        "node": "node-1",
        "ranks": ranks or (make_process(),),
        "machine_facts": {"gpus": [], "cpus": 8, "memory": 32 << 30, "cgroup_memory": None},
        "end": RunEnd(exit_code=0, seconds=30.0),
    }
    return Recording(**fields | changes)  # type: ignore[arg-type]


def make_machine(n: int, **columns: Values) -> Table:
    """Samples of the machine, one a second."""
    table = {"t": array("d", range(n))} | {name: array("d", _values(v, n)) for name, v in columns.items()}
    return Table(columns=table)


def write_recording(recording: Recording, folder: Path, block: int = 64) -> Path:
    """The folder on disk that the reader reads back as this recording, in blocks of so many rows."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "schema": "gpudoctor.recording/1", "gpudoctor": "0.1.0", "command": list(recording.command),
        "cwd": recording.cwd, "started": recording.started, "node": recording.node, "python": "3.11.7",
        "environment": dict(recording.environment), "settings": dict(recording.settings),
    }  # fmt: skip
    (folder / "recording.json").write_text(json.dumps(manifest))
    if recording.scripts:
        (folder / "scripts.json").write_text(json.dumps({"scripts": recording.scripts}))
    for process in recording.ranks:
        start = process.first("start")
        word = "x" if start is None or start.get("rank") is None else str(process.rank)
        (folder / f"rank-{word}-{process.pid}.gdr").write_bytes(process_bytes(process, block))
    parents = {process.rank: process.pid for process in recording.ranks}
    for worker in recording.workers:
        name = f"worker-{worker.rank}-{parents[worker.rank]}-{worker.pid}.gdr"
        (folder / name).write_bytes(process_bytes(worker, block))
    if len(recording.machine) or recording.machine_facts:
        facts = json_frame(record("facts", 0.0, **recording.machine_facts))
        blocks = column_frames("machine", recording.machine, block)
        (folder / "machine.gdr").write_bytes(MAGIC + facts + blocks)
    if recording.end is not None:
        (folder / "end.json").write_text(json.dumps({**asdict(recording.end), "lost_bytes": 0}))
    return folder


MAGIC = b"GPUDOC1\n"


def process_bytes(process: Process, block: int = 64) -> bytes:
    """A rank's or a worker's file: records before its steps, the last record (`end`) after them."""
    records = [json_frame(item) for item in process.records]
    tail = records[-1:] if process.records and process.records[-1].type == "end" else []
    head = records[: len(records) - len(tail)]
    return b"".join([MAGIC, *head, column_frames("steps", process.steps, block), *tail])


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame."""
    return struct.pack("<cII", kind, len(payload), zlib.crc32(payload)) + payload


def json_frame(item: Record) -> bytes:
    """A JSON record's frame."""
    return frame(b"J", json.dumps({"type": item.type, "t": item.t, **item.fields}).encode())


def column_frames(name: str, table: Table, block: int = 64) -> bytes:
    """A table in blocks of so many rows."""
    frames = []
    for begin in range(0, len(table), block):
        parts = {column: values[begin : begin + block] for column, values in table.columns.items()}
        rows = len(next(iter(parts.values())))
        columns = [[column, values.typecode] for column, values in parts.items()]
        head = json.dumps({"table": name, "n": rows, "columns": columns}).encode() + b"\n"
        frames.append(frame(b"C", head + b"".join(values.tobytes() for values in parts.values())))
    return b"".join(frames)
