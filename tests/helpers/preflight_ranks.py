"""Several ranks of an examination in tests: processes with faults, and what they said."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from forks import Request, zygote

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
    """Start these ranks, wait for their end, and look whether anything is left.

    They are forked from a process that has their modules; with a `prefix`, which runs them elsewhere, started.
    """
    common = {"port": free_port(), "world": len(ranks), **(common or {})}
    mark = f"standin-{os.getpid()}-{common['port']}"
    faults = faults or {}
    stopped = {rank for rank, fault in faults.items() if fault.endswith("stop rank")}
    if not any(fault.endswith(("stop rank", "pause rank")) for fault in faults.values()):
        common.setdefault("silence", 15.0)  # a busy machine is not what such a test is about
    begin = time.monotonic()
    with TemporaryDirectory() as place:
        asked = {}
        for rank, own in ranks.items():
            told = {"node": f"node{rank}", **common, "rank": rank, **own}
            environment = {**os.environ, "STANDIN_MARK": mark, "STANDIN_FAULT": faults.get(rank, "")}
            environment.update(told.pop("environment", {}))
            said = Path(place, str(rank))
            said.mkdir()
            asked[rank] = Request(
                words=[str(AGENT), json.dumps(told)],
                folder=Path.cwd(),
                environment=environment,
                said=said,
                limit=within + 10,
            )
        if prefix is None and hasattr(os, "fork"):
            codes = _forked(asked, stopped, begin + within)
        else:
            codes = _started(asked, stopped, begin + within, prefix)
        seconds = time.monotonic() - begin
        said = {rank: request.finished(0) for rank, request in asked.items()}
    found, reporter = {}, None
    for rank, words in said.items():
        if words.stdout.strip():
            assert reporter is None, f"ranks {reporter} and {rank} both reported"
            found, reporter = json.loads(words.stdout), rank
    errors = {rank: words.stderr for rank, words in said.items()}
    return Ended(found, reporter, codes, errors, seconds, left_running(mark))


def _forked(asked: dict[int, Request], stopped: set[int], deadline: float) -> dict[int, int | None]:
    """Exit codes of forked ranks; None for one that had not ended at the deadline."""
    agents = zygote("zygote_agent.py")
    pids = dict(zip(asked, agents.ask(list(asked.values())), strict=True))
    late = set()
    for rank in sorted(asked, key=lambda rank: rank in stopped):
        if rank in stopped:
            os.kill(pids[rank], signal.SIGKILL)  # a stopped rank cannot end by itself
        while not _ended(pids[rank]):
            if time.monotonic() > deadline:
                late.add(rank)
                os.kill(pids[rank], signal.SIGKILL)
                break
            time.sleep(0.01)
    codes = agents.answer()
    return {rank: None if rank in late else code for rank, code in zip(asked, codes, strict=True)}


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _started(asked: dict[int, Request], stopped: set[int], deadline: float, prefix) -> dict[int, int | None]:
    """Exit codes of ranks that are interpreters of their own; None for one that had not ended at the deadline."""
    processes = {}
    for rank, request in asked.items():
        with (request.said / "stdout").open("w") as out, (request.said / "stderr").open("w") as err:
            processes[rank] = subprocess.Popen(
                [*(prefix(rank) if prefix else ()), sys.executable, *request.words],
                stdout=out,
                stderr=err,
                env=request.environment,
            )
    codes: dict[int, int | None] = dict.fromkeys(processes)
    for rank in sorted(processes, key=lambda rank: rank in stopped):
        if rank in stopped:
            processes[rank].kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            codes[rank] = processes[rank].wait(max(0.1, deadline - time.monotonic()))
    for process in processes.values():
        process.kill()
        process.wait()
    return codes


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
