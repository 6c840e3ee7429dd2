"""A rank of an examination in tests: short limits, a node of its own, a worker without torch, no report but JSON.

Run as a program; its one argument is JSON: the place, and what is changed. It prints the examination as one line.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2])]

from gpudoctor.errors import DoctorError  # noqa: E402
from gpudoctor.model.signs.preflight import Stage  # noqa: E402
from gpudoctor.preflight import agent, coordinator  # noqa: E402
from gpudoctor.preflight.budget import BUDGETS, Wishes  # noqa: E402
from gpudoctor.preflight.place import RankPlace  # noqa: E402
from gpudoctor.report.json import preflight_object  # noqa: E402

_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of setns(2)."""
ENDED_WITH = 5
"""Exit code of an examination in a test, so that the ranks' common one is told from any other."""


def main() -> int:
    asked = json.loads(sys.argv[1])
    while asked.get("after") and not os.path.exists(asked["after"]):
        time.sleep(0.02)
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    if asked.get("net"):  # the network of another node
        with open(f"/run/netns/{asked['net']}") as namespace:
            assert ctypes.CDLL(None).setns(namespace.fileno(), _NEW_NETWORK) == 0
    if asked.get("group"):  # a control group of the kernel, made by the test
        Path(asked["group"], "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")
    node = asked.get("node")
    if node is not None:
        agent.identity = lambda: node
    if asked.get("clock"):
        real = time.time
        time.time = lambda: real() + asked["clock"]
    if asked.get("facts"):
        facts = agent.node_facts
        agent.node_facts = lambda environment: {**facts(environment), **asked["facts"]}
    if asked.get("version"):
        agent.__version__ = asked["version"]
    limits = {stage: float(asked.get("limits", {}).get(stage.value, 5.0)) for stage in Stage}
    budget = replace(
        BUDGETS["quick"],
        limits=limits,
        whole=asked.get("whole", 120.0),
        test_limit=asked.get("test_limit", 2.0),
        card_seconds=0.1,
        group_seconds=asked.get("group_seconds", 0.15),
        payload=dict.fromkeys(("gloo", "nccl"), asked.get("payload", 1 << 18)),
        storage_bytes=asked.get("storage_bytes", 1 << 16),
        silence=asked.get("silence", 2.5),
        grace=2.5,  # more than a worker gets to write its stack
    )
    coordinator.Coordinator._check = without_checks
    coordinators: list[coordinator.Coordinator] = []
    if os.environ.get("STANDIN_FAULT", "").startswith("arrive"):
        agent.Coordinator = type("Seen", (coordinator.Coordinator,), {"listen": seen(coordinators)})
        agent.Agent._beat = fault_of_arrival(coordinators, asked["arrived"])
    place = RankPlace(
        rank=asked["rank"],
        world=asked["world"],
        head=asked.get("head", "127.0.0.1"),
        port=asked["port"],
        token=asked.get("token", "t"),
        source="flags",
    )
    wishes = Wishes(
        storage=asked.get("storage", ""),
        burn=asked.get("burn", 0.0),
        arrive=limits[Stage.ARRIVE],
        python=sys.executable,
    )

    def report(preflight) -> int:
        fault("report")
        print(json.dumps(preflight_object(preflight)), flush=True)
        return ENDED_WITH

    try:
        return agent.take_part(place, budget, wishes, report, "preflight_worker")
    except DoctorError as error:
        print(f"gpudoctor: {error}", file=sys.stderr)
        if asked.get("failed"):
            Path(asked["failed"]).touch()
        return error.exit_code


def fault(at: str) -> None:
    """Kill or stop this rank, if STANDIN_FAULT says that of this moment."""
    when, _, what = os.environ.get("STANDIN_FAULT", "").partition(" ")
    if when == at:
        os.kill(os.getpid(), signal.SIGKILL if what == "kill rank" else signal.SIGSTOP)


def seen(coordinators):
    """A `listen` that remembers its coordinator."""

    async def listen(self) -> None:
        coordinators.append(self)
        await coordinator.Coordinator.listen(self)

    return listen


def fault_of_arrival(coordinators, others: int):
    """A `_beat` that ends this rank once it is welcome; rank 0 once so many ranks have come."""
    beat = agent.Agent._beat

    async def faulty(self) -> None:
        for leader in coordinators:
            while len(leader._members) < others:
                await asyncio.sleep(0.02)
        fault("arrive")
        await beat(self)

    return faulty


async def without_checks(self, member, limit) -> None:
    """The machine's own checks are tested elsewhere and take a second."""


if __name__ == "__main__":
    sys.exit(main())
