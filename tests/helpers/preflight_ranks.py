"""Several ranks of an examination in tests: processes with faults, and what they said."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

AGENT = Path(__file__).with_name("preflight_agent.py")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@dataclass
class Ended:
    """An examination that has ended on every rank."""

    found: dict
    """The examination, as the one rank that reports printed it; {} if none did."""
    reporter: int | None
    codes: dict[int, int | None]
    """None for a rank that had not ended when the time was over."""
    errors: dict[int, str]
    seconds: float
    left: list[int] = field(default_factory=list)
    """Processes of the examination that outlived it, stopped ones excepted."""

    def losses(self) -> list[tuple[int, str, str]]:
        return [(item["rank"], item["stage"], item["kind"]) for item in self.found["losses"]]


def examine(
    ranks: dict[int, dict], common: dict | None = None, *, within: float = 30.0, prefix=None, faults=None
) -> Ended:
    """Start these ranks, wait for their end, and look whether anything is left."""
    common = {"port": free_port(), "world": len(ranks), **(common or {})}
    mark = f"standin-{os.getpid()}-{common['port']}"
    begin = time.monotonic()
    processes = {}
    for rank, own in ranks.items():
        asked = {"node": f"node{rank}", **common, "rank": rank, **own}
        environment = {**os.environ, "STANDIN_MARK": mark, "STANDIN_FAULT": (faults or {}).get(rank, "")}
        environment.update(asked.pop("environment", {}))
        processes[rank] = subprocess.Popen(
            [*(prefix(rank) if prefix else ()), sys.executable, str(AGENT), json.dumps(asked)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
    stopped = {rank for rank, fault in (faults or {}).items() if fault.endswith("stop rank")}
    outputs: dict[int, tuple[str, str]] = {}
    try:
        for rank in sorted(processes, key=lambda rank: rank in stopped):
            if rank in stopped:
                processes[rank].kill()  # a stopped rank cannot end by itself
            outputs[rank] = processes[rank].communicate(timeout=max(0.1, begin + within - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    seconds = time.monotonic() - begin
    codes = {rank: process.poll() for rank, process in processes.items()}
    for process in processes.values():
        process.kill()
        process.wait()
    found, reporter = {}, None
    for rank, (out, _) in outputs.items():
        if out.strip():
            assert reporter is None, f"ranks {reporter} and {rank} both reported"
            found, reporter = json.loads(out), rank
    errors = {rank: err for rank, (_, err) in outputs.items()}
    return Ended(found, reporter, codes, errors, seconds, left_running(mark))


def left_running(mark: str) -> list[int]:
    """Processes with this mark in their environment, a moment after the end; they are killed."""
    end = time.monotonic() + 3.0
    while True:
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                try:
                    text = (folder / "environ").read_bytes()
                    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if mark.encode() in text and state != "Z":
                    found.append(int(folder.name))
        if not found or time.monotonic() > end:
            break
        time.sleep(0.1)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return found
