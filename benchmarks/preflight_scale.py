"""How long a preflight lasts with many nodes, and what its coordinator costs: CPU, messages, bytes.

    python benchmarks/preflight_scale.py        8, 64 and 256 nodes; writes benchmarks/data/preflight-scale.json
    python benchmarks/preflight_scale.py --nodes 64 --mode quick

Coordinator, agents, their protocol over TCP, search and checks are the real ones: the coordinator in this
process, so that its CPU time is counted apart, all agents in another one. Workers pretend: they wait as long as
the real ones take (`DURATIONS`) and answer with figures that vary by 2 %. A node has eight cards and one rank.
In the sick case one node is slow and another one's tests fail.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import random
import socket
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpudoctor.analysis.preflight.named_nodes import judgement  # noqa: E402
from gpudoctor.engine.registry import load_registry  # noqa: E402
from gpudoctor.model import Unavailable  # noqa: E402
from gpudoctor.model.signs.preflight import Preflight, Stage  # noqa: E402
from gpudoctor.preflight import agent, coordinator, messages, rank_connections  # noqa: E402
from gpudoctor.preflight.budget import BUDGETS, Budget, Wishes  # noqa: E402
from gpudoctor.preflight.place import RankPlace  # noqa: E402
from gpudoctor.report.json import preflight_object  # noqa: E402
from gpudoctor.testing import examine, make_patient  # noqa: E402

OUT = ROOT / "benchmarks" / "data" / "preflight-scale.json"
CARDS = 8
DURATIONS = {"arrive": 2.0, "check": 3.0, "about": 5.0, "card": 3.0, "group": 2.0}
"""Seconds, assumed: ranks start within the first; the machine's checks; the import of torch and CUDA's start;
the matrices of a card's products beside its measuring time; a new process group beside its measuring time."""
SLOW, FAILING = 5, 2
"""Nodes of the sick case."""


class Pretended:
    """What the workers of one examination share."""

    def __init__(self, budget: Budget, sick: bool) -> None:
        self.budget = budget
        self.sick = sick
        self.members: dict[int, set[int]] = {}
        """Nodes of each group, by its port."""
        self.ports = iter(range(1 << 20))
        self.rng = random.Random(7)

    def varied(self, value: float) -> float:
        return value * self.rng.gauss(1.0, 0.02)


class Worker:
    """A worker of one card that answers after the time that a real one takes."""

    def __init__(self, node: int, card: int, shared: Pretended) -> None:
        self._node, self._card, self._shared = node, card, shared
        self._imported = False

    async def ask(self, work: dict[str, Any], limit: float) -> dict[str, Any]:
        try:
            return await asyncio.wait_for(self._answer(work), limit)
        except asyncio.CancelledError:
            self._imported = False  # its process is ended, and the next one imports torch again
            raise
        except asyncio.TimeoutError:
            self._imported = False
            return {"failure": f"timed out after {limit:g} s", "kind": "late"}

    async def _answer(self, work: dict[str, Any]) -> dict[str, Any]:
        shared, budget = self._shared, self._shared.budget
        do = work["do"]
        imported, self._imported = self._imported, True
        if do == "about":
            await asyncio.sleep(0.01 if imported else DURATIONS["about"])
            return {"facts": {"torch": "2.9.1", "nccl": "2.27.3"}, "cards": CARDS, "torch": True}
        if do == "card.examine":
            await asyncio.sleep(DURATIONS["card"] + budget.card_seconds)
            rates = {("matmul", "bf16"): 7e14, ("matmul", "fp16"): 7e14, ("matmul", "fp8"): 1.3e15}
            rates |= {("memory_bandwidth", ""): 2.8e12, ("host_to_device", ""): 5.5e10, ("device_to_host", ""): 5.4e10}
            figures = [
                {"quantity": name, "dtype": dtype, "value": shared.varied(rate), "spread": 0.01, "repetitions": 20}
                for (name, dtype), rate in rates.items()
            ]
            digests = {f"{name} 1024": ["98ec82cf749aa4ec"] * 3 for name in ("bf16", "fp16", "fp8")}
            card = {"name": "NVIDIA H100 80GB HBM3", "uuid": f"GPU-{self._node}-{self._card}"}
            return {**card, "bus_id": f"{self._card:08X}:00:00.0", "figures": figures, "digests": digests}
        if do == "group.peers":
            pairs = [[a, b] for a in work["cards"] for b in work["cards"] if a != b]
            await asyncio.sleep(work["seconds"] * len(pairs))
            return {
                "figures": [
                    {"quantity": "peer_bandwidth", "value": shared.varied(3.6e11), "repetitions": 9, "pair": pair}
                    for pair in pairs
                ]
            }
        if do == "group.open_port":
            return {"port": next(shared.ports)}
        nodes = shared.members.setdefault(work["port"], set())
        nodes.add(self._node)
        await asyncio.sleep(DURATIONS["group"] + budget.group_seconds)
        if shared.sick and FAILING in nodes and len(nodes) > 1:
            return {"failure": "NCCL error: remote process exited or there was a network error"}
        share = 0.4 if shared.sick and SLOW in nodes and len(nodes) > 1 else 1.0
        common = {"spread": 0.01, "repetitions": 20}
        rate = shared.varied((4.6e10 if len(nodes) > 1 else 4.5e11) * share)
        payload = work["payload"]
        return {"figures": [{"quantity": "bus_bandwidth", "value": rate, "payload": payload, **common}]}

    async def close(self) -> None:
        """Nothing was started."""


class Rank(agent.Agent):
    """A real agent that pretends to be a node of its own."""

    def __init__(self, node: int, shared: Pretended, *given: Any) -> None:
        super().__init__(*given)
        self._node, self._shared = node, shared

    def _greeting(self) -> dict[str, Any]:
        return super()._greeting() | {"node": f"boot {self._node}", "host": f"node{self._node}"}

    def _worker(self, unit: int) -> Any:
        return self._workers.setdefault(unit, Worker(self._node, unit, self._shared))  # type: ignore[arg-type]

    async def _check(self, _: float) -> dict[str, Any]:
        await asyncio.sleep(DURATIONS["check"])
        return {"findings": [], "unexamined": []}


class Counted:
    """Messages and bytes of the coordinator's side."""

    def __init__(self) -> None:
        self.sent = self.received = self.sent_bytes = self.received_bytes = 0

    def install(self) -> None:
        def send(writer: Any, message: Any) -> None:
            self.sent += 1
            self.sent_bytes += len(json.dumps(message, separators=(",", ":"))) + 1
            _SEND(writer, message)

        async def receive(reader: Any) -> Any:
            message = await _RECEIVE(reader)
            if message is not None:
                self.received += 1
                self.received_bytes += len(json.dumps(message, separators=(",", ":"))) + 1
            return message

        coordinator.send = rank_connections.send = send  # type: ignore[attr-defined]
        rank_connections.receive = receive  # type: ignore[attr-defined]


_SEND, _RECEIVE = messages.send, messages.receive


async def led(place: RankPlace, budget: Budget) -> tuple[Preflight, float, float]:
    """The whole examination, as the coordinator leads it; its seconds, and its CPU seconds."""
    leader = coordinator.Coordinator(place, budget, Wishes())
    await leader.listen()
    begin, cpu = time.monotonic(), time.process_time()
    found = await leader.examine()
    seconds, cpu = time.monotonic() - begin, time.process_time() - cpu
    await leader.finish(0)
    await leader.close()
    return found, seconds, cpu


async def agents(count: int, port: int, budget: Budget, sick: bool) -> None:
    """All ranks, to their end."""
    shared = Pretended(budget, sick)

    async def one(rank: int) -> None:
        place = RankPlace(rank=rank, world=count, local=0, head="127.0.0.1", port=port, token="t", source="flags")
        await asyncio.sleep(shared.rng.uniform(0, DURATIONS["arrive"]))
        await Rank(rank, shared, place, budget, Wishes(), lambda _: 0).run("127.0.0.1", port)

    await asyncio.gather(*(one(rank) for rank in range(count)))


def run_agents(ready: Any, count: int, port: int, mode: str, sick: bool) -> None:
    """The other process."""
    ready.set()
    asyncio.run(agents(count, port, BUDGETS[mode], sick))


def measured(count: int, mode: str, sick: bool) -> dict[str, Any]:
    """One examination of so many nodes."""
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    processes = multiprocessing.get_context("spawn")
    ready = processes.Event()
    others = processes.Process(target=run_agents, args=(ready, count, port, mode, sick))
    others.start()
    ready.wait(60)
    counted = Counted()
    counted.install()
    place = RankPlace(rank=0, world=count, local=0, head="127.0.0.1", port=port, token="t", source="flags")
    found, seconds, cpu = asyncio.run(led(place, BUDGETS[mode]))
    others.join(30)
    begin = time.process_time()
    patient = make_patient(preflight=found)
    named = sorted({node for item in judgement(patient).accusations for node in item.nodes})
    for code, check in load_registry().checks.items():
        if code.startswith("NODE"):
            try:
                examine(check, patient)
            except Unavailable:
                continue
    checks_cpu = time.process_time() - begin
    begin = time.process_time()
    size = len(json.dumps(preflight_object(found)))
    return {
        "nodes": count,
        "units": len(found.units),
        "mode": mode,
        "case": "sick" if sick else "healthy",
        "seconds": round(seconds, 1),
        "stages": {run.stage.value: round(run.seconds, 1) for run in found.stages},
        "ended": all(run.ended for run in found.stages),
        "rounds": {
            stage.value: len({test.round for test in found.tests if test.stage is stage})
            for stage in (Stage.PAIRS, Stage.GROUP)
        },
        "named": named,
        "right": named == (sorted((SLOW, FAILING)) if sick else []),
        "coordinator_cpu_seconds": round(cpu, 2),
        "messages_out": counted.sent,
        "messages_in": counted.received,
        "bytes_out": counted.sent_bytes,
        "bytes_in": counted.received_bytes,
        "checks_cpu_seconds": round(checks_cpu, 2),
        "json_cpu_seconds": round(time.process_time() - begin, 2),
        "json_bytes": size,
        "untested": list(found.untested)[:5],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=[8, 64, 256])
    parser.add_argument("--mode", choices=tuple(BUDGETS), nargs="*", default=["quick", "standard"])
    parser.add_argument("--case", choices=("healthy", "sick"), nargs="*", default=["healthy", "sick"])
    parser.add_argument("--output", type=Path, default=OUT)
    asked = parser.parse_args()
    rows = []
    for mode in asked.mode:
        for count in asked.nodes:
            for case in asked.case:
                rows.append(measured(count, mode, case == "sick"))
                print(json.dumps(rows[-1]), flush=True)
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "cards_a_node": CARDS,
        "assumed_seconds": DURATIONS,
    }
    whole = (asked.nodes, asked.mode, asked.case) == ([8, 64, 256], ["quick", "standard"], ["healthy", "sick"])
    if whole or asked.output != OUT:
        asked.output.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
