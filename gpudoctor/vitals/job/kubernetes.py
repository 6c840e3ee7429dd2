"""Kubernetes manifests (Pod, Job, PyTorchJob and relatives): containers, commands, limits, variables."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpudoctor.lang import say
from gpudoctor.model import Unavailable
from gpudoctor.model.read_limits import JOB_MANIFEST, JOB_MANIFEST_DEPTH
from gpudoctor.vitals.job.grants import Grants, byte_count

_MOST_NODES = 50_000
"""Nodes of a manifest that are visited; aliases can make a small file endless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container that runs something."""

    words: tuple[str, ...]
    line: int
    """1-based line of its command."""
    grants: Grants
    variables: tuple[tuple[str, str, int], ...]
    """Name, value and 1-based line of its plain variables."""


def read_manifest(text: str, path: str) -> list[Container]:
    """Containers of every document; raises `Unavailable` with the line when the YAML is malformed."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if len(text) > JOB_MANIFEST.most:
        raise Unavailable(say("{path}: it is {words}", path=path, words=JOB_MANIFEST.words))
    if _depth(text) > JOB_MANIFEST_DEPTH.most:
        raise Unavailable(say("{path}: it has {words}", path=path, words=JOB_MANIFEST_DEPTH.words))
    try:
        documents = list(YAML(typ="rt").load_all(text))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = say("line {line}: ", line=mark.line + 1) if mark is not None else ""
        problem = str(getattr(error, "problem", "") or "").strip() or type(error).__name__
        raise Unavailable(
            say("{path}: {place}not valid YAML ({problem})", path=path, place=place, problem=problem)
        ) from error
    except (RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise Unavailable(say("{path}: not valid YAML ({kind})", path=path, kind=type(error).__name__)) from error
    found: list[Container] = []
    for document in documents:
        nodes, ranks = _replicas(document)
        preemptible = _spot(document)
        for pod in _pods(document):
            for item in _list(pod, "containers"):
                if isinstance(item, Mapping):
                    found.append(_container(item, pod, path, Grants(nodes=nodes, preemptible=preemptible), ranks))
    return found


def _depth(text: str) -> int:
    """Brackets that stand open at once, those in texts too: the reader's work grows with their square."""
    depth = deepest = 0
    for mark in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if mark in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _pods(document: object) -> Iterator[Mapping[object, object]]:
    """Every mapping that has containers, outermost first."""
    for node in _nodes(document):
        if isinstance(node, Mapping) and isinstance(node.get("containers"), list):
            yield node


def _nodes(document: object) -> Iterator[object]:
    """Every value of a document, outermost first; each object once."""
    queue: deque[object] = deque([document])
    seen: set[int] = set()
    while queue and len(seen) < _MOST_NODES:
        node = queue.popleft()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, Mapping):
            queue.extend(node.values())
        elif isinstance(node, list):
            queue.extend(node)


def _scalars(document: object) -> Iterator[str]:
    """The plain values and keys of a document."""
    for node in _nodes(document):
        if isinstance(node, Mapping):
            yield from map(_said, node)
        else:
            yield _said(node)


def _said(value: object) -> str:
    """A plain value as text; "" for all else, which aliases can make endless."""
    return str(value) if isinstance(value, str | int | float) else ""


def _container(
    item: Mapping[object, object], pod: Mapping[object, object], path: str, base: Grants, ranks: int | None
) -> Container:
    words = (*_words(item.get("command")), *_words(item.get("args")))
    resources = _mapping(item, "resources")
    limits = {**_mapping(resources, "requests"), **_mapping(resources, "limits")}
    gpus = next(
        (_whole(value) for key, value in limits.items() if re.match(r"nvidia\.com/(gpu|mig-)", _said(key))), None
    )
    grants = Grants(
        gpus=gpus,
        gpus_origin=say("nvidia.com/gpu in {path}", path=path) if gpus is not None else "",
        ranks_per_node=ranks,
        cpus=_cpus(limits.get("cpu")),
        memory=byte_count(_said(limits.get("memory")), binary=False),
        shared_memory=_shared_memory(item, pod),
    )
    variables = tuple(
        (_said(entry["name"]), _said(entry["value"]), _line(entry, "value", 1))
        for entry in _list(item, "env")
        if isinstance(entry, Mapping) and "name" in entry and entry.get("value") is not None
    )
    key = "command" if "command" in item else "args"
    return Container(words=words, line=_line(item, key, 1), grants=grants.over(base), variables=variables)


def _shared_memory(item: Mapping[object, object], pod: Mapping[object, object]) -> int | None:
    """The size limit of the memory volume that is mounted at /dev/shm."""
    mounted = {
        _said(mount.get("name"))
        for mount in _list(item, "volumeMounts")
        if isinstance(mount, Mapping) and _said(mount.get("mountPath")).rstrip("/") == "/dev/shm"
    }
    for volume in _list(pod, "volumes"):
        if isinstance(volume, Mapping) and _said(volume.get("name")) in mounted:
            return byte_count(_said(_mapping(volume, "emptyDir").get("sizeLimit")), binary=False)
    return None


def _replicas(document: object) -> tuple[int | None, int | None]:
    """Nodes of a training operator's job, and ranks a node when it says them."""
    spec = _mapping(document, "spec")
    ranks = _whole(spec.get("nprocPerNode"))
    counts = [
        _whole(replica.get("replicas")) or 1
        for key in ("pytorchReplicaSpecs", "mpiReplicaSpecs", "xgbReplicaSpecs", "tfReplicaSpecs")
        for name, replica in _mapping(spec, key).items()
        if isinstance(replica, Mapping) and name != "Launcher"
    ]
    if counts:
        return sum(counts), ranks
    if _mapping(spec, "template") and isinstance(document, Mapping) and document.get("kind") == "Job":
        return _whole(spec.get("parallelism")), ranks
    return None, ranks


def _spot(document: object) -> bool | None:
    """Whether the pods may be placed on nodes that are taken away: tolerations and selectors of the clouds."""
    words = ("cloud.google.com/gke-spot", "gke-preemptible", "capacityType", "kubernetes.azure.com/scalesetpriority")
    text = " ".join(_scalars(document))
    if any(word in text for word in words) and re.search(r"(?i)\bspot\b|gke-spot|preemptible", text):
        return True
    return None


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        return ()
    return tuple(str(item) for item in value if item is not None and not isinstance(item, (list, dict)))


def _mapping(node: object, key: str) -> Mapping[object, object]:
    value = node.get(key) if isinstance(node, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _list(node: Mapping[object, object], key: str) -> list[object]:
    value = node.get(key)
    return list(value) if isinstance(value, list) else []


def _line(node: object, key: str, default: int) -> int:
    try:
        return int(node.lc.key(key)[0]) + 1  # type: ignore[attr-defined]  # ruamel's place of a key
    except (AttributeError, KeyError, TypeError, IndexError):
        return default


def _whole(value: object) -> int | None:
    match = re.fullmatch(r"\s*(\d{1,6})\s*", _said(value))
    return int(match[1]) if match and not isinstance(value, bool) else None


def _cpus(value: object) -> float | None:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,4})?)(m?)", _said(value))
    return float(match[1]) / (1000 if match[2] else 1) if match else None
