"""Speed and memory of reading source: whole processes of `gpudoctor check`, by the lines of the script.

    python benchmarks/source_speed.py [FOLDER ...] [--rounds 3] [--json FILE]

Scripts of 1,000 to 100,000 lines are made on the spot (a training loop every 13 lines: far denser than
people write them). Folders that are named, say a checkout of pytorch/examples, are examined as a whole. The
table shows seconds of CPU, the largest resident memory of the process, and how the time grows from size to
size: the exponent is 1 where time is linear in lines. Goals: a 1,000-line script in 0.3 s whole-process,
memory under 300 MB.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from cli_speed import machine, make_script

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def run(target: Path) -> tuple[float, float]:
    """Seconds of CPU and largest resident bytes of one examination, its children included."""
    command = [
        sys.executable,
        "-m",
        "gpudoctor",
        "check",
        str(target),
        "--format",
        "json",
        "--fail-on",
        "never",
    ]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {child.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0


def lines_of(target: Path) -> int:
    """Lines of Python below a folder, or in a file."""
    files = [target] if target.is_file() else sorted(target.rglob("*.py"))
    return sum(file.read_bytes().count(b"\n") for file in files)


def measure(target: Path, name: str, rounds: int) -> dict[str, object]:
    """One row: medians over the rounds."""
    taken = [run(target) for _ in range(rounds)]
    return {
        "target": name,
        "lines": lines_of(target),
        "cpu_seconds": round(statistics.median(seconds for seconds, _ in taken), 3),
        "resident_bytes": int(max(memory for _, memory in taken)),
    }


def growth(before: dict[str, object], after: dict[str, object]) -> float:
    """Exponent of the time's growth with the lines, between two rows."""
    times = float(str(after["cpu_seconds"])) / float(str(before["cpu_seconds"]))
    return math.log(times) / math.log(float(str(after["lines"])) / float(str(before["lines"])))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, help="folders to examine as a whole")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    print(
        "  ".join(f"{key}: {value}" for key, value in machine().items() if key not in ("torch", "accelerate"))
    )
    print(f"\n{'target':<34}{'lines':>9}{'CPU s':>9}{'resident MB':>13}{'exponent':>10}")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "train.py"
        empty = Path(folder) / "nothing.py"
        empty.write_text("")
        run(empty)  # warms the page cache
        for target, name in [(empty, "an empty script"), *((made, f"{size:,} lines") for size in SIZES)]:
            if target is made:
                make_script(made, int(name.split()[0].replace(",", "")))
            rows.append(measure(target, name, options.rounds))
            show(rows)
    for target in options.folders:
        rows.append(measure(target, target.name, options.rounds))
        show(rows[-1:])
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2) + "\n")


def show(rows: list[dict[str, object]]) -> None:
    """Print the last row."""
    row = rows[-1]
    grown = f"{growth(rows[-2], row):>10.2f}" if len(rows) > 2 else ""
    resident = float(str(row["resident_bytes"])) / 1e6
    print(f"{row['target']:<34}{row['lines']:>9}{row['cpu_seconds']:>9}{resident:>13.0f}{grown}", flush=True)


if __name__ == "__main__":
    main()
