"""Reports of large recordings: their time and memory grow no faster than the recording does."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attack.case import Attempt

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.helpers.large_recordings import write_large  # noqa: E402  # found by the line above

GROUP = "size of a recording"
ROWS = (10_000, 100_000, 2_000_000)
LINEAR = 2.0
"""By how much a row of the largest recording may cost more than one of the middle one: caches, and noise."""
BYTES_A_ROW = 1500
"""Of memory; a row has some 170 B in its file."""
LEAST = 0.3
"""Seconds; what is shorter says nothing about growth."""
SECONDS = 300


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    code: int
    cpu: float
    memory: int
    """Bytes, the most at a time."""
    words: str


def cost(*words: str) -> Cost:
    """CPU seconds and memory of a command, its children included."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert process.stderr is not None
    deadline = time.monotonic() + SECONDS
    err = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status) if time.monotonic() < deadline else -1
    memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Cost(code, usage.ru_utime + usage.ru_stime, memory, err.decode(errors="replace"))


def growth(sizes: Sequence[int], costs: Sequence[Cost]) -> float:
    """What one more of the largest costs, over what one more of the middle costs."""
    small, middle, large = (max(0.0, item.cpu) for item in costs)
    each = max(middle - small, LEAST) / (sizes[1] - sizes[0])
    return (large - middle) / (sizes[2] - sizes[1]) / each


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Rows, records, ranks and samples; every format."""
    yield from rows(seed, scratch)
    for name, sizes in (("records", (1_000, 4_000, 16_000)), ("samples", (5_000, 20_000, 80_000))):
        made = [
            report(scratch, **{"rows": 2_000, "records": 50, "samples": 50, "seed": seed, name: size}) for size in sizes
        ]
        yield verdict(f"{name} {sizes[-1]:,}", sizes, made)
    sizes = (16, 32, 64)
    made = [report(scratch, rows=1_000, ranks=ranks, records=50, samples=50, seed=seed) for ranks in sizes]
    yield verdict("ranks 64", sizes, made)


def rows(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Reports by number of rows, one for each size; of the middle one in every other way too."""
    made = []
    for size in ROWS:
        folder = write_large(scratch / f"rows-{size}", size, seed=seed)
        one = cost("report", str(folder), "--fail-on", "never")
        made.append(one)
        yield Attempt(GROUP, f"rows {size:,}: {one.cpu:.1f} s, {one.memory >> 20} MiB", broken(one, size))
        if size == ROWS[1]:
            out = scratch / "out"
            for words in (["--format", "html"], ["--format", "json"], ["--tensorboard", str(scratch / "board")]):
                other = cost("report", str(folder), "--fail-on", "never", "--output", str(out), *words)
                slow = other.cpu > 2 * one.cpu + 2
                why = f"{other.cpu:.1f} s, as text {one.cpu:.1f} s" if slow else broken(other, size)
                yield Attempt(GROUP, f"rows {size:,} {words[0]} {words[1][:8]}", why)
            both = cost("compare", str(folder), str(folder))
            slow = both.cpu > 3 * one.cpu + 2
            yield Attempt(GROUP, "compare", f"{both.cpu:.1f} s" if slow else broken(both, 2 * size))
        shutil.rmtree(folder)
    yield verdict("rows", ROWS, made)


def report(scratch: Path, **given: int) -> Cost:
    """The cost of a report on a recording that is made for it."""
    folder = write_large(scratch / "one", **given)  # type: ignore[arg-type]  # rows is among them
    try:
        return cost("report", str(folder), "--fail-on", "never")
    finally:
        shutil.rmtree(folder)


def verdict(name: str, sizes: Sequence[int], made: Sequence[Cost]) -> Attempt:
    """Whether the cost is linear in the size."""
    times = growth(sizes, made)
    bad = next((why for item in made if (why := broken(item, None)) is not None), None)
    if bad is None and times > LINEAR:
        bad = f"one more costs {times:.1f} times as much at {sizes[2]:,} as at {sizes[1]:,}"
    return Attempt(GROUP, f"{name}: growth {times:.2f}", bad)


def broken(item: Cost, size: int | None) -> str | None:
    """What is wrong with one command."""
    if item.code != 0:
        return f"exit code {item.code}: {item.words[-300:]}"
    if "Traceback" in item.words:
        return item.words[-300:]
    if size is not None and item.memory > (100 << 20) + BYTES_A_ROW * size:
        return f"{item.memory >> 20} MiB of memory for {size:,} rows"
    return None
