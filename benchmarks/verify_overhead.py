"""What `gpudoctor verify` costs beyond the training that it runs: start and analysis, seconds a run.

    python benchmarks/verify_overhead.py [--rounds N] [--json FILE] [--remark WORDS]

Two jobs, one process and two ranks under torchrun, each with a loop that collects garbage on every step, so
that there is a remedy to try. A call of `verify` makes one run to look at and pairs of runs. Its whole time,
less what the same program takes by itself (the start until its first step, measured without us, and the steps
that were made, by their recordings), is our own: before the first step, between the last step and the end of
the run, and beside the runs (diagnosis, reading, statistics, report). The goal is 2 s a run.
"""

import argparse
import contextlib
import io
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

DATA = Path(__file__).parent / "data" / "verify-overhead.json"
GOAL = 2.0
"""Seconds a run."""
JOB = """
import gc, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if "MARK" in os.environ and os.environ.get("RANK", "0") == "0":
    open(os.environ["MARK"], "w").write(repr(time.time()))
    sys.stdout.flush()
    if "RANK" not in os.environ:
        os._exit(0)
for step in range(4000):
    x = torch.randn(64, 128)
    loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    gc.collect()
    if "MARK" in os.environ:
        break
"""
COMMANDS = {
    "one process": ["job.py"],
    "two ranks": ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "job.py"],
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the command under verify."""

    seconds: float
    """From the start of the command until all of it was ended."""
    start: float
    """Until its first step."""
    training: float
    """In steps, the slowest rank's."""


def bare_start(words: list[str], folder: Path) -> float:
    """Seconds from the start of the program to its first step, without us."""
    mark = folder / "mark"
    began = time.time()
    subprocess.run([sys.executable, *words], cwd=folder, env={**os.environ, "MARK": str(mark)},
                   capture_output=True, check=True)  # fmt: skip
    return float(mark.read_text(encoding="utf-8")) - began


def call(words: list[str], folder: Path) -> tuple[float, list[Run]]:
    """One call of `verify` in this process: its seconds, less those of this reading, and its runs."""
    from gpudoctor.analysis.run.run_numbers import run_numbers
    from gpudoctor.cli import main
    from gpudoctor.trial import trial_runner
    from gpudoctor.vitals.recording import read_recording

    runs: list[Run] = []
    reading = 0.0
    original: Callable[..., Any] = trial_runner.run_bounded

    def watched(plan: Any, **named: Any) -> Any:
        nonlocal reading
        began = time.monotonic()
        finished = original(plan, **named)
        spent = time.monotonic() - began
        recording = read_recording(str(plan.folder))
        training = max(math.fsum(process.steps.column("duration")) for process in recording.ranks)
        start = run_numbers(recording).start_seconds or 0.0
        runs.append(Run(seconds=spent, start=start, training=training))
        reading += time.monotonic() - began - spent
        return finished

    here = os.getcwd()
    os.chdir(folder)
    trial_runner.run_bounded = watched
    began = time.monotonic()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            out = ["--recording", str(folder / "recording"), "--output", str(folder / "report.json")]
            main(["verify", "--quiet", "--select", "SYNC002", *out, "--", sys.executable, *words])
    finally:
        spent = time.monotonic() - began
        trial_runner.run_bounded = original
        os.chdir(here)
    return spent - reading, runs


def measure(name: str) -> dict[str, Any]:
    """One call on one job."""
    with tempfile.TemporaryDirectory(prefix="verify-overhead-") as place:
        folder = Path(place)
        (folder / "job.py").write_text(JOB, encoding="utf-8")
        bare = median(bare_start(COMMANDS[name], folder) for _ in range(3))
        seconds, runs = call(COMMANDS[name], folder)
    beside = seconds - sum(run.seconds for run in runs)
    return {
        "job": name,
        "runs": len(runs),
        "seconds": round(seconds, 2),
        "bare_start": round(bare, 3),
        "start": round(median(run.start - bare for run in runs), 3),
        "end": round(median(run.seconds - run.start - run.training for run in runs), 3),
        "beside": round(beside, 3),
        "overhead": round((seconds - sum(bare + run.training for run in runs)) / len(runs), 3),
    }


def main() -> int:
    """Print the table; exit code 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--remark", default="", help="what else ran on the machine")
    given = parser.parse_args()
    print(f"{'job':<14}{'runs':>5}{'own start':>11}{'+ start':>9}{'+ end':>8}{'beside all':>12}{'a run':>9}")
    rows = []
    for _ in range(given.rounds):
        for name in COMMANDS:
            row = measure(name)
            rows.append(row)
            print(f"{name:<14}{row['runs']:>5}{row['bare_start']:>10.2f}s{row['start']:>8.2f}s{row['end']:>7.2f}s"
                  f"{row['beside']:>11.2f}s{row['overhead']:>8.2f}s", flush=True)  # fmt: skip
    if given.json:
        how = {"date": date.today().isoformat(), "python": platform.python_version(), "cpus": os.cpu_count(),
               "load": round(os.getloadavg()[0], 1), "remark": given.remark, "goal": GOAL}  # fmt: skip
        given.json.write_text(json.dumps({"how": how, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return int(any(row["overhead"] > GOAL for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
