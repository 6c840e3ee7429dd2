"""Attacks gpudoctor and prints, by group, how much was tried, how much it withstood and what broke.

    python benchmarks/attack [--seed 20261122] [--only MODULE ...] [--broken]

A group is a row of the table; a module of this folder has a function `attempts(seed, scratch)` that yields the
attempts of one group or more. Exit code 1 when something broke.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from attack.case import Attempt, attack  # noqa: E402 - the folder above must be on the path first

ALONE = {"expressions", "secrets", "unharmed"}
"""Modules that measure time, or use all CPUs themselves."""
NOT_GROUPS = {"__main__", "case"}


def modules() -> list[str]:
    """The names of the modules that attack."""
    found = [path.stem for path in HERE.glob("*.py") if "\ndef attempts(" in path.read_text(encoding="utf-8")]
    return sorted(set(found) - NOT_GROUPS)


def everything(names: list[str], seed: int) -> Iterator[tuple[str, list[Attempt], float]]:
    """What each module came to; those of `ALONE` one after the other, the others on all CPUs."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(lambda name: isolated(name, seed), [name for name in names if name not in ALONE])
    for name in names:
        if name in ALONE:
            yield isolated(name, seed)


def isolated(name: str, seed: int) -> tuple[str, list[Attempt], float]:
    """A module in a process of its own: the peak memory of a child counts what its parent had."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return (name, *pool.submit(attack, name, seed).result())


def counted(attempts: list[Attempt]) -> dict[str, dict[str, Any]]:
    """The attempts by group."""
    rows: dict[str, dict[str, Any]] = {}
    for attempt in attempts:
        row = rows.setdefault(attempt.group, {"tried": 0, "held": 0, "broken": 0, "of": []})
        row["tried"] += 1
        row["broken" if attempt.broken is not None else "held"] += 1
        if attempt.broken is not None:
            row["of"].append({"name": attempt.name, "why": attempt.broken})
    return rows


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--only", nargs="+", choices=modules(), default=modules())
    parser.add_argument("--python", help="interpreter for the programs that are recorded, with torch")
    parser.add_argument("--broken", action="store_true", help="print what broke")
    options = parser.parse_args()
    if options.python:
        os.environ["ATTACK_PYTHON"] = options.python

    rows: dict[str, dict[str, Any]] = {}
    for name, tried, seconds in everything(options.only, options.seed):
        found = counted(tried)
        rows |= found
        for group, row in found.items():
            print(f"{group:<50}{row['tried']:>8}{row['held']:>8}{row['broken']:>8}", flush=True)
            if options.broken:
                for item in row["of"]:
                    print(f"    {item['name']}: {item['why']}")
        print(f"  {name}: {seconds:.0f} s", flush=True)
    return int(any(row["broken"] for row in rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())
