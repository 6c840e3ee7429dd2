"""Speed and memory of reading source: whole processes of `gpudoctor check`, by lines and by files.

    python benchmarks/source_speed.py [PATH ...] [--rounds 3] [--json FILE]

Scripts of 1,000 to 30,000 lines are made on the spot (a training loop every 13 lines: far denser than
people write them), and repositories of 100 to 1,000 files: a package of models, data sets and helpers, and a
training script for every twenty files, each of which imports from the package. A script of the largest
repository is examined alone as well. Paths that are named, say a checkout of pytorch/examples, or a script in
it, are examined as they are. The table shows seconds of CPU, the largest resident memory of the process, and
how the time grows from size to size: the exponent is 1 where time is linear in lines. Goals: 1 s for a script
with the repository that it imports, 20 s for a folder of 1,000 files, memory under 300 MB.
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

SIZES = (1_000, 3_000, 10_000, 30_000)
FILES = (100, 300, 1_000)
"""Files of the repositories that are made; the last one is the goal's."""
SCRIPT_GOAL = 1.0
FOLDER_GOAL = 20.0
"""Seconds of CPU."""

MODEL = '''
import torch
from torch import nn
from repo.helpers.helper_{other} import scaled_{other}

class Block{n}(nn.Module):
    """One residual block."""

    def __init__(self, width, depth=2, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        y = self.norm(x)
        for layer in self.layers:
            y = torch.relu(layer(y))
        if mask is not None:
            y = y.masked_fill(mask[..., None], 0.0)
        return x + self.drop(y)

class Net{n}(nn.Module):
    def __init__(self, inputs, width, classes, blocks=4):
        super().__init__()
        self.stem = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(*[Block{n}(width) for _ in range(blocks)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(scaled_{other}(self.blocks(self.stem(x))).mean(1))
'''
DATA = """
import os
import numpy as np
import torch
from torch.utils.data import Dataset
from repo.helpers.helper_{other} import table_{other}

class Items{n}(Dataset):
    def __init__(self, root, split="train", augment=True):
        self.root, self.split, self.augment = root, split, augment
        self.names = sorted(os.listdir(os.path.join(root, split)))
        self.table = table_{other}(self.names)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        item = np.load(os.path.join(self.root, self.split, self.names[index]))
        x = torch.from_numpy(item["x"]).float()
        if self.augment and np.random.rand() < 0.5:
            x = x.flip(0)
        return x, int(item["y"])
"""
HELPER = '''
import json
import math

def scaled_{n}(x, factor=0.5):
    return x * math.sqrt(factor)

def table_{n}(names, least=1):
    """How often each name occurs."""
    found = {{}}
    for name in names:
        key = name.split("_")[0]
        found[key] = found.get(key, 0) + 1
    return {{key: count for key, count in found.items() if count >= least}}

def settings_{n}(path, **given):
    with open(path) as file:
        values = json.load(file)
    values.update(given)
    if values.get("rate", 0) <= 0:
        raise ValueError("a rate is positive")
    return values
'''
TRAIN = """
import argparse
import torch
from torch.utils.data import DataLoader
from repo.data.data_{other} import Items{other}
from repo.models.model_{other} import Net{other}
from repo.helpers.helper_{other} import settings_{other}

def train(model, loader, optimizer, device, epochs):
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / len(loader))

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default="data")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Items{other}(args.root), args.batch_size, shuffle=True, num_workers=args.workers)
    model = Net{other}(64, settings_{other}("net.json")["width"], 10).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    train(model, loader, optimizer, device, 10)

if __name__ == "__main__":
    main()
"""


def make_repository(folder: Path, files: int) -> Path:
    """A repository of that many files of about 120 lines; returns one of its training scripts."""
    package = folder / "repo"
    kinds = {"models/model": MODEL, "data/data": DATA, "helpers/helper": HELPER}
    each = files * 19 // 20 // len(kinds)
    for place, text in kinds.items():
        (package / place).parent.mkdir(parents=True)
        (package / place).parent.joinpath("__init__.py").write_text("")
        for n in range(each):
            parts = [text.format(n=f"{n}_{part}" if part else n, other=(n * 7 + part) % each) for part in range(4)]
            (package / f"{place}_{n}.py").write_text("".join(parts))
    (package / "__init__.py").write_text("")
    made = 4 + each * len(kinds)
    for n in range(files - made):
        (folder / f"train_{n}.py").write_text(TRAIN.format(other=n * 3 % each))
    return folder / "train_0.py"


def run(target: Path) -> tuple[float, float]:
    """Seconds of CPU and largest resident bytes of one examination, its children included."""
    command = [sys.executable, "-m", "gpudoctor", "check", str(target), "--format", "json", "--fail-on", "never"]
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
    parser.add_argument("paths", nargs="*", type=Path, help="folders or scripts to examine, too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    print("  ".join(f"{key}: {value}" for key, value in machine().items() if key not in ("torch", "accelerate")))
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
    with tempfile.TemporaryDirectory() as folder:
        for files in FILES:
            tree = Path(folder) / str(files)
            tree.mkdir()
            script = make_repository(tree, files)
            rows.append(measure(tree, f"{files:,} files", options.rounds))
            show(rows[-2:] if files == FILES[0] else rows)
        rows.append(measure(script, "a script of them", options.rounds))
        show(rows[-1:])
    for target in options.paths:
        rows.append(measure(target, str(target), options.rounds))
        show(rows[-1:])
    reached = [
        (float(str(row["cpu_seconds"])), goal, name)
        for row in rows
        for name, goal in (("a script of them", SCRIPT_GOAL), (f"{FILES[-1]:,} files", FOLDER_GOAL))
        if row["target"] == name
    ]
    for seconds, goal, name in reached:
        print(f"{name}: {seconds} s of CPU, goal {goal:g} s: {'reached' if seconds <= goal else 'missed'}")
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
