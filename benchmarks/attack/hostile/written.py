"""Recordings in bytes: a healthy one, every part of which may be replaced before it is written."""

from __future__ import annotations

import copy
import json
import random
import struct
import zlib
from array import array
from pathlib import Path
from typing import Any

MAGIC = b"GPUDOC1\n"
NAN = float("nan")
SCRIPT = "/job/train.py"

PHASES = (
    "data_wait", "transfer", "forward", "backward", "optimizer", "sync", "logging", "checkpoint", "evaluation",
    "profiler", "collective",
)  # fmt: skip
WIDE = {"t", "allocated", "reserved", "peak", "rss"}

Object = dict[str, Any]


def place(line: int = 7) -> Object:
    """A line of the script."""
    return {"path": SCRIPT, "line": line, "function": "<module>"}


def records() -> list[Object]:
    """Records of every type, as a rank writes them."""
    spot = {"path": SCRIPT, "line": 7}
    return [
        {"type": "start", "t": 0.0, "format": 1, "rank": 0, "local_rank": 0, "world": 1, "node": "n1", "pid": 4712,
         "ppid": 4711, "wall": 1_795_350_667.1, "python": "3.11.7", "argv": ["python", "train.py"], "cwd": "/job",
         "launcher": None},
        {"type": "torch", "t": 1.0, "version": "2.9.1", "cuda": "12.8", "device": "NVIDIA H100 80GB HBM3",
         "device_bytes": 85 << 30, "capability": [9, 0], "threads": 8, "interop_threads": 8, "start_method": "fork",
         "tf32": "highest", "cudnn_benchmark": False, "deterministic": False, "backend": "nccl",
         "autocast": "float16", "find_unused": True, "unused": False},
        {"type": "loop", "t": 1.5, "marker": "optimizer", "engine": None, "step": 0, **place(50)},
        {"type": "model", "t": 1.6, "name": "Net", "parameters": 8_100_000, "trainable": 8_100_000,
         "bytes": 32_400_000, "dtypes": {"float32": 8_100_000}, "device": "cuda:0", "wrapped": "DDP",
         "compiled": False, "training": True, "flops": 1e12, **spot},
        {"type": "optimizer", "t": 1.7, "name": "SGD", "groups": 1, "parameters": 8_000_000, "lr": 0.1,
         "rates": [0.1], "foreach": None, "fused": False, "missing": ["head.weight"], "missing_count": 1, **spot},
        {"type": "loader", "t": 1.8, "id": 0, "dataset": "Images", "workers": 2, "pin_memory": False,
         "persistent": False, "prefetch": 2, "batch_size": 8, "iterable": False, "batches": 400,
         "role": "training", **spot},
        {"type": "worker", "t": 1.9, "loader": 0, "pids": [4720, 4721]},
        {"type": "site", "t": 9.0, "phase": "sync", "what": "Tensor.item", "calls": 400, "seconds": 1.2,
         "longest": 0.2, "steps": 400, "tensor": True, **place(41)},
        {"type": "site", "t": 9.0, "phase": "transfer", "what": "Tensor.to", "calls": 400, "seconds": 0.9,
         "longest": 0.2, "steps": 400, "bytes": 1e9, "pinned": False, "non_blocking": True, **place(42)},
        {"type": "lines", "t": 9.1, "samples": 60.5, "interval": 0.02, "open": False,
         "counts": [["other", SCRIPT, 40, "train", 40.0], ["data_wait", SCRIPT, 41, "train", 20.5],
                    ["other", None, None, None, 1.0]],
         "leaves": [[0, "/lib/PIL/Image.py", "open", 30.0]]},
        {"type": "numeric", "t": 3.0, "kind": "norms", "step": 20, "norm": 1.5, "first": 0.5, "last": 1.2,
         "first_name": "0", "last_name": "2", "mean": 0.1},
        {"type": "numeric", "t": 3.1, "kind": "updates", "step": 20, "ratio": 0.09},
        {"type": "numeric", "t": 3.2, "kind": "dead", "step": 20, "parameters": ["a.weight"], "count": 1,
         "elements": 500, "share": 0.1, "steps": 8, "none": ["b.weight"]},
        {"type": "numeric", "t": 3.3, "kind": "frozen", "step": 20, "parameters": ["a.weight"], "count": 1,
         "elements": 500, "share": 0.1, "steps": 8, "unheld": 1},
        {"type": "numeric", "t": 3.4, "kind": "scaler", "step": 20, "scale": 65536.0, "skipped": 2},
        {"type": "numeric", "t": 3.5, "kind": "scaler", "step": 30, "scale": 32768.0, "skipped": 3},
        {"type": "numeric", "t": 3.6, "kind": "uncleared", "steps": 20, "found": 15, **spot},
        {"type": "numeric", "t": 3.7, "kind": "unstepped", "backwards": 5, **spot},
        {"type": "numeric", "t": 3.8, "kind": "mode", "kind_of": "eval-training", "model": "Net", "steps": 20, "of": 20,
         "affected": ["Dropout"], "reached": True, "training": True, **spot},
        {"type": "numeric", "t": 3.8, "kind": "mode", "kind_of": "teacher-grad", "model": "Teacher", "steps": 20,
         "of": 20, "affected": ["Dropout"], "reached": True, "training": True, **spot},
        {"type": "numeric", "t": 4.0, "kind": "nan-gradients", "step": 40, "parameters": ["a.weight"], "value": "nan",
         "count": 1, "all": False, "weights": [], **spot},
        {"type": "numeric", "t": 4.0, "kind": "nan-loss", "step": 41, "value": "nan", **spot},
        {"type": "memory", "t": 4.1, "kind": "retries", "step": 50, "retries": 3, "ooms": 1},
        {"type": "memory", "t": 4.2, "kind": "census", "step": 390, "device": "cuda", "since": 60,
         "growth": [["Tensor with their graphs", 400, 5e9, SCRIPT, 44]], "rss": 5e9, "grew": 4e9},
        {"type": "ddp", "t": 4.3, "step": 50, "iteration": 50, "avg_forward_compute_time": 5_000_000,
         "avg_backward_compute_time": 5_000_000, "avg_backward_comm_time": 9_000_000,
         "avg_backward_compute_comm_overlap_time": 1_000_000, "bucket_sizes": [1000, 2000]},
        {"type": "compile", "t": 4.4, "step": 200, "kind": "recompile", "reason": "size mismatch", "seconds": 5.0,
         **spot},
        {"type": "compile", "t": 4.4, "step": 5, "kind": "graph-break", "reason": "print", "seconds": 5.0, **spot},
        {"type": "window", "t": 4.5, "what": "torch.profiler", "begin": 0, "end": 390, "steps": 300, "on": True, **spot},
        {"type": "window", "t": 4.5, "what": "detect_anomaly", "begin": 0, "end": None, "steps": 390, "on": True,
         **spot},
        {"type": "heartbeat", "t": 20.0, "step": 399, "phase": "collective", "seconds": 60.0,
         "stack": [[SCRIPT, 50, "<module>"], [SCRIPT, 41, "train"]]},
        {"type": "lost", "t": 20.1, "hook": "loader", "error": "ValueError: x"},
        {"type": "exception", "t": 21.0, "exception": "OutOfMemoryError", "message": "CUDA out of memory.",
         "frames": [[SCRIPT, 50, "<module>", "main()"], [SCRIPT, 41, "train", "loss.backward()"]], "user": 1,
         "step": 399, "phase": "backward", "cause": ["RuntimeError: y"],
         "oom": {"allocated": 70 << 30, "reserved": 78 << 30, "total": 80 << 30, "requested": 4 << 30}},
        {"type": "signal", "t": 21.1, "signal": "SIGSEGV", "step": 399, "phase": "backward",
         "stack": [[SCRIPT, 41, "train"]]},
        {"type": "override", "t": 2.0, "name": "workers", "reached": True},
        {"type": "replay", "t": 2.0, "asked": 40, "begin": 39, "step": 40, "found": "loss", "origin": {"what": "log"},
         "names": ["a"], "weights": [1.0, 2.0], "eager": False, "broken": []},
        {"type": "end", "t": 22.0, "clean": True, "steps": 400, "dropped": {"window": 3}},
    ]  # fmt: skip


def steps(rows: int = 120, seed: int = 0) -> dict[str, list[Any]]:
    """Columns of the table `steps`: name to [type code, values]."""
    dice = random.Random(seed)
    found: dict[str, list[Any]] = {
        "index": ["I", list(range(rows))],
        "count": ["I", [1] * rows],
        "t": ["d", [2.0 + 0.05 * (i + 1) for i in range(rows)]],
        "duration": ["f", [0.05 + 0.001 * dice.random() for _ in range(rows)]],
        "longest": ["f", [0.051] * rows],
    }
    for name in PHASES:
        found[name] = ["f", [0.004 + 0.0001 * dice.random() for _ in range(rows)]]
    for name in ("transfer", "forward", "backward", "optimizer", "collective"):
        found[f"device_{name}"] = ["f", [0.003] * rows]
    found["device_busy"] = ["f", [0.02] * rows]
    for name in ("backwards", "batches", "reads", "logs", "saves", "flushes", "syncs", "collectives"):
        found[name] = ["f", [1.0] * rows]
    for name, each in (("samples", 8.0), ("tokens", 4096.0), ("padding", 1000.0)):
        found[name] = ["f", [each] * rows]
    for name in ("allocated", "reserved", "peak", "rss"):
        found[name] = ["d", [1e10 + 1e7 * i for i in range(rows)]]
    found["loss"] = ["f", [2.0 * 0.99**i + 0.01 * dice.random() for i in range(rows)]]
    found["grad_norm"] = ["f", [1.0 + 0.1 * dice.random() for _ in range(rows)]]
    found["scale"] = ["f", [65536.0] * rows]
    found["lr"] = ["f", [0.1] * rows]
    found["probe"] = ["f", [0.0001] * rows]
    return found


def machine(rows: int = 30) -> dict[str, list[Any]]:
    """Columns of the table `machine`."""
    each = {
        "cpu": 3.0, "tree_cpu": 2.0, "memory": 2e10, "tree_rss": 1e10, "swap": 0.0, "disk_read": 1e6,
        "disk_write": 1e5, "net_rx": 1e3, "net_tx": 1e3, "io_wait": 0.1, "workers": 2.0, "workers_running": 1.0,
        "workers_disk": 1.0, "gpu0_util": 0.4, "gpu0_sm": 0.3, "gpu0_memory": 7e10, "gpu0_power": 300.0,
        "gpu0_temperature": 60.0, "gpu0_clock": 1500.0, "gpu0_reasons": 4.0, "gpu0_pcie_rx": 1e9,
        "gpu0_pcie_tx": 1e9, "gpu0_pcie_width": 16.0, "gpu0_pcie_generation": 5.0, "gpu0_pcie_replays": 0.0,
        "gpu0_margin": 20.0, "gpu0_memory_temperature": 70.0,
    }  # fmt: skip
    found: dict[str, list[Any]] = {"t": ["d", [float(i) for i in range(rows)]]}
    return found | {name: ["d", [value] * rows] for name, value in each.items()}


def facts() -> Object:
    """The record `facts` of the machine's file."""
    gpu = {"name": "NVIDIA H100 80GB HBM3", "index": 0, "bytes": 85 << 30, "power_limit": 700.0,
           "temperature_slowdown": 89, "temperature_max": 87, "temperature_memory_max": 95, "pcie_width_max": 16,
           "pcie_generation_max": 5}  # fmt: skip
    return {"type": "facts", "t": 0.0, "gpus": [gpu], "cpus": 8, "machine_cpus": 64, "memory": 256 << 30,
            "cgroup_memory": None, "disks": ["/ ext4"]}  # fmt: skip


def manifest() -> Object:
    """recording.json."""
    return {"schema": "gpudoctor.recording/1", "gpudoctor": "0.1.0", "command": ["python", "train.py"], "cwd": "/job",
            "started": "2026-11-22T12:31:05.630+00:00", "node": "n1", "python": "3.11.7",
            "environment": {"WORLD_SIZE": "1"}, "settings": {"hang_after": 60}}  # fmt: skip


def ending() -> Object:
    """end.json."""
    return {"exit_code": 1, "signal": None, "seconds": 25.0, "stopped_by": None, "oom_kills": 1,
            "kernel": ["oom-kill: Killed process 4712 (python)"], "lost_bytes": 0, "problems": ["a"]}  # fmt: skip


def worker() -> list[Object]:
    """Records of a loader's worker."""
    return [
        {"type": "start", "t": 0.0, "format": 1, "rank": 0, "node": "n1", "pid": 4720, "ppid": 4712,
         "wall": 1_795_350_668.1, "loader": 0, "worker": 0},
        {"type": "items", "t": 9.0, "loader": 0, "worker": 0, "items": 3200, "batches": 400, "busy": 15.0,
         "waiting": 3.0, "fetch": 12.0, "collate": 3.0},
        {"type": "lines", "t": 9.1, "samples": 60.5, "interval": 0.02,
         "counts": [["fetch", SCRIPT, 12, "__getitem__", 50.0]],
         "leaves": [[0, "/lib/PIL/Image.py", "open", 30.0]]},
    ]  # fmt: skip


class Written:
    """One recording whose parts may be changed before `write`."""

    def __init__(self, rows: int = 120) -> None:
        self.manifest: Any = manifest()
        self.ending: Any = ending()
        self.records: list[Any] = records()
        self.steps = steps(rows)
        self.machine = machine()
        self.facts: Any = facts()
        self.worker: list[Any] = worker()
        self.names = {"rank": "rank-0-4712.gdr", "worker": "worker-0-4712-4720.gdr", "machine": "machine.gdr"}
        self.header: Object = {}
        """What replaces fields of the header of the block of steps."""
        self.tail = b""
        """Bytes at the end of the rank's file."""
        self.more: dict[str, bytes] = {}

    def copy(self) -> Written:
        """A recording with the same parts."""
        return copy.deepcopy(self)

    def files(self) -> dict[str, bytes]:
        """Every file's bytes by name."""
        rank = [json_frame(item) for item in self.records if item is not None]
        found = {
            self.names["rank"]: b"".join(
                [MAGIC, *rank[:-1], block("steps", self.steps, self.header), *rank[-1:], self.tail]
            ),
            self.names["worker"]: b"".join([MAGIC, *map(json_frame, self.worker)]),
            self.names["machine"]: MAGIC + json_frame(self.facts) + block("machine", self.machine),
        }
        for name, value in (("recording.json", self.manifest), ("end.json", self.ending)):
            if value is not None:
                found[name] = value if isinstance(value, bytes) else dumped(value).encode("utf-8", "surrogatepass")
        return {**found, **self.more}

    def write(self, folder: Path) -> Path:
        """Write the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files().items():
            (folder / name).write_bytes(data)
        return folder


class Raw(str):
    """JSON text that stands in a record as it is."""


def dumped(value: Any) -> str:
    """JSON, with `Raw` texts unquoted; what has no JSON is a text."""
    raw: dict[str, str] = {}

    def prepared(item: Any) -> Any:
        if isinstance(item, Raw):
            mark = f"@raw{len(raw)}@"
            raw[f'"{mark}"'] = str(item)
            return mark
        if isinstance(item, dict):
            return {str(key): prepared(inner) for key, inner in item.items()}
        if isinstance(item, list):
            return [prepared(inner) for inner in item]
        return item

    text = json.dumps(prepared(value))
    for mark, literal in raw.items():
        text = text.replace(mark, literal)
    return text


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame with its right sum."""
    return struct.pack("<cII", kind, len(payload), zlib.crc32(payload)) + payload


def json_frame(item: Any) -> bytes:
    """A record's frame."""
    return frame(b"J", item if isinstance(item, bytes) else dumped(item).encode("utf-8", "surrogatepass"))


def block(table: str, columns: dict[str, list[Any]], header: Object | None = None) -> bytes:
    """A block of columns; `header` replaces fields of its header."""
    rows = len(next(iter(columns.values()))[1]) if columns else 0
    head = {"table": table, "n": rows, "columns": [[name, code] for name, (code, _) in columns.items()]}
    head |= header or {}
    data = b"".join(array("d" if code == "d" else code, values).tobytes() for code, values in columns.values())
    return frame(b"C", dumped(head).encode("utf-8", "surrogatepass") + b"\n" + data)
