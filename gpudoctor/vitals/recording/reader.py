"""From the folders of one run's nodes to one `Recording`."""

import math
import re
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpudoctor.analysis.run.deaths import launched_only
from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model.signs.recording import Beside, Process, Recording, RunEnd, Table
from gpudoctor.vitals.recording.archive import find_place
from gpudoctor.vitals.recording.gdr_file import Reported
from gpudoctor.vitals.recording.node import RecordedNode, read_node

# Gradients that are spread over ranks (FSDP2): each rank reads the norm of its own part only.

_NORM = "grad_norm"


def whole_norms(ranks: Sequence[Process]) -> tuple[Process, ...]:
    """The ranks with the norm of the whole gradient, in the steps in which every rank has read its part.

    The parts of one group of shards make up the gradient, and all groups have the same one (HSDP): the squares
    of all ranks' norms add up to the whole's, once for each group.
    """
    norms = (item for process in ranks for item in process.of("numeric") if item.get("kind") == "norms")
    told = {int(item.get("shards") or 1) for item in norms}
    if not told or max(told) < 2:
        return tuple(ranks)
    # Of several models, some of them spread, nobody knows which one a reading is of.
    shards = max(told) if len(told) == 1 else len(ranks) + 1
    groups = max(1.0, len(ranks) / shards)
    parts = [_norms(process) for process in ranks]
    joint = set.intersection(*map(set, parts)) if len(ranks) >= shards else set()
    whole = {step: math.sqrt(sum(part[step] ** 2 for part in parts) / groups) for step in joint}
    return tuple(_with(process, whole) for process in ranks)


def _norms(process: Process) -> dict[int, float]:
    """The rank's readings by step."""
    steps = zip(process.steps.column("index"), process.steps.column(_NORM), strict=False)
    return {int(index): value for index, value in steps if math.isfinite(value)}


def _with(process: Process, whole: dict[int, float]) -> Process:
    columns = dict(process.steps.columns)
    if _NORM in columns:
        indices = process.steps.column("index")
        columns[_NORM] = array("f", (whole.get(int(index), math.nan) for index in indices))
    return replace(process, steps=Table(columns=columns))


# The machines of several nodes as one table: GPUs are numbered through, at the moments of the first node.

_GPU = re.compile(r"gpu([0-9]{1,9})_(\w+)")
STALE = 150.0
"""Seconds after which a sample says nothing of a moment: they thin out to one in two minutes in a long run."""


def joined(nodes: Sequence[Beside], starts: Sequence[float | None]) -> tuple[Table, Mapping[str, Any]]:
    """Table and facts of the first node, with the GPUs of the others behind its own.

    `starts` are epoch seconds of the nodes' clocks; where one is not known, both began together.
    Each of `facts["gpus"]` of several nodes has its `node`, and its `index` as the driver there counts it.
    """
    first = nodes[0]
    if len(nodes) == 1:
        return first.machine, first.facts
    columns = dict(first.machine.columns)
    gpus = _gpus(first)
    for node, start in zip(nodes[1:], starts[1:], strict=True):
        late = start - starts[0] if start is not None and starts[0] is not None else 0.0
        rows = _rows(first.machine, node.machine, late)
        for name, values in node.machine.columns.items():
            if match := _GPU.fullmatch(name):
                at = len(gpus) + int(match[1])
                columns[f"gpu{at}_{match[2]}"] = array("d", [values[row] if row >= 0 else math.nan for row in rows])
        gpus += _gpus(node)
    return Table(columns=columns), {**first.facts, "gpus": gpus}


def _gpus(node: Beside) -> list[dict[str, Any]]:
    """The GPUs of a node, at least as many as were sampled."""
    known = list(node.facts.get("gpus") or ())
    sampled = [int(match[1]) + 1 for name in node.machine.columns if (match := _GPU.fullmatch(name))]
    known += [{}] * (max(sampled, default=0) - len(known))
    return [{**item, "node": node.node, "index": item.get("index", index)} for index, item in enumerate(known)]


def _rows(first: Table, other: Table, late: float) -> list[int]:
    """For each sample of the first node the last of the other up to then; -1 where it has none near."""
    times = other.column("t")
    rows = []
    for moment in first.column("t"):
        row = bisect_right(times, moment - late) - 1
        rows.append(row if row >= 0 and moment - late - times[row] <= STALE else -1)
    return rows


_DEATHS = {"exception", "signal"}


def read_recording(path: str, *more: str) -> Recording:
    """The recording at a path: a folder that `gpudoctor run` wrote.

    `more` are the folders of the same run's other nodes; a place named twice is read once. Files that were
    cut short or damaged are read up to there and told in `problems`. Raises `UsageError` for a path that is
    no recording and for folders that are not of one run, `Unavailable` for one that may not be read or was
    written by a newer gpudoctor.
    """
    places = {place.identity: place for place in map(find_place, (path, *more))}
    nodes = [read_node(place) for place in places.values()]
    ranks = _ranks(nodes)
    first = _leader(nodes, ranks)
    ordered = [first, *(node for node in nodes if node is not first)]
    beside = [
        Beside(node=node.text("node") or node.place.name, machine=node.machine, facts=node.facts) for node in ordered
    ]
    machine, facts = joined(beside, [_started(node) for node in ordered])
    problems = [sentence for node in nodes for sentence in node.problems]
    if not any(node.reported for node in nodes):
        problems.append(
            say("{path}: no process reported: the probe saw no process of the command import torch", path=path)
        )
    elif not ranks:
        problems.append(say("{path}: no rank reported: the ranks ended before they imported torch", path=path))
    return Recording(
        path=path,
        command=tuple(first.manifest.get("command") or ()),
        cwd=first.text("cwd"),
        started=first.text("started"),
        node=first.text("node"),
        commit=first.text("commit"),
        gpudoctor=first.text("gpudoctor"),
        environment=first.manifest.get("environment") or {},
        settings=first.manifest.get("settings") or {},
        scripts={path: (kept[0], kept[1]) for path, kept in first.scripts.items()},
        ranks=whole_norms(ranks),
        workers=tuple(_workers(nodes, ranks)),
        launchers=tuple(_launchers(nodes)),
        machine=machine,
        machine_facts=facts,
        nodes=tuple(beside),
        end=_joined_end([node.end for node in nodes]),
        early_deaths={path: data for node in ordered for path, data in node.early_deaths.items()},
        problems=tuple(problems),
    )


def _ranks(nodes: Sequence[RecordedNode]) -> list[Process]:
    """One process a rank, by rank: where it was started again, its last life that made steps."""
    lives: dict[int, list[tuple[RecordedNode, Process]]] = {}
    for node in nodes:
        for process in _placed(node):
            lives.setdefault(process.rank, []).append((node, process))
    chosen: list[Process] = []
    for rank, found in sorted(lives.items()):
        places = {node.place.name for node, _ in found}
        if len(places) > 1:
            named = " and ".join(sorted(places)[:2])
            raise UsageError(
                "{named} both contain rank {rank}: they are not two nodes of one run; name one of them",
                named=named,
                rank=rank,
            )
        found.sort(key=lambda item: (len(item[1].steps) > 0, item[1].wall))
        node, process = found[-1]
        if len(found) > 1:
            node.problems.append(
                say(
                    "{name}: rank {rank} was started {found} times; gpudoctor shows the last one",
                    name=node.place.name,
                    rank=rank,
                    found=len(found),
                )
            )
        chosen.append(process)
    return chosen


def _placed(node: RecordedNode) -> list[Process]:
    """Processes of ranks. One without a rank is rank 0 where no other has one.

    A launcher imports torch too, and so may a script that prepares the data: without rank and without steps
    they are no ranks. A launcher that died of its ranks' deaths is never one. Of several that have none, the
    one that died counts where the command failed, then the one with most steps.
    """
    ranked = [item.process for item in node.reported if item.ranked]
    if ranked:
        return ranked
    alone = [item for item in node.reported if not launched_only(item.process)]
    alone.sort(key=lambda item: _weight(item, node.end), reverse=True)
    trained = sum(len(item.process.steps) > 0 for item in alone)
    if trained > 1:
        node.problems.append(
            say(
                "{name}: {trained} processes without a rank trained; the one of pid {pid} is shown",
                name=node.place.name,
                trained=trained,
                pid=alone[0].process.pid,
            )
        )
    return [item.process for item in alone[:1]]


def _launchers(nodes: Sequence[RecordedNode]) -> list[Process]:
    """Processes without a rank on nodes where others have one, and those that died of their ranks' deaths."""
    return [
        item.process
        for node in nodes
        for item in node.reported
        if not item.ranked and (launched_only(item.process) or any(other.ranked for other in node.reported))
    ]


def _weight(item: Reported, end: RunEnd | None) -> tuple[bool, int, float]:
    process = item.process
    died = any(record.type in _DEATHS for record in process.records)
    return (died and end is not None and end.failed, len(process.steps), process.wall)


def _leader(nodes: Sequence[RecordedNode], ranks: Sequence[Process]) -> RecordedNode:
    """The node of the lowest rank: its manifest and machine stand for the run."""
    if ranks:
        for node in nodes:
            if any(item.process.pid == ranks[0].pid and item.process.node == ranks[0].node for item in node.reported):
                return node
    return nodes[0]


def _workers(nodes: Sequence[RecordedNode], ranks: Sequence[Process]) -> list[Process]:
    """Workers of the processes that are shown, with their parents' ranks."""
    parents = {(process.node, process.pid): process.rank for process in ranks}
    return [
        replace(worker, rank=parents[worker.node, parent])
        for node in nodes
        for parent, worker in node.workers
        if (worker.node, parent) in parents
    ]


def _started(node: RecordedNode) -> float | None:
    """Epoch seconds of a node's start; None where its manifest does not say."""
    try:
        return datetime.fromisoformat(node.text("started")).timestamp()
    except ValueError:
        return None


def _joined_end(ends: Sequence[RunEnd | None]) -> RunEnd | None:
    """How the run ended: the end of the node that failed, what the kernel said on all of them."""
    known = [end for end in ends if end is not None]
    if not known:
        return None
    worst = max(known, key=lambda end: (end.failed, end.signal is not None, end.seconds or 0.0))
    return replace(
        worst, oom_kills=sum(end.oom_kills for end in known), kernel=tuple(line for end in known for line in end.kernel)
    )
