"""What `gpudoctor preflight` says of each fault: eight network namespaces as nodes, one fault at a time.

    python benchmarks/preflight_faults.py                 writes benchmarks/data/preflight-faults.json; as root
    python benchmarks/preflight_faults.py --only slow     the faults whose name holds the word

Agents, coordinator, search and network are the real ones, at rates that tc sets; a relay loses and delays
frames. Workers are the tests' own, without torch: their figures of cards are canned, those of links are
measured. A rail that fails is a node at half the rate.
"""

import argparse
import contextlib
import json
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import cpu_group  # noqa: E402
from namespaces import Net, network, why_not  # noqa: E402
from preflight_agent import ENDED_WITH  # noqa: E402
from preflight_ranks import Ended, examine  # noqa: E402

from gpudoctor.analysis.preflight.named_nodes import judgement  # noqa: E402
from gpudoctor.engine.preflight_verdict import pronounce_preflight  # noqa: E402
from gpudoctor.engine.registry import load_registry  # noqa: E402
from gpudoctor.model import Finding, Patient, Severity, Unavailable  # noqa: E402
from gpudoctor.testing import examine as findings_of  # noqa: E402
from gpudoctor.testing import make_patient  # noqa: E402
from gpudoctor.vitals.saved_preflight import read_preflight  # noqa: E402

NODES = 8
RATE = 200.0
"""Megabits a second of a good node."""
OUT = ROOT / "benchmarks" / "data" / "preflight-faults.json"
STAGES = {
    "arrive": "arrive",
    "about": "machine",
    "card": "card",
    "peers": "node",
    "group": "pairs",
    "group3": "group",
    "storage": "storage",
    "burn": "burn",
}
"""Moment at which a rank is killed or stopped, to the stage that must be named."""


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
    """Rate of a good node. A relay in Python passes some 40. Eight times 200 take two CPUs whole."""
    code: str = ""
    """Of the finding that the table shows, where it is not the gravest one."""
    quota: tuple[int, float] | None = None
    """A node, and the CPUs' worth of time that its control group grants."""
    well: bool = False
    """Whether nothing is at fault: a control."""


def patient_of(ended: Ended) -> Patient:
    """What the examination measured, as the checks get it; nodes are named by their numbers."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"preflight": ended.found}, file)
        file.flush()
        found = read_preflight(Path(file.name))
    named = tuple(replace(node, name=f"node{node.index}") for node in found.nodes)
    return make_patient(preflight=replace(found, nodes=named))


def accusations(ended: Ended) -> list[dict]:
    return [
        {"accused": item.accused.value, "nodes": list(item.nodes), "aspect": item.aspect.value, "share": item.share}
        for item in judgement(patient_of(ended)).accusations
    ]


ORDER = [Severity.ERROR, Severity.WARNING, Severity.NOTE]


def findings(ended: Ended) -> list[Finding]:
    """What the report says, the gravest first; the machines' own checks are left out."""
    patient, found = patient_of(ended), []
    for code, check in sorted(load_registry().checks.items()):
        if code.startswith("NODE"):
            with contextlib.suppress(Unavailable):
                found += findings_of(check, patient)
    return sorted(found, key=lambda item: ORDER.index(item.severity))


def says(code: str, *words: str) -> Callable[[Ended], bool]:
    """Whether a finding has this code, and these words in its message."""
    return lambda ended: any(
        item.code == code and all(word in item.message for word in words) for item in findings(ended)
    )


def accuses(kind: str, *nodes: int) -> Callable[[Ended], bool]:
    return lambda ended: (kind, list(nodes)) in [(item["accused"], item["nodes"]) for item in accusations(ended)]


def names(node: int) -> Callable[[Ended], bool]:
    """Whether this node and no other is accused, in whatever aspect."""
    return lambda ended: {(item["accused"], *item["nodes"]) for item in accusations(ended)} == {("node", node)}


def loses(rank: int, stage: str, *kinds: str) -> Callable[[Ended], bool]:
    return lambda ended: (
        [item for item in ended.losses() if item[0] == rank and item[1] == stage and item[2] in kinds] != []
    )


def only_loses(rank: int, stage: str, kind: str) -> Callable[[Ended], bool]:
    """Whether a rank is lost in this stage, and no other node is accused of anything."""
    return lambda ended: (
        loses(rank, stage, kind)(ended) and {node for item in accusations(ended) for node in item["nodes"]} <= {rank}
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
    found = [
        Fault("none", lambda ended: not accusations(ended) and not ended.found["losses"], well=True),
        Fault(
            "slow unit",
            lambda ended: [u["node"] for u in ended.found["units"] if u["figures"][0]["value"] < 7e10] == [5],
            ranks={5: {"environment": {"STANDIN_SPEED": "5e10"}}},
        ),
        Fault(
            "CPU quota of one node: 0.02 CPUs",
            says("NODE015", "node5", "0.02 CPUs of time"),
            quota=(5, 0.02),
            code="NODE015",
            common={
                "environment": {"STANDIN_COMPUTE": "1"},
                "limits": dict.fromkeys(("arrive", "machine", "card"), 30.0),
                "silence": 20.0,
                "quick_links": True,
            },
        ),
        Fault(
            "node slow both ways",
            accuses("node", 5),
            network=lambda net: (net.slow(5, 20), net.slow(5, 20, sending=False)),
        ),
        Fault("node slow one way, sending", accuses("node", 5), network=lambda net: net.slow(5, 20)),
        Fault("node slow one way, receiving", accuses("node", 5), network=lambda net: net.slow(5, 20, sending=False)),
        Fault(
            "one rail of two: half the rate",
            lambda ended: accuses("node", 3)(ended) and says("NODE006", "node3", "about half")(ended),
            network=lambda net: (net.slow(3, 25), net.slow(3, 25, sending=False)),
            megabits=50,
        ),
        Fault(
            "a relay that loses nothing (control; it delays)",
            lambda ended: {item["aspect"] for item in accusations(ended)} <= {"latency"},
            network=lambda net: net.impair(5),
            megabits=10,
            well=True,
        ),
        Fault(
            "lossy link, sending: 3 %",
            says("NODE018", "node5", "of its segments again"),
            network=lambda net: net.impair(5, loss=0.03),
            megabits=10,
        ),
        Fault(
            "lossy link, receiving: 3 %",
            says("NODE018", "node5", "of its segments again"),
            network=lambda net: net.impair(5, loss=0.03, sending=False),
            megabits=10,
        ),
        Fault("delayed link: 20 ms", names(5), network=lambda net: net.impair(5, delay=0.02), megabits=10),
        Fault("rank 0's node slow", accuses("node", 0), network=lambda net: net.slow(0, 20)),
        Fault(
            "blocked between two nodes",
            lambda ended: (
                {tuple(item["nodes"]) for item in accusations(ended)} == {(4, 6)}
                or any(set(test["nodes"]) == {4, 6} for test in ended.found["tests"] if test["failure"])
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
            lambda ended: [u["node"] for u in ended.found["units"] if len(set(u["digests"]["fp32 1024"])) > 1] == [2],
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
            lambda ended: [round(node["clock_offset"]) for node in ended.found["nodes"]] == [0, 0, 0, 30, 0, 0, 0, 0],
            ranks={3: {"clock": 30.0}},
            code="NODE011",
        ),
        Fault("another torch", fact("torch", 4), ranks={4: {"environment": {"STANDIN_TORCH": "2.6.0"}}}),
    ]
    everything = {"storage": "/tmp", "burn": 0.5, "quick_links": True}
    for rank in (5,):
        for work, stage in STAGES.items():
            for verb, kind in (("kill", "died"), ("stop", "silent")):
                found.append(
                    Fault(
                        f"rank {rank} is {'killed' if verb == 'kill' else 'stopped'} in {stage}",
                        only_loses(rank, stage, kind),
                        faults={rank: f"{work} {verb} rank"},
                        # while ranks arrive, one is missing: else the stage is over before anything can happen
                        absent=(7,) if work == "arrive" else (),
                        common={
                            **everything,
                            **({"arrived": NODES - 1, "limits": {"arrive": 12.0}} if work == "arrive" else {}),
                            **({"environment": {"STANDIN_CARDS": "2"}} if work == "peers" else {}),
                        },
                    )
                )
    return found


def named(message: str, fault: Fault) -> str:
    """A message without the names of this machine: its host, its temporary folder."""
    message = re.sub(rf"\b{re.escape(socket.gethostname())}#(\d+)", r"node\1", message)
    message = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "its host", message)
    return message.replace(str(fault.common.get("storage") or "\0"), "DIR")


def run(fault: Fault) -> dict:
    common = dict(fault.common)
    real = not common.pop("quick_links", False)
    if fault.quota and (reason := cpu_group.why_not()):
        return {"fault": fault.name, "skipped": reason, "seconds": 0.0, "left_running": 0, "shown": False}
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(network(NODES))
        slowed = {}
        if fault.quota:
            slowed[fault.quota[0]] = {"group": str(stack.enter_context(cpu_group.cpu_group(fault.quota[1])))}
        for index in range(NODES):
            net.slow(index, fault.megabits)
        fault.network(net)
        base = {**common.pop("environment", {}), **({"STANDIN_REAL": "1"} if real else {})}
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
                environment = {**base, **own.get("environment", {})}
                ranks[rank] = {
                    "head": net.address(0),
                    "net": net.names[rank],
                    "node": None,
                    **size,
                    "limits": limits,
                    **slowed.get(rank, {}),
                    **own,
                    "environment": environment,
                }
        ended = examine(ranks, {"world": NODES, **common}, faults=fault.faults, within=150)
    out = {"fault": fault.name, "seconds": round(ended.seconds, 1), "left_running": len(ended.left)}
    if not ended.found:
        return out | {"shown": False, "codes": ended.codes, "errors": list(ended.errors.values())[:2]}
    lost = [
        f"rank {item['rank']}: {item['kind']} in {item['stage']}: {item['words']}" for item in ended.found["losses"]
    ]
    failures = sorted({test["failure"] for test in ended.found["tests"] if test["failure"]})
    away = set(fault.faults) if any("rank" in word for word in fault.faults.values()) else set()
    return out | {
        "shown": bool(fault.seen(ended)),
        "well": fault.well,
        "verdict": named(str(pronounce_preflight(patient_of(ended), ())), fault),
        "examination_seconds": round(sum(stage["seconds"] for stage in ended.found["stages"]), 1),
        "reporter": ended.reporter,
        "one_exit_code": {
            code for rank, code in ended.codes.items() if rank not in away and not ended.errors[rank].strip()
        }
        == {ENDED_WITH},
        "findings": [
            {"code": item.code, "message": named(item.message, fault)}
            for item in sorted(findings(ended), key=lambda item: item.code != fault.code)
        ][:4],
        "losses": [named(text, fault) for text in lost],
        "accusations": accusations(ended)[:4],
        "failures": [named(text, fault) for text in failures[:3]],
        "rounds": 1 + max((test["round"] for test in ended.found["tests"]), default=-1),
        "tests": len(ended.found["tests"]),
        "said": [named(text.strip(), fault) for text in ended.errors.values() if text.strip()][:2],
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
    tried = [row for row in rows if "skipped" not in row]
    print(f"{sum(row['shown'] for row in tried)} of {len(tried)} faults shown; {left} processes left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
