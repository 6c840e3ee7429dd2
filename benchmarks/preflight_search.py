"""How often the search of `gpudoctor preflight` names the bad node, link or rack, in simulated clusters.

    python benchmarks/preflight_search.py                      scores the unseen seeds; figures as a table
    python benchmarks/preflight_search.py --seeds known        the seeds on which the thresholds were chosen
    python benchmarks/preflight_search.py --json FILE          the figures as JSON

A cluster has racks, nodes that differ by 1 %, and 0 to 5 % bad nodes. The noise of a test is drawn from medians
of real repeated all-reduces (`preflight-noise.json`), or from a calm network with a heavy tail. Two other rules
see the same clusters: DLRover's two rounds (a straggler takes more than twice the median time) and the second
pass of Google's cluster health scanner (who fails beside a node that passed is bad; its limit is set by hand,
here at 80 % of the true bandwidth, which no operator knows so well).
"""

import argparse
import json
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpudoctor.analysis.preflight.accusation import Accused, Aspect
from gpudoctor.analysis.preflight.judging import judge
from gpudoctor.analysis.preflight.search import next_round
from gpudoctor.analysis.preflight.search_plan import PLANS, NodeGroup
from gpudoctor.model.finding import Confidence
from gpudoctor.model.signs.preflight import Figure, LinkTest, PreflightNode, Quantity, Stage

HERE = Path(__file__).resolve().parent
NOISE = HERE / "data" / "preflight-noise.json"
BANDWIDTH = 45e9
LATENCY = 20e-6
PAYLOAD = 1 << 30
SEEDS = {"known": 1_000_000, "unseen": 31_000_000}
"""First seed of each set. Thresholds were chosen on the known ones; the unseen ones were scored once."""


@dataclass(frozen=True)
class Fault:
    """What is wrong in a cluster, and what a right accusation says of it."""

    kind: str
    nodes: tuple[int, ...]
    share: float = 0.0
    """Speed that is left; the chance of a good test where tests fail."""
    size: int = 2
    """Least number of nodes in a group that shows it."""

    @property
    def aspect(self) -> Aspect:
        if self.kind in ("failing", "failing-link", "failing-group"):
            return Aspect.FAILURE
        return Aspect.LATENCY if self.kind == "latency" else Aspect.BANDWIDTH

    @property
    def accused(self) -> Accused:
        if self.kind in ("slow-link", "failing-link"):
            return Accused.LINK
        if self.kind == "rack":
            return Accused.DOMAIN
        return Accused.GROUP if "group" in self.kind else Accused.NODE


@dataclass
class Cluster:
    """Nodes in racks, their faults, and the tests that a search made of them."""

    count: int
    rack: int
    noise: "Noise"
    rng: random.Random
    faults: list[Fault] = field(default_factory=list)
    tests: list[LinkTest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = [self.rng.gauss(0, 0.01) for _ in range(self.count)]
        self.nodes = [
            PreflightNode(index=i, name=f"r{i // self.rack}n{i % self.rack}", ranks=(i,)) for i in range(self.count)
        ]
        self.by_node: dict[int, list[Fault]] = {}

    def add(self, fault: Fault) -> None:
        self.faults.append(fault)
        for node in fault.nodes:
            self.by_node.setdefault(node, []).append(fault)

    def concerned(self, nodes: Sequence[int]) -> list[Fault]:
        """Faults that a test of these nodes shows."""
        found: dict[int, Fault] = {}
        inside = set(nodes)
        for node in nodes:
            for fault in self.by_node.get(node, ()):
                if len(nodes) < fault.size:
                    continue
                if fault.accused is Accused.LINK and not set(fault.nodes) <= inside:
                    continue
                if fault.kind == "rack" and inside <= set(fault.nodes):
                    continue
                found[id(fault)] = fault
        return list(found.values())

    def measure(self, group: NodeGroup) -> LinkTest:
        nodes = group.nodes
        faults = self.concerned(nodes)
        failing = [fault for fault in faults if fault.aspect is Aspect.FAILURE]
        if any(self.rng.random() >= fault.share for fault in failing):
            return LinkTest(stage=group.stage, round=group.round, nodes=nodes, failure="timed out after 20 s")
        rate, wait = self.noise.draw(self.rng), self.noise.latency(self.rng)
        count = len(nodes)
        bandwidth = BANDWIDTH / (1 + LATENCY * BANDWIDTH * count / PAYLOAD)
        bandwidth *= 2.718281828 ** min(self.own[node] for node in nodes) * rate
        far = len({node // self.rack for node in nodes}) > 1
        latency = LATENCY * (1.3 if far else 1.0) * wait
        for fault in faults:
            if fault.aspect is Aspect.BANDWIDTH:
                bandwidth *= fault.share
            elif fault.aspect is Aspect.LATENCY:
                latency /= fault.share
        figures = [
            Figure(quantity=Quantity.BUS_BANDWIDTH, value=bandwidth, spread=self.noise.spread, repetitions=10,
                   payload=PAYLOAD, algorithm="ring"),
        ]  # fmt: skip
        if count == 2:
            figures.append(
                Figure(quantity=Quantity.LATENCY, value=latency, spread=self.noise.spread, repetitions=10, payload=8)
            )
        return LinkTest(stage=group.stage, round=group.round, nodes=nodes, figures=tuple(figures))


@dataclass(frozen=True)
class Noise:
    """Factors of a test's bandwidth and latency."""

    name: str
    deviation: float = 0.02
    """Of a drawn bandwidth; a latency varies by two and a half times as much."""
    bursts: float = 0.005
    """Share of the tests that another job slows to 40 to 95 %; of latencies twice as many."""
    rates: tuple[float, ...] = ()
    """Medians of real repetitions over the median of all; empty for a drawn noise."""
    waits: tuple[float, ...] = ()
    spread: float = 0.0

    def draw(self, rng: random.Random) -> float:
        if self.rates:
            return rng.choice(self.rates)
        if rng.random() < self.bursts:
            return rng.uniform(0.4, 0.95)
        return float(min(1 + 3 * self.deviation, max(1 - 5 * self.deviation, rng.gauss(1, self.deviation))))

    def latency(self, rng: random.Random) -> float:
        if self.waits:
            return rng.choice(self.waits)
        burst = rng.random() < 2 * self.bursts
        return rng.uniform(1.2, 4) if burst else rng.lognormvariate(0, 2.5 * self.deviation)


def noises() -> list[Noise]:
    """Two drawn noises, and the measured ones if they are there."""
    found = [
        Noise("calm: 2 %, 0.5 % bursts", spread=0.005),
        Noise("busy: 5 %, 2 % bursts", deviation=0.05, bursts=0.02, spread=0.012),
    ]
    if NOISE.exists():
        for row in json.loads(NOISE.read_text())["noises"]:
            found.append(Noise(row["name"], rates=tuple(row["rates"]), waits=tuple(row["waits"]), spread=row["spread"]))
    return found


# Clusters.

KINDS = (
    "slow", "slow", "slow", "failing", "failing", "latency", "slow-link", "failing-link", "group",
    "failing-group", "paired", "rack",
)  # fmt: skip


def cluster(count: int, share: float, noise: Noise, seed: int, rounds: str) -> Cluster:
    """A cluster in which about `share` of the nodes are bad."""
    rng = random.Random(seed)
    made = Cluster(count, 4 if count < 64 else 16, noise, rng)
    bad = sum(rng.random() < share for _ in range(count)) if share else 0
    free = list(range(count))
    first = next_round(PLANS[rounds], made.nodes, ())
    meets = [group.nodes for group in first]
    grouped = racked = False
    while bad > 0:
        kind = rng.choice(KINDS)
        open_pairs = (
            [pair for pair in meets if set(pair) <= set(free)]
            if kind in ("slow-link", "failing-link", "paired")
            else []
        )
        left = rng.uniform(0.3, 0.75)
        if kind in ("slow-link", "failing-link", "paired"):
            if not open_pairs:
                continue
            nodes = rng.choice(open_pairs)
            free = [node for node in free if node not in nodes]
            if kind == "paired":  # two bad nodes that meet each other in the first round
                for node in nodes:
                    made.add(Fault("slow", (node,), rng.uniform(0.3, 0.75)))
                bad -= 2
                continue
            made.add(Fault(kind, tuple(sorted(nodes)), left if kind == "slow-link" else 0.0))
        elif kind == "rack":
            racks = [r for r in range(count // made.rack) if all(r * made.rack + i in free for i in range(made.rack))]
            if racked or not racks or count < 32:
                bad -= 1 if count < 32 else 0
                racked = True
                continue
            racked = True
            start = rng.choice(racks) * made.rack
            nodes = tuple(range(start, start + made.rack))
            free = [node for node in free if node not in nodes]
            made.add(Fault("rack", nodes, left))
        elif "group" in kind:
            if grouped:
                continue
            grouped = True
            node = free.pop(rng.randrange(len(free)))
            share_left = rng.uniform(0.2, 0.6) if kind == "group" else 0.0
            made.add(Fault(kind, (node,), share_left, size=rng.randint(4, max(5, count // 2))))
        else:
            node = free.pop(rng.randrange(len(free)))
            least = 0.15 if kind == "latency" else 0.3
            top = 0.5 if kind == "latency" else 0.75
            made.add(Fault(kind, (node,), 0.0 if kind == "failing" else rng.uniform(least, top)))
        bad -= 1
    return made


@dataclass
class Score:
    """What a rule said of clusters."""

    faults: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    accusations: int = 0
    right: int = 0
    node_tests: int = 0
    rounds: list[int] = field(default_factory=list)
    tests: list[int] = field(default_factory=list)
    clusters: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        faults, found = sum(self.faults.values()), sum(self.found.values())
        return {
            "clusters": self.clusters,
            "faults": faults,
            "found": found,
            "found_share": round(found / faults, 5) if faults else None,
            "accusations": self.accusations,
            "right": self.right,
            "right_share": round(self.right / self.accusations, 5) if self.accusations else None,
            "node_tests": self.node_tests,
            "false_per_10000_node_tests": round(
                1e4 * (self.accusations - self.right) / max(1, self.node_tests), 4
            ),
            "rounds_median": statistics.median(self.rounds),
            "rounds_most": max(self.rounds),
            "pair_tests_median": statistics.median(self.tests),
            "by_kind": {
                kind: [self.found[kind], count] for kind, count in sorted(self.faults.items())
            },
        }  # fmt: skip


def run(made: Cluster, mode: str) -> list[tuple[Accused, tuple[int, ...], Aspect]]:
    """Searches a cluster to the end; the accusations that are probable or confirmed."""
    plan = PLANS[mode]
    while groups := next_round(plan, made.nodes, made.tests):
        made.tests.extend(made.measure(group) for group in groups)
    found = judge(made.nodes, made.tests, plan=plan).accusations
    return [(item.accused, item.nodes, item.aspect) for item in found if item.confidence is not Confidence.SUSPECTED]


def score(score_: Score, made: Cluster, said: Sequence[tuple[Accused, tuple[int, ...], Aspect]], seed: int) -> None:
    """Counts what was said of a cluster; an accusation is right if kind, nodes and aspect are a fault's."""
    truth = {(fault.accused, fault.nodes, fault.aspect): fault for fault in made.faults}
    score_.clusters += 1
    for key, fault in truth.items():
        score_.faults[fault.kind] += 1
        if key in said:
            score_.found[fault.kind] += 1
        else:
            score_.missed.append(f"{seed} {fault}")
    # A rack may be slow so that some of its nodes are named one by one: that is not the right answer.
    for item in said:
        score_.accusations += 1
        if item in truth:
            score_.right += 1
        else:
            score_.wrong.append(f"{seed} {item} {made.faults}")
    pairs = [test for test in made.tests if test.stage is Stage.PAIRS]
    score_.node_tests += 2 * len(pairs)
    score_.rounds.append(len({(test.stage, test.round) for test in made.tests}))
    score_.tests.append(len(pairs))


# Two other rules on the same clusters: they name nodes only, so any fault of a named node counts as right.


def pair_group(number: int, nodes: Sequence[int]) -> NodeGroup:
    return NodeGroup(stage=Stage.PAIRS, round=number, nodes=tuple(sorted(nodes)))


def seconds(test: LinkTest) -> float:
    """Time of a test: a large message and a small one; infinite if it failed."""
    if test.failure:
        return float("inf")
    small = test.figure(Quantity.LATENCY)
    return PAYLOAD / test.figure(Quantity.BUS_BANDWIDTH).value + (small.value if small else 0.0)


def two_rounds(made: Cluster) -> set[int]:
    """DLRover: adjacent pairs, then fastest with slowest; bad is who failed both or took twice the median."""
    order, best = list(range(made.count)), [float("inf")] * made.count
    for number in (0, 1):
        for place in range(0, made.count - 1, 2):
            pair = (order[place], order[place + 1]) if not number else (order[place // 2], order[-1 - place // 2])
            test = made.measure(pair_group(number, pair))
            made.tests.append(test)
            for node in pair:
                best[node] = min(best[node], seconds(test))
        order.sort(key=lambda node: best[node])
    middle = statistics.median(best)
    return {node for node in range(made.count) if best[node] > 2 * middle}


def second_pass(made: Cluster) -> set[int]:
    """Cluster health scanner: who fails a pair meets a node that passed; who fails again is bad."""
    least = 0.8 * BANDWIDTH

    def passed(test: LinkTest) -> bool:
        return not test.failure and test.figure(Quantity.BUS_BANDWIDTH).value >= least

    good, suspects = [], []
    for node in range(0, made.count - 1, 2):
        test = made.measure(pair_group(0, (node, node + 1)))
        made.tests.append(test)
        (good if passed(test) else suspects).extend((node, node + 1))
    bad = set()
    for place, node in enumerate(suspects):
        if good:
            test = made.measure(pair_group(1, (node, good[place % len(good)])))
            made.tests.append(test)
            if not passed(test):
                bad.add(node)
    return bad


def score_nodes(score_: Score, made: Cluster, said: set[int], seed: int) -> None:
    """Counts nodes that another rule named. A rack is found if three quarters of it are named."""
    own = [fault for fault in made.faults if fault.accused is not Accused.LINK]
    named = {node for fault in own for node in fault.nodes}
    for fault in made.faults:
        score_.faults[fault.kind] += 1
        share = len(set(fault.nodes) & said) / len(fault.nodes)
        if fault in own and share >= 0.75:
            score_.found[fault.kind] += 1
    score_.clusters += 1
    score_.accusations += len(said)
    score_.right += len(said & named)
    score_.node_tests += 2 * len(made.tests)
    score_.rounds.append(2)
    score_.tests.append(len(made.tests))
    score_.wrong += [f"{seed} {node}" for node in said - named]


RULES: dict[str, Callable[[Cluster], set[int]] | None] = {
    "gpudoctor": None,
    "two rounds, twice the median": two_rounds,
    "second pass, 80 % of nominal": second_pass,
}
SHARES = (0.0, 0.01, 0.03, 0.05)
CLUSTERS = {16: 240, 64: 60, 256: 8, 1024: 1, 4096: 1}
"""Clusters of each size, for each share of bad nodes; the two largest sizes on the calm network only."""


def measured(seeds: str, sizes: Sequence[int], mode: str, noise: Noise, times: float) -> list[dict[str, Any]]:
    """One row for each rule, and one for each size of it."""
    rows = []
    for rule, names in RULES.items():
        total, each = Score(), []
        for count in sizes:
            part = Score()
            for share in SHARES:
                for number in range(max(1, round(CLUSTERS[count] * times))):
                    seed = SEEDS[seeds] + number + 1000 * round(100 * share) + 10_000 * count
                    made = cluster(count, share, noise, seed, mode)
                    if names is None:
                        said = run(made, mode)
                        score(part, made, said, seed)
                    else:
                        score_nodes(part, made, names(made), seed)
            each.append(part.row() | {"nodes": count})
            for name in ("faults", "found"):
                getattr(total, name).update(getattr(part, name))
            for name in ("clusters", "accusations", "right", "node_tests", "rounds", "tests", "wrong", "missed"):
                setattr(total, name, getattr(total, name) + getattr(part, name))
        rows.append({"rule": rule, "noise": noise.name, "mode": mode, **total.row(), "by_nodes": each,
                     "wrong": total.wrong[:20], "missed": total.missed[:20]})  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", choices=tuple(SEEDS), default="unseen")
    parser.add_argument("--mode", choices=tuple(PLANS), default="standard")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(CLUSTERS), choices=tuple(CLUSTERS))
    parser.add_argument("--times", type=float, default=1.0, help="multiplies the number of clusters")
    parser.add_argument("--only", default="", help="beginning of a noise's name")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for noise in noises():
        if options.only and not noise.name.startswith(options.only):
            continue
        sizes = [size for size in options.sizes if size <= 256 or noise.name.startswith("calm")]
        for row in measured(options.seeds, sizes, options.mode, noise, options.times):
            rows.append(row)
            print(
                f"{row['noise'][:4]}  {row['rule']:30} found {row['found']}/{row['faults']}"
                f"  right {row['right']}/{row['accusations']}"
                f"  false in 10,000 node tests {row['false_per_10000_node_tests']}"
                f"  rounds {row['rounds_median']}-{row['rounds_most']}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
