"""Memory and time of reading a large profiler trace: writes one by a generator, reads it, prints the peak.

python benchmarks/trace_memory.py [--megabytes 500] [--packed]
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

STEP = 100_000.0
"""Microseconds of a step."""


def events(step: int) -> Iterator[dict[str, Any]]:
    """One step of a training thread with Python's functions, of autograd's, and of a device: 3,001 events."""
    begin = step * STEP
    common = {"ph": "X", "pid": 1}
    yield {**common, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "tid": 1, "ts": begin, "dur": STEP}
    for number in range(500):
        at, sequence = begin + number * 180, step * 500 + number
        args = {"External id": sequence, "Input Dims": [[64, 1024, 1024], [1024]], "Input type": ["float", "float"]}
        function = {"Python id": sequence, "Python parent id": sequence - 1, "Python module id": number % 40}
        launch = {"cbid": 211, "correlation": sequence}
        kernel = {"grid": [512, 1, 1], "block": [256, 1, 1], "correlation": sequence, "est. achieved occupancy %": 75}
        for name, category, thread, later, took, more in (
            ("torch/nn/modules/module.py(1736): _wrapped_call_impl", "python_function", 1, 0, 170.0, function),
            (f"model.py({number % 60 + 10}): forward", "python_function", 1, 5, 160.0, function),
            ("aten::linear", "cpu_op", 1, 10, 60.0, args),
            ("cudaLaunchKernel", "cuda_runtime", 1, 30, 7.0, launch),
            ("autograd::engine::evaluate_function: AddmmBackward0", "cpu_op", 2, 90, 60.0, args),
            ("void at::native::vectorized_elementwise_kernel<4>", "kernel", 7, 40, 150.0, kernel),
        ):  # fmt: skip
            yield {**common, "cat": category, "name": name, "tid": thread, "ts": at + later, "dur": took, "args": more}


def write(file: IO[str], megabytes: int) -> tuple[int, int]:
    """Writes a trace of about this size; returns its steps and characters."""
    size, step = file.write('{"schemaVersion": 1, "deviceProperties": [{"name": "made"}], "traceEvents": ['), 0
    while size < megabytes << 20:
        text = ",\n".join(json.dumps(event) for event in events(step))
        size += file.write((",\n" if step else "") + text)
        step += 1
    return step, size + file.write('], "traceName": "made.json"}')


def main() -> None:
    """Write, read, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.read:
        from gpudoctor.vitals.recording import open_recording

        start = time.monotonic()
        (rank,) = open_recording(chosen.read).ranks
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"steps": len(rank.steps), "seconds": time.monotonic() - start, "peak": peak * 1024}))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"large.pt.trace.json{'.gz' if chosen.packed else ''}"
        with gzip.open(path, "wt", compresslevel=1) if chosen.packed else path.open("w") as file:
            steps, size = write(file, chosen.megabytes)
        done = subprocess.run(
            [sys.executable, __file__, "--read", str(path)], capture_output=True, text=True, check=True
        )
    found = json.loads(done.stdout)
    if found["steps"] != steps:
        raise SystemExit(f"{found['steps']} steps were read of {steps}")
    print(
        f"{size >> 20:,} MiB of JSON ({steps} steps): peak {found['peak'] / (1 << 20):,.0f} MiB, "
        f"{found['seconds']:.1f} s ({size / (1 << 20) / found['seconds']:.0f} MiB a second)"
    )


if __name__ == "__main__":
    main()
