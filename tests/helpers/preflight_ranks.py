"""Several ranks of an examination in tests: processes with faults, and what they said."""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from forks import Request, zygote

AGENT = Path(__file__).with_name("preflight_agent.py")


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    with contextlib.ExitStack() as taken:
        servers = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


def free_port() -> int:
    [port] = free_ports(1)
    return port


@dataclass
class Case:
    """An examination to make: what each rank has of its own, what all have, and what befalls which rank."""

    ranks: dict[int, dict]
    common: dict | None = None
    faults: dict[int, str] = field(default_factory=dict)


@dataclass
class Asked:
    """The ranks of one examination, as they are to be started."""

    requests: dict[int, Request]
    mark: str
    """In the environment of all that is started for it."""
    stopped: set[int]


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


def examine(ranks: dict[int, dict], common: dict | None = None, *, within: float = 30.0, faults=None) -> Ended:
    """Start these ranks, wait for their end, and look whether anything is left.

    They are forked from a process that has their modules.
    """
    [ended] = examine_beside([Case(ranks, common, faults or {})], within=within)
    return ended


def examine_beside(cases: Sequence[Case], *, within: float) -> list[Ended]:
    """The same of several examinations at a time, each with a port of its own: most of their time they wait."""
    begin = time.monotonic()
    with TemporaryDirectory() as place:
        asked = []
        for number, (case, port) in enumerate(zip(cases, free_ports(len(cases)), strict=True)):
            asked.append(_asked(case, port, Path(place, str(number)), within))
        codes = _forked(asked, begin + within)
        seconds = time.monotonic() - begin
        return [_said(one, ended, seconds) for one, ended in zip(asked, codes, strict=True)]


def _asked(case: Case, port: int, place: Path, within: float) -> Asked:
    common = {"port": port, "world": len(case.ranks), **(case.common or {})}
    mark = f"standin-{os.getpid()}-{common['port']}"
    if not any(fault.endswith(("stop rank", "pause rank")) for fault in case.faults.values()):
        common.setdefault("silence", 15.0)  # a busy machine is not what such a test is about
    requests = {}
    for rank, own in case.ranks.items():
        told = {"node": f"node{rank}", **common, "rank": rank, **own}
        environment = {**os.environ, "STANDIN_MARK": mark, "STANDIN_FAULT": case.faults.get(rank, "")}
        environment.update(told.pop("environment", {}))
        said = place / str(rank)
        said.mkdir(parents=True)
        requests[rank] = Request(
            words=[str(AGENT), json.dumps(told)],
            folder=Path.cwd(),
            environment=environment,
            said=said,
            limit=within + 10,
        )
    return Asked(requests, mark, {rank for rank, fault in case.faults.items() if fault.endswith("stop rank")})


def _said(asked: Asked, codes: dict[int, int | None], seconds: float) -> Ended:
    said = {rank: request.finished(0) for rank, request in asked.requests.items()}
    found, reporter = {}, None
    for rank, words in said.items():
        if words.stdout.strip():
            assert reporter is None, f"ranks {reporter} and {rank} both reported"
            found, reporter = json.loads(words.stdout), rank
    errors = {rank: words.stderr for rank, words in said.items()}
    return Ended(found, reporter, codes, errors, seconds, left_running(asked.mark))


def _forked(asked: Sequence[Asked], deadline: float) -> list[dict[int, int | None]]:
    """Exit codes of forked ranks; None for one that had not ended at the deadline."""
    agents = zygote("zygote_agent.py")
    ranks = [(at, rank) for at, one in enumerate(asked) for rank in one.requests]
    pids = dict(zip(ranks, agents.ask([asked[at].requests[rank] for at, rank in ranks]), strict=True))
    late = set()
    for at, rank in sorted(ranks, key=lambda one: (one[0], one[1] in asked[one[0]].stopped)):
        pid = pids[at, rank]
        if rank in asked[at].stopped:
            os.kill(pid, signal.SIGKILL)  # a stopped rank cannot end by itself
        while not _ended(pid):
            if time.monotonic() > deadline:
                late.add((at, rank))
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.01)
    codes: list[dict[int, int | None]] = [{} for _ in asked]
    for (at, rank), code in zip(ranks, agents.answer(), strict=True):
        codes[at][rank] = None if (at, rank) in late else code
    return codes


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


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
