"""CPU seconds of tests, with all the processes that they start: what the clock says on a busy machine tells little.

    pytest -n auto -p cpu_report --cpu-report build/cpu
    python tests/helpers/cpu_report.py build/cpu        by file, then single tests, then marks of `slow` to look at

A process that ends unwaited for is missed. What several tests share is on the account of the first of them.
"""

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SLOW = 1.0
"""Seconds of CPU, or of waiting, from which on a test is marked `slow`."""
_TICKS = os.sysconf("SC_CLK_TCK")


def children(pid: int) -> Iterator[int]:
    """Process ids of a process's children (Linux)."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from map(int, path.read_text().split())
        except OSError:
            continue


def seconds() -> float:
    """CPU seconds of this process, of those that it waited for, and of those that run."""
    total, waiting = sum(os.times()[:4]), [*children(os.getpid())]
    while waiting:
        pid = waiting.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / _TICKS
        waiting += children(pid)
    return total


def pytest_addoption(parser: pytest.Parser) -> None:
    """The folder to write to."""
    parser.addoption("--cpu-report", metavar="FOLDER", help="write the CPU seconds of each test there")


def pytest_configure(config: pytest.Config) -> None:
    """One file a worker."""
    if folder := config.getoption("--cpu-report"):
        worker = getattr(config, "workerinput", {}).get("workerid", "main")
        path = Path(folder, f"{worker}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Report(path), "cpu-report-file")


class Report:
    """Writes a line a test."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """A test with its fixtures."""
        cpu, clock = seconds(), time.perf_counter()
        result = yield
        line = {
            "test": item.nodeid,
            "cpu": seconds() - cpu,
            "clock": time.perf_counter() - clock,
            "slow": item.get_closest_marker("slow") is not None,
        }
        print(json.dumps(line), file=self._file, flush=True)
        return result


def main(folder: str) -> None:
    """Print what was written."""
    tests = [json.loads(line) for path in Path(folder).glob("*.jsonl") for line in path.open(encoding="utf-8")]
    tests.sort(key=lambda test: -test["cpu"])
    files: dict[str, list[float]] = defaultdict(list)
    for test in tests:
        files[test["test"].partition("::")[0]].append(test["cpu"])
    print(f"{sum(map(sum, files.values())):.0f} s of CPU, {len(tests):,} tests")
    for file, spent in sorted(files.items(), key=lambda item: -sum(item[1]))[:40]:
        print(f"{sum(spent):8.1f}  {len(spent):4} tests  {file}")
    for title, chosen in (
        ("the longest", tests[:40]),
        ("to mark as slow", [test for test in tests if test["cpu"] > SLOW and not test["slow"]]),
        ("slow no longer", [test for test in tests if max(test["cpu"], test["clock"]) < SLOW / 2 and test["slow"]]),
    ):
        print(f"\n{title}:")
        for test in chosen:
            print(f"{test['cpu']:8.1f} of {test['clock']:6.1f}  {test['test'][:150]!r}")


if __name__ == "__main__":
    main(sys.argv[1])
