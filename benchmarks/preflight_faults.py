"""What `gpudoctor preflight` says of each fault: eight network namespaces as nodes, one fault at a time.

    python benchmarks/preflight_faults.py                 writes benchmarks/data/preflight-faults.json; as root
    python benchmarks/preflight_faults.py --only slow     the faults whose name holds the word

Agents, coordinator, search and network are the real ones, at rates that tc sets; a relay loses and delays
frames. Workers are the tests' own, without torch: their figures of cards are canned, those of links are
measured. A rail that fails is a node at half the rate.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from namespaces import Net, network, why_not  # noqa: E402
from preflight_agent import ENDED_WITH  # noqa: E402
from preflight_ranks import Ended, examine  # noqa: E402

from gpudoctor.analysis.preflight.search import judge  # noqa: E402
from gpudoctor.model.signs.preflight import LinkTest, PreflightNode, Stage  # noqa: E402
from gpudoctor.preflight.gathered import figures  # noqa: E402

NODES = 8
RATE = 200.0
"""Megabits a second of a good node."""
OUT = ROOT / "benchmarks" / "data" / "preflight-faults.json"
ALL_STAGES = ("about", "card", "group", "group3", "storage", "burn")


@dataclass(frozen=True)
class Fault:
    """One fault and what must be said of it."""

    name: str
    seen: Callable[[Ended], bool]
    """Whether the examination shows it."""
    network: Callable[[Net], None] = lambda _: None
    faults: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, dict] = field(default_factory=dict)
    absent: tuple[int, ...] = ()
    common: dict = field(default_factory=dict)
    megabits: float = RATE
    """Rate of a good node: a relay in Python passes some 40."""


def accusations(ended: Ended) -> list[dict]:
    nodes = [
        PreflightNode(index=item["index"], name=f"n{item['index']}", ranks=tuple(item["ranks"]))
        for item in ended.found["nodes"]
    ]
    tests = [
        LinkTest(
            stage=Stage(item["stage"]),
            round=item["round"],
            nodes=tuple(item["nodes"]),
            figures=figures(item["figures"]),
            failure=item["failure"],
            blamed=tuple(item["blamed"]),
        )
        for item in ended.found["tests"]
    ]
    lost = {item["node"] for item in ended.found["losses"] if item["node"] is not None}
    return [
        {
            "accused": item.accused.value,
            "nodes": list(item.nodes),
            "aspect": item.aspect.value,
            "share": item.share,
        }
        for item in judge(nodes, tests, lost).accusations
    ]


def accuses(kind: str, *nodes: int) -> Callable[[Ended], bool]:
    return lambda ended: (
        (kind, list(nodes)) in [(item["accused"], item["nodes"]) for item in accusations(ended)]
    )


def names(node: int) -> Callable[[Ended], bool]:
    """Whether this node and no other is accused, in whatever aspect."""
    return lambda ended: {(item["accused"], *item["nodes"]) for item in accusations(ended)} == {("node", node)}


def loses(rank: int, stage: str, *kinds: str) -> Callable[[Ended], bool]:
    return lambda ended: (
        [item for item in ended.losses() if item[0] == rank and item[1] == stage and item[2] in kinds] != []
    )


def fact(name: str, node: int) -> Callable[[Ended], bool]:
    def differs(ended: Ended) -> bool:
        values = [item["facts"].get(name) for item in ended.found["nodes"]]
        return [index for index, value in enumerate(values) if value != values[0]] == [node]

    return differs


def block_both(net: Net, one: int, other: int) -> None:
    net.block(one, other)
    net.block(other, one)


def cases(full: str) -> list[Fault]:
    """Every fault of the table; `full` is a small disk."""
    short = {"limits": {"arrive": 5.0}}
    stages = {"about": "machine", "group": "pairs", "group3": "group"}
    found = [
        Fault("none", lambda ended: not accusations(ended) and not ended.found["losses"]),
        Fault(
            "slow unit",
            lambda ended: [u["node"] for u in ended.found["units"] if u["figures"][0]["value"] < 7e10] == [5],
            ranks={5: {"environment": {"STANDIN_SPEED": "5e10"}}},
        ),
        Fault(
            "node slow both ways",
            accuses("node", 5),
            network=lambda net: (net.slow(5, 20), net.slow(5, 20, sending=False)),
        ),
        Fault("node slow one way, sending", accuses("node", 5), network=lambda net: net.slow(5, 20)),
        Fault(
            "node slow one way, receiving",
            accuses("node", 5),
            network=lambda net: net.slow(5, 20, sending=False),
        ),
        Fault("one rail of two: half the rate", accuses("node", 3), network=lambda net: net.slow(3, RATE / 2)),
        Fault(
            "a relay that loses nothing (control)",
            lambda ended: not accusations(ended) and not ended.found["losses"],
            network=lambda net: net.impair(5),
            megabits=10,
        ),
        Fault("lossy link, sending: 3 %", names(5), network=lambda net: net.impair(5, loss=0.03), megabits=10),
        Fault(
            "lossy link, receiving: 3 %",
            names(5),
            network=lambda net: net.impair(5, loss=0.03, sending=False),
            megabits=10,
        ),
        Fault("delayed link: 20 ms", names(5), network=lambda net: net.impair(5, delay=0.02), megabits=10),
        Fault("rank 0's node slow", accuses("node", 0), network=lambda net: net.slow(0, 20)),
        Fault(
            "blocked between two nodes",
            lambda ended: (
                not [item for item in accusations(ended) if item["nodes"] != [4, 6]]
                and all(set(test["nodes"]) >= {4, 6} for test in ended.found["tests"] if test["failure"])
            ),
            network=lambda net: block_both(net, 4, 6),
        ),
        Fault(
            "closed port of rank 0 for one node",
            lambda ended: loses(6, "arrive", "never came")(ended) and "did not reach rank 0" in ended.errors[6],
            network=lambda net: net.block(6, 0),
            common=short,
        ),
        Fault(
            "wrong address of rank 0",
            lambda ended: loses(6, "arrive", "never came")(ended) and "10.77.0.99" in ended.errors[6],
            ranks={6: {"head": "10.77.0.99"}},
            common=short,
        ),
        Fault(
            "wrong world size",
            lambda ended: loses(6, "arrive", "refused")(ended) and "world size is 16" in ended.errors[6],
            ranks={6: {"world": 16}},
            common=short,
        ),
        Fault(
            "another version of gpudoctor",
            lambda ended: loses(6, "arrive", "refused")(ended) and "9.9.9" in ended.errors[6],
            ranks={6: {"version": "9.9.9"}},
            common=short,
        ),
        Fault("a rank that never comes", loses(7, "arrive", "never came"), absent=(7,), common=short),
        Fault(
            "corrupted value",
            lambda ended: (
                [u["node"] for u in ended.found["units"] if len(set(u["digests"]["fp32 1024"])) > 1] == [2]
            ),
            faults={2: "card corrupt"},
        ),
        Fault(
            "full disk",
            lambda ended: (
                all(item["failure"].startswith("full") for item in ended.found["storage"])
                and bool(ended.found["storage"])
            ),
            common={"storage": full, "storage_bytes": 1 << 20},
        ),
        Fault(
            "clock 30 s ahead",
            lambda ended: (
                [round(node["clock_offset"]) for node in ended.found["nodes"]] == [0, 0, 0, 30, 0, 0, 0, 0]
            ),
            ranks={3: {"clock": 30.0}},
        ),
        Fault("another torch", fact("torch", 4), ranks={4: {"environment": {"STANDIN_TORCH": "2.6.0"}}}),
    ]
    everything = {"storage": "/tmp", "burn": 0.5, "quick_links": True}
    for rank in (0, 5):
        for work in ALL_STAGES:
            stage = stages.get(work, work)
            for verb, kind in (("kill", "died"), ("stop", "silent")):
                found.append(
                    Fault(
                        f"rank {rank} is {'killed' if verb == 'kill' else 'stopped'} in {stage}",
                        loses(rank, stage, kind),
                        faults={rank: f"{work} {verb} rank"},
                        common=everything,
                    )
                )
    return found


def run(fault: Fault) -> dict:
    common = dict(fault.common)
    real = not common.pop("quick_links", False)
    with network(NODES) as net:
        for index in range(NODES):
            net.slow(index, fault.megabits)
        fault.network(net)
        base = {"environment": {"STANDIN_REAL": "1"}} if real else {}
        limits = {"pairs": 30.0, "group": 15.0, "arrive": 15.0, "machine": 10.0, **common.pop("limits", {})}
        size = (
            {"group_seconds": 0.8, "test_limit": 8.0, "payload": round((2 << 20) * fault.megabits / RATE)}
            if real
            else {}
        )
        ranks = {}
        for rank in range(NODES):
            if rank not in fault.absent:
                own = fault.ranks.get(rank, {})
                environment = {**base.get("environment", {}), **own.get("environment", {})}
                ranks[rank] = {
                    "head": net.address(0),
                    "node": None,
                    **size,
                    "limits": limits,
                    **own,
                    "environment": environment,
                }
        ended = examine(ranks, {"world": NODES, **common}, prefix=net.enter, faults=fault.faults, within=150)
    out = {"fault": fault.name, "seconds": round(ended.seconds, 1), "left_running": len(ended.left)}
    if not ended.found:
        return out | {"shown": False, "codes": ended.codes, "errors": list(ended.errors.values())[:2]}
    lost = [
        f"rank {item['rank']}: {item['kind']} in {item['stage']}: {item['words']}"
        for item in ended.found["losses"]
    ]
    failures = sorted({test["failure"] for test in ended.found["tests"] if test["failure"]})
    away = set(fault.faults) if any("rank" in word for word in fault.faults.values()) else set()
    return out | {
        "shown": bool(fault.seen(ended)),
        "examination_seconds": round(sum(stage["seconds"] for stage in ended.found["stages"]), 1),
        "reporter": ended.reporter,
        "one_exit_code": {
            code for rank, code in ended.codes.items() if rank not in away and not ended.errors[rank].strip()
        }
        == {ENDED_WITH},
        "losses": lost,
        "accusations": accusations(ended)[:4],
        "failures": failures[:3],
        "rounds": 1 + max((test["round"] for test in ended.found["tests"]), default=-1),
        "tests": len(ended.found["tests"]),
        "said": [text.strip() for text in ended.errors.values() if text.strip()][:2],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th fault from the I-th on")
    parser.add_argument("--output", type=Path, default=OUT)
    asked = parser.parse_args()
    if reason := why_not():
        print(f"no network namespace: {reason}")
        return 3
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True)
        try:
            part, parts = map(int, asked.part.split("/"))
            for fault in cases(folder)[part::parts]:
                if asked.only in fault.name:
                    rows.append(run(fault))
                    print(json.dumps(rows[-1]), flush=True)
        finally:
            subprocess.run(["umount", folder], check=True)
    about = {"date": time.strftime("%Y-%m-%d"), "nodes": NODES, "megabits": RATE, "kernel": platform.release()}
    if not asked.only:
        asked.output.write_text(json.dumps({**about, "faults": rows}, indent=1) + "\n", encoding="utf-8")
    left = sum(row["left_running"] for row in rows)
    print(f"{sum(row['shown'] for row in rows)} of {len(rows)} faults shown; {left} processes left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
