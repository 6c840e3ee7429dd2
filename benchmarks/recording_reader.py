"""Speed and memory of reading recordings, and of the first numbers made from them, on synthetic jobs.

    python benchmarks/recording_reader.py [--ranks 1,64,1024] [--steps 1000] [--rounds 3] [--json FILE]

Each row is a folder of so many ranks with so many steps, as `gpudoctor run` writes it (blocks of 64 rows, the
records of an ordinary training among them), read by a fresh process. Goal: 1,024 ranks x 1,000 steps in under
10 s and under 1 GB of resident memory.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

from cli_speed import machine
from recordings import lines, make_process, make_recording, make_steps, site, write_recording

_READ = """
import sys
from gpudoctor.vitals.recording import read_recording
recording = read_recording(sys.argv[1])
assert len(recording.ranks) == int(sys.argv[2]), len(recording.ranks)
assert all(len(rank.steps) == int(sys.argv[3]) for rank in recording.ranks)
"""
_SAMPLES = 40
"""Records of the sampler and of sites a rank: one of each every 25 steps."""


def make(folder: Path, ranks: int, steps: int) -> Path:
    """A folder of so many ranks; eight different ranks stand for all, since only the sizes matter here."""
    kinds = [make_steps(steps, seed=seed, rss=2e9, allocated=1e10, grad_norm=1.0) for seed in range(8)]
    records = []
    for turn in range(_SAMPLES):
        records.append(lines(*(("forward", "/job/model.py", 10 + i, "forward", 5 + turn) for i in range(8)), t=turn))
        records.append(site("logging", "wandb.log", 0.01 * turn, turn, path="/job/train.py", line=70))
    processes = [
        make_process(kinds[rank % 8], rank=rank, world=ranks, node=f"node-{rank // 8}", records=records)
        for rank in range(ranks)
    ]
    return write_recording(make_recording(*processes), folder)


def read(folder: Path, ranks: int, steps: int) -> tuple[float, float]:
    """Seconds on the clock and greatest resident bytes of a process that reads the folder."""
    begin = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", _READ, str(folder), str(ranks), str(steps)])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"reading {folder} ended with exit code {child.returncode}")
    return time.perf_counter() - begin, used.ru_maxrss * 1024.0


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,64,1024")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows = []
    print(machine())
    print(f"{'ranks':>6} {'steps':>6} {'size':>9} {'seconds':>9} {'resident':>9}")
    for ranks in map(int, arguments.ranks.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = make(Path(name) / "recording", ranks, arguments.steps)
            size = sum(path.stat().st_size for path in folder.iterdir())
            taken = [read(folder, ranks, arguments.steps) for _ in range(arguments.rounds)]
        seconds = statistics.median(item[0] for item in taken)
        resident = max(item[1] for item in taken)
        print(f"{ranks:6} {arguments.steps:6} {size / 1e6:6.1f} MB {seconds:7.2f} s {resident / 1e6:6.0f} MB")
        rows.append({"ranks": ranks, "steps": arguments.steps, "bytes": size, "seconds": seconds,
                     "resident_bytes": resident})  # fmt: skip
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
