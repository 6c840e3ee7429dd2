"""Traces of the PyTorch profiler: odd values in events, documents that are none, bombs, damage."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attack.case import Attempt
from attack.hostile.commands import run, warm, why_broken
from attack.hostile.written import Raw, dumped

GROUP = "Kineto traces"
MEMORY = 3 << 29
"""Bytes: a trace of 130 MB takes up to ten times that while its JSON is read."""
ODD: list[Any] = [
    None, True, -1, 0, 2**63, 10**400, -(10**30), 1.5, 1e300, Raw("NaN"), Raw("Infinity"), Raw("-1e999"), "", "x", "9" * 5000,
    "\ud800", [], {}, [[]], {"a": []}, ["a"], "\x00", "train.py(99999999999999999999): f", "ProfilerStep#" + "9" * 5000,
]  # fmt: skip


def events(steps: int = 12) -> list[dict[str, Any]]:
    """A training thread, its operators, and a device."""
    found: list[dict[str, Any]] = []
    common = {"ph": "X", "pid": 10, "tid": 10}
    for step in range(steps):
        at = 1e6 + step * 5000.0
        rows = [
            (f"ProfilerStep#{step}", "user_annotation", 0, 4900), ("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 10, 800),
            ("aten::linear", "cpu_op", 900, 500), ("autograd::engine::evaluate_function: AddmmBackward0", "cpu_op", 1500, 900),
            ("Optimizer.step#SGD.step", "user_annotation", 2500, 700), ("cudaStreamSynchronize", "cuda_runtime", 3300, 400),
            ("aten::_local_scalar_dense", "cpu_op", 3300, 450), ("nccl:all_reduce", "cpu_op", 3900, 300),
            ("train.py(12): step", "python_function", 890, 3000), ("sgemm", "kernel", 1000, 900), ("Memcpy HtoD", "gpu_memcpy", 2000, 100),
        ]  # fmt: skip
        found += [
            {**common, "name": name, "cat": cat, "ts": at + begin, "dur": took, "args": {}}
            for name, cat, begin, took in rows
        ]
    return found


def document() -> dict[str, Any]:
    """A whole trace."""
    return {
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85 << 30}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, "host_name": "n1", "traceEvents": events(),
    }  # fmt: skip


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Each trace through report."""
    warm()
    dice = random.Random(seed)
    for number, (name, data) in enumerate(_traces(dice)):
        folder = scratch / f"k{number}"
        folder.mkdir()
        file = "a.pt.trace.json.gz" if data[:2] == b"\x1f\x8b" else "a.pt.trace.json"
        (folder / file).write_bytes(data)
        words = dice.choice([["report", file, "--format", "json"], ["report", ".", "--verbose"], ["report", file, "--format", "html"],
                             ["compare", file, file]])  # fmt: skip
        yield Attempt(group=GROUP, name=name, broken=why_broken(run(words, folder), memory=MEMORY))
        shutil.rmtree(folder)


def _traces(dice: random.Random) -> Iterator[tuple[str, bytes]]:
    whole = json.dumps(document()).encode()
    yield "whole", whole
    yield "packed", gzip.compress(whole)
    for field in ("name", "cat", "ts", "dur", "pid", "tid", "ph", "args"):
        for value in dice.sample(ODD, 5):
            one = document()
            for event in one["traceEvents"] if dice.random() < 0.3 else dice.sample(one["traceEvents"], 6):
                event[field] = value
            yield f"event {field} = {value!r:.30}", _bytes(one)
        one = document()
        for event in dice.sample(one["traceEvents"], 30):
            event.pop(field)
        yield f"events without {field}", _bytes(one)
    for field in document():
        for value in dice.sample(ODD, 4):
            yield f"{field} = {value!r:.30}", _bytes({**document(), field: value})
    for inner in ("backend", "rank", "world_size"):
        for value in dice.sample(ODD, 3):
            yield (
                f"distributedInfo {inner} = {value!r:.30}",
                _bytes({**document(), "distributedInfo": {**document()["distributedInfo"], inner: value}}),
            )
    for inner in ("name", "totalGlobalMem"):
        for value in dice.sample(ODD, 3):
            yield (
                f"deviceProperties {inner} = {value!r:.30}",
                _bytes({**document(), "deviceProperties": [{inner: value}]}),
            )
    for where in ("ts", "dur"):
        one = document()
        dice.shuffle(one["traceEvents"])
        for event in one["traceEvents"]:
            event[where] = dice.uniform(-1e12, 1e12)
        yield f"{where} at random", _bytes(one)
    one = document()
    for event in one["traceEvents"]:
        event["ts"] = 5.0
    yield "everything at once", _bytes(one)
    bad = gzip.compress(whole)
    for number in range(8):
        damaged = bytearray(bad)
        damaged[dice.randrange(2, len(damaged))] ^= 1 << dice.randrange(8)
        yield f"damaged gz {number}", bytes(damaged)
    for number in range(6):
        yield f"cut gz {number}", bad[: dice.randrange(2, len(bad))]
        yield f"cut {number}", whole[: dice.randrange(len(whole))]
    head = b'{"schemaVersion": 1, "traceEvents": ['
    yield "gz bomb of zeros", gzip.compress(head + bytes(500 << 20), 1)
    yield "gz bomb of spaces", gzip.compress(head + b" " * (900 << 20), 1)
    yield "gz bomb of objects", gzip.compress(head + b"{}," * (30 << 20) + b"{}]}", 6)
    yield "gz bomb of lists", gzip.compress(head + b"[]," * (30 << 20) + b"[]]}", 6)
    yield "gz bomb of numbers", gzip.compress(head + b"1," * (30 << 20) + b"1]}", 6)
    yield "gz of gz", gzip.compress(gzip.compress(whole))
    yield "ten streams", gzip.compress(whole) * 10
    yield "deep lists", head + b"[" * 200_000
    yield "deep objects", head + b'{"a":' * 200_000
    yield "a document of one list", json.dumps(events()).encode()
    yield "a byte order mark", b"\xef\xbb\xbf" + whole
    yield "UTF-16", json.dumps(document()).encode("utf-16")
    yield "lone surrogates", whole.replace(b"SGD", b"\\ud800\\udfff")
    yield "100,000 steps", _bytes({**document(), "traceEvents": _many()})


def _many() -> list[dict[str, Any]]:
    return [
        {"ph": "X", "pid": 1, "tid": 1, "name": f"ProfilerStep#{i}", "cat": "user_annotation", "ts": i * 10, "dur": 9}
        for i in range(100_000)
    ]


def _bytes(value: Any) -> bytes:
    return dumped(value).encode("utf-8", "surrogatepass")
