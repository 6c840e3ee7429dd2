"""Kubernetes manifests (Pod, Job, PyTorchJob and relatives): containers, commands, limits, variables."""

import re
from collections import deque
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Unavailable
from gpudoctor.model.read_limits import JOB_MANIFEST
from gpudoctor.model.records import frozen
from gpudoctor.vitals.configs.config_text import UnreadConfig
from gpudoctor.vitals.configs.tree import ConfigNode, ConfigPair
from gpudoctor.vitals.job.grants import Grants, byte_count

_MOST_NODES = 50_000
"""Nodes of a manifest that are visited; aliases can make a small file endless."""


@frozen
class Container:
    """One container that runs something."""

    words: tuple[str, ...]
    line: int
    grants: Grants
    variables: tuple[tuple[str, str, int], ...]
    """Name, value and 1-based line of its plain variables."""


def read_manifest(text: str, path: str) -> list[Container]:
    """Containers of every document; raises `Unavailable` with the line when the YAML is malformed."""
    from gpudoctor.vitals.configs.yaml_reader import read_yaml

    if len(text) > JOB_MANIFEST.most:
        raise Unavailable("{path}: it is {words}", path=path, words=JOB_MANIFEST.words)
    try:
        documents = read_yaml(text)
    except UnreadConfig as error:
        raise Unavailable("{path}: {error}", path=path, error=error) from error
    found: list[Container] = []
    for document in documents:
        nodes, ranks = _replicas(document)
        base = Grants(nodes=nodes, preemptible=_spot(document))
        pods = (node for node in _nodes(document) if _items(node, "containers"))
        found += [
            _container(item, pod, path, base, ranks)
            for pod in pods
            for item in _items(pod, "containers")
            if item.pairs is not None
        ]
    return found


def _nodes(document: ConfigNode) -> Iterator[ConfigNode]:
    """Every value of a document, outermost first; each object once."""
    queue = deque([document])
    seen: set[int] = set()
    while queue and len(seen) < _MOST_NODES:
        node = queue.popleft()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            queue.extend([pair.node for pair in node.pairs or ()] + (node.items or []))


def _pair(node: ConfigNode | None, *names: str) -> ConfigPair | None:
    """The pair at a path of names."""
    pair: ConfigPair | None = None
    for name in names:
        pair = next((pair for pair in (node.pairs if node else None) or () if pair.name == name), None)
        node = pair.node if pair else None
    return pair


def _pairs(node: ConfigNode | None, *names: str) -> list[ConfigPair]:
    """The pairs of the mapping at a path of names."""
    found = _pair(node, *names)
    return (found.node.pairs if found else None) or []


def _items(node: ConfigNode, name: str) -> list[ConfigNode]:
    found = _pair(node, name)
    return (found.node.items if found else None) or []


def _said(node: ConfigNode | ConfigPair | None) -> str:
    """A plain value as text; "" for all else."""
    value = node.node.value if isinstance(node, ConfigPair) else node.value if node else None
    return "" if value is None or isinstance(value, bool) else str(value)


def _container(item: ConfigNode, pod: ConfigNode, path: str, base: Grants, ranks: int | None) -> Container:
    command, args = _pair(item, "command"), _pair(item, "args")
    limits = {pair.name: pair for kind in ("requests", "limits") for pair in _pairs(item, "resources", kind)}
    gpus = next((_whole(pair) for name, pair in limits.items() if re.match(r"nvidia\.com/(gpu|mig-)", name)), None)
    cpus = re.fullmatch(r"(\d{1,6}(?:\.\d{1,4})?)(m?)", _said(limits.get("cpu")))
    grants = Grants(
        gpus=gpus,
        gpus_origin=say("nvidia.com/gpu in {path}", path=path) if gpus is not None else "",
        ranks_per_node=ranks,
        cpus=float(cpus[1]) / (1000 if cpus[2] else 1) if cpus else None,
        memory=byte_count(_said(limits.get("memory")), binary=False),
        shared_memory=_shared_memory(item, pod),
    )
    variables = tuple(
        (_said(_pair(entry, "name")), _said(value), value.line)
        for entry in _items(item, "env")
        if (value := _pair(entry, "value")) is not None and _pair(entry, "name") is not None
    )
    words = [_said(word) for pair in (command, args) if pair for word in pair.node.items or [pair.node]]
    first = command or args
    return Container(
        words=tuple(filter(None, words)), line=first.line if first else 1, grants=grants.over(base), variables=variables
    )


def _shared_memory(item: ConfigNode, pod: ConfigNode) -> int | None:
    """The size limit of the memory volume that is mounted at /dev/shm."""
    mounts = _items(item, "volumeMounts")
    mounted = {
        _said(_pair(mount, "name")) for mount in mounts if _said(_pair(mount, "mountPath")).rstrip("/") == "/dev/shm"
    }
    for volume in _items(pod, "volumes"):
        if _said(_pair(volume, "name")) in mounted:
            return byte_count(_said(_pair(volume, "emptyDir", "sizeLimit")), binary=False)
    return None


def _replicas(document: ConfigNode) -> tuple[int | None, int | None]:
    """Nodes of a training operator's job, and ranks a node when it says them."""
    ranks = _whole(_pair(document, "spec", "nprocPerNode"))
    counts = [
        _whole(_pair(replica.node, "replicas")) or 1
        for key in ("pytorchReplicaSpecs", "mpiReplicaSpecs", "xgbReplicaSpecs", "tfReplicaSpecs")
        for replica in _pairs(document, "spec", key)
        if replica.node.pairs is not None and replica.name != "Launcher"
    ]
    if counts:
        return sum(counts), ranks
    if _pair(document, "spec", "template") and _said(_pair(document, "kind")) == "Job":
        return _whole(_pair(document, "spec", "parallelism")), ranks
    return None, ranks


def _spot(document: ConfigNode) -> bool | None:
    """Whether the pods may be placed on nodes that are taken away: tolerations and selectors of the clouds."""
    words = ("cloud.google.com/gke-spot", "gke-preemptible", "capacityType", "kubernetes.azure.com/scalesetpriority")
    text = " ".join(" ".join([_said(node), *(pair.name for pair in node.pairs or ())]) for node in _nodes(document))
    if any(word in text for word in words) and re.search(r"(?i)\bspot\b|gke-spot|preemptible", text):
        return True
    return None


def _whole(pair: ConfigPair | None) -> int | None:
    match = re.fullmatch(r"\s*(\d{1,6})\s*", _said(pair))
    return int(match[1]) if match else None
