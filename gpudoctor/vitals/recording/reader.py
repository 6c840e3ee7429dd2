"""From the folders of one run's nodes to one `Recording`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Beside, Process, Recording, RunEnd
from gpudoctor.vitals.recording.archive import find_place
from gpudoctor.vitals.recording.machines import joined
from gpudoctor.vitals.recording.node import RecordedNode, read_node
from gpudoctor.vitals.recording.process import Reported
from gpudoctor.vitals.recording.shards import whole_norms

_DEATHS = {"exception", "signal"}


def read_recording(path: str, *more: str) -> Recording:
    """The recording at a path: a folder that `gpudoctor run` wrote, or a zip file of one.

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
        Beside(node=node.text("node") or node.place.name, machine=node.machine, facts=node.facts)
        for node in ordered
    ]
    machine, facts = joined(beside, [_started(node) for node in ordered])
    problems = [sentence for node in nodes for sentence in node.problems]
    if not any(node.reported for node in nodes):
        problems.append(f"{path}: no process reported: the probe saw no process of the command import torch")
    return Recording(
        path=path,
        command=tuple(str(word) for word in _sequence(first.manifest.get("command"))),
        cwd=first.text("cwd"),
        started=first.text("started"),
        node=first.text("node"),
        environment=_texts(first.manifest.get("environment")),
        settings=_mapping(first.manifest.get("settings")),
        ranks=whole_norms(ranks),
        workers=tuple(_workers(nodes, ranks)),
        launchers=tuple(_launchers(nodes)),
        machine=machine,
        machine_facts=facts,
        nodes=tuple(beside),
        end=_joined_end([node.end for node in nodes]),
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
                f"{named} both hold rank {rank}: they are not two nodes of one run; name one of them"
            )
        found.sort(key=lambda item: (len(item[1].steps) > 0, item[1].wall))
        node, process = found[-1]
        if len(found) > 1:
            node.problems.append(
                f"{node.place.name}: rank {rank} was started {len(found)} times; gpudoctor shows the last one"
            )
        chosen.append(process)
    return chosen


def _placed(node: RecordedNode) -> list[Process]:
    """Processes of ranks. One without a rank is rank 0 where no other has one.

    A launcher imports torch too, and so may a script that prepares the data: without rank and without steps
    they are no ranks. Of several that have none, the one that died counts where the command failed, then the
    one with most steps.
    """
    ranked = [item.process for item in node.reported if item.ranked]
    if ranked:
        return ranked
    alone = sorted(node.reported, key=lambda item: _weight(item, node.end), reverse=True)
    trained = sum(len(item.process.steps) > 0 for item in alone)
    if trained > 1:
        node.problems.append(
            f"{node.place.name}: {trained} processes without a rank trained; the one of pid "
            f"{alone[0].process.pid} is shown"
        )
    return [item.process for item in alone[:1]]


def _launchers(nodes: Sequence[RecordedNode]) -> list[Process]:
    """Processes without a rank on nodes where others have one."""
    return [
        item.process
        for node in nodes
        if any(other.ranked for other in node.reported)
        for item in node.reported
        if not item.ranked
    ]


def _weight(item: Reported, end: RunEnd | None) -> tuple[bool, int, float]:
    process = item.process
    died = any(record.type in _DEATHS for record in process.records)
    return (died and end is not None and end.failed, len(process.steps), process.wall)


def _leader(nodes: Sequence[RecordedNode], ranks: Sequence[Process]) -> RecordedNode:
    """The node of the lowest rank: its manifest and machine stand for the run."""
    if ranks:
        for node in nodes:
            if any(
                item.process.pid == ranks[0].pid and item.process.node == ranks[0].node
                for item in node.reported
            ):
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
        worst,
        oom_kills=sum(end.oom_kills for end in known),
        kernel=tuple(line for end in known for line in end.kernel),
    )


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> Mapping[str, str]:
    return {name: text for name, text in _mapping(value).items() if isinstance(text, str)}
