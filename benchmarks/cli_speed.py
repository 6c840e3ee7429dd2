"""Speed of the command line, whole process, beside its neighbours.

    python benchmarks/cli_speed.py [--rounds 15] [--json FILE]

Run it with the interpreter of an environment that has gpudoctor, torch and accelerate; what is missing is left
out and said so. Commands are interleaved round by round, so that a busy machine slows all of them alike; the
table shows medians. The goals are those of the project: --help under 0.15 s, check of the machine at most half
of the faster neighbour, a 1,000-line script adds under 0.15 s.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HELP_GOAL = 0.15
CHECK_GOAL = 0.5
SCRIPT_GOAL = 0.15
IMPORT_GOAL = 0.100

STEP = """
def train_{n}(model, loader, optimizer, device):
    model.train()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, loss.item())
"""


def make_script(path: Path, lines: int) -> int:
    """A training script of about that many lines; returns the true number."""
    text = "import torch\nfrom torch.utils.data import DataLoader\n"
    count = 0
    while text.count("\n") < lines:
        text += STEP.format(n=count)
        count += 1
    path.write_text(text)
    return text.count("\n")


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of a command, its output discarded."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def import_seconds() -> float:
    """Cumulative import time of gpudoctor.cli, by -X importtime, median of five."""
    totals = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import gpudoctor.cli"],
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [line.split("|") for line in done.stderr.splitlines() if "|" in line and "[us]" not in line]
        assert not any(parts[2].strip() == "torch" for parts in lines), "torch was imported"
        totals.append(next(int(parts[1]) for parts in lines if parts[2].strip() == "gpudoctor.cli") / 1e6)
    return statistics.median(totals)


def commands(folder: Path) -> dict[str, list[str]]:
    """Name of each row to its command."""
    script = folder / "train.py"
    make_script(script, 1000)
    ours = [sys.executable, "-m", "gpudoctor"]
    rows = {
        "gpudoctor --help": [*ours, "--help"],
        "gpudoctor check": [*ours, "check"],
        "gpudoctor check (1,000-line script)": [*ours, "check", str(script)],
    }
    if importlib.util.find_spec("torch"):
        rows["python -m torch.utils.collect_env"] = [sys.executable, "-m", "torch.utils.collect_env"]
    if importlib.util.find_spec("accelerate"):
        rows["accelerate env"] = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "env"]
    return rows


def machine() -> dict[str, str]:
    """What the numbers were taken on."""
    versions = {}
    for name in ("gpudoctor", "torch", "accelerate"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "cpu": f"{os.cpu_count()} x {cpu_name()}",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": time.strftime("%Y-%m-%d"),
        **versions,
    }


def cpu_name() -> str:
    """The CPU's model, where /proc tells."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown CPU"
    return next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "CPU")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = commands(Path(folder))
        times: dict[str, list[float]] = {name: [] for name in rows}
        for round_number in range(arguments.rounds + 1):
            for name, command in rows.items():
                taken = seconds(command)
                if round_number:  # the first round warms the page cache and byte code
                    times[name].append(taken)
    medians = {name: statistics.median(values) for name, values in times.items()}
    figures = {"machine": machine(), "rounds": arguments.rounds, "median_seconds": medians}
    figures["import_seconds"] = import_seconds()
    report(medians, times, figures)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")


def report(medians: dict[str, float], times: dict[str, list[float]], figures: dict[str, object]) -> None:
    """The table, and each goal with what was measured."""
    print("  ".join(f"{key}: {value}" for key, value in machine().items()))
    print(f"\n{'command':<38}{'median s':>10}{'min':>8}{'max':>8}")
    for name, value in medians.items():
        print(f"{name:<38}{value:>10.3f}{min(times[name]):>8.3f}{max(times[name]):>8.3f}")
    check, helped = medians["gpudoctor check"], medians["gpudoctor --help"]
    added = medians["gpudoctor check (1,000-line script)"] - check
    goals = [
        ("import gpudoctor.cli", figures["import_seconds"], IMPORT_GOAL),
        ("--help", helped, HELP_GOAL),
        ("a 1,000-line script adds", added, SCRIPT_GOAL),
    ]
    neighbours = [value for name, value in medians.items() if not name.startswith("gpudoctor")]
    if neighbours:
        goals.append(("check of the machine", check, CHECK_GOAL * min(neighbours)))
    print()
    for name, value, goal in goals:
        verdict = "met" if float(str(value)) <= goal else "MISSED"
        print(f"{name:<38}{float(str(value)):>10.3f}  goal {goal:.3f}  {verdict}")


if __name__ == "__main__":
    main()
