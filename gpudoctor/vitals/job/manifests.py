"""Manifests of Kubernetes, compose and SkyPilot: containers, commands, limits, variables."""

import re
from collections import deque
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Unavailable
from gpudoctor.model.read_limits import JOB_MANIFEST
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.job import Grants
from gpudoctor.vitals.configs.config_text import UnreadConfig
from gpudoctor.vitals.configs.tree import ConfigNode, ConfigPair
from gpudoctor.vitals.job.grants import byte_count
from gpudoctor.vitals.job.scheduler import gres_gpus

_OPERATORS = frozenset({"PyTorchJob", "TrainJob", "XGBoostJob", "Job"})
"""They start each pod as one task of the job."""
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
    starter: str = ""
    """What starts it once on each node and tells its ranks of each other."""


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
        found += _sky(document, path) if _pair(document, "run") else _services(document)
        nodes, ranks = _replicas(document)
        kind = _said(_pair(document, "kind"))
        base = Grants(nodes=nodes)
        pods = (node for node in _nodes(document) if _items(node, "containers"))
        found += [
            _container(item, pod, path, base, ranks, kind if kind in _OPERATORS else "")
            for pod in pods
            for item in _items(pod, "containers")
            if item.pairs is not None
        ]
    return found


def _sky(document: ConfigNode, path: str) -> Iterator[Container]:
    """SkyPilot's task: its commands run on each node."""
    run, nodes = _pair(document, "run"), _whole(_pair(document, "num_nodes")) or 1
    card = _pair(document, "resources", "accelerators")
    name = card.node.pairs[0].name if card and card.node.pairs else _said(card)
    gpus = (gres_gpus(name) or 1) if name else None
    origin = say("accelerators: {name} in {path}", name=name, path=path) if gpus else ""
    line = run.line if run else 1
    own = (("SKYPILOT_NUM_NODES", str(nodes), line), ("SKYPILOT_NUM_GPUS_PER_NODE", str(gpus or 0), line))
    grants = Grants(gpus_granted=gpus, gpus_origin=origin, nodes=nodes)
    words = ("bash", "-c", _said(run))
    yield Container(words=words, line=line, grants=grants, variables=_variables(document, "envs") + own, starter="sky")


def _services(document: ConfigNode) -> Iterator[Container]:
    """Services of a compose file, as `docker run` would start them."""
    for service in _pairs(document, "services"):
        item, command = service.node, _pair(service.node, "command")
        reserved = _pair(item, "deploy", "resources", "reservations", "devices")
        device = reserved.node.items[0] if reserved and reserved.node.items else None
        listed = len(_items(device, "device_ids")) if device else 0
        options = {"shm-size": "shm_size", "ipc": "ipc", "memory": "mem_limit"}
        said = {option: _said(_pair(item, key)) for option, key in options.items()}
        said["gpus"] = _said(_pair(device, "count")) or str(listed or "")
        words = [f"--{option}={value}" for option, value in said.items() if value]
        words += [f"--volume={_said(mount)}" for mount in _items(item, "volumes")]
        run = [_said(word) for word in command.node.items or [command.node]] if command else []
        yield Container(
            words=("docker", "run", *words, "image", *(run if len(run) != 1 else ("bash", "-c", run[0]))),
            line=command.line if command else service.line,
            grants=Grants(),
            variables=_variables(item, "environment"),
        )


def _variables(item: ConfigNode, name: str) -> tuple[tuple[str, str, int], ...]:
    """Plain variables, `N: V`, `N=V` or `{name: N, value: V}`."""
    found = [(pair.name, _said(pair), pair.line) for pair in _pairs(item, name)]
    for entry in _items(item, name):
        value, (key, sign, text) = _pair(entry, "value"), _said(entry).partition("=")
        if value is not None or sign:
            found.append((_said(_pair(entry, "name")) or key, _said(value) or text, (value or entry).line))
    return tuple(found)


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


def _container(
    item: ConfigNode, pod: ConfigNode, path: str, base: Grants, ranks: int | None, starter: str
) -> Container:
    command, args = _pair(item, "command"), _pair(item, "args")
    limits = {pair.name: pair for kind in ("requests", "limits") for pair in _pairs(item, "resources", kind)}
    gpus = next((_whole(pair) for name, pair in limits.items() if re.match(r"nvidia\.com/(gpu|mig-)", name)), None)
    cpus = re.fullmatch(r"(\d{1,6}(?:\.\d{1,4})?)(m?)", _said(limits.get("cpu")))
    grants = Grants(
        gpus_granted=gpus,
        gpus_origin=say("nvidia.com/gpu in {path}", path=path) if gpus is not None else "",
        ranks_per_node=ranks,
        cpus_granted=float(cpus[1]) / (1000 if cpus[2] else 1) if cpus else None,
        memory_granted=byte_count(_said(limits.get("memory")), binary=False),
        shared_memory_granted=_shared_memory(item, pod) if gpus else None,
    )
    words = [_said(word) for pair in (command, args) if pair for word in pair.node.items or [pair.node]]
    first = command or args
    return Container(
        words=tuple(filter(None, words)),
        line=first.line if first else 1,
        grants=grants.over(base),
        variables=_variables(item, "env"),
        starter=starter,
    )


def _shared_memory(item: ConfigNode, pod: ConfigNode) -> int | None:
    """Bytes of /dev/shm: the limit of what is mounted there, 64 MiB of the container's own; None: not limited."""
    mounts = [_said(_pair(mount, "name")) for mount in _items(item, "volumeMounts")
              if _said(_pair(mount, "mountPath")).rstrip("/") in {"/dev/shm", "/dev"}]  # fmt: skip
    shared = (pair := _pair(pod, "hostIPC")) is not None and pair.node.value is True
    if not mounts:
        return None if shared else 64 << 20
    volumes = (volume for volume in _items(pod, "volumes") if _said(_pair(volume, "name")) in mounts)
    return next((byte_count(_said(_pair(one, "emptyDir", "sizeLimit")), binary=False) for one in volumes), None)


def _replicas(document: ConfigNode) -> tuple[int | None, int | None]:
    """Nodes of a training operator's job, and ranks a node when it says them."""
    spec, ranks = _pair(document, "spec"), _whole(_pair(document, "spec", "nprocPerNode"))
    counts = [
        _whole(_pair(replica.node, "replicas")) or 1
        for key in ("pytorchReplicaSpecs", "mpiReplicaSpecs", "xgbReplicaSpecs", "tfReplicaSpecs")
        for replica in _pairs(document, "spec", key)
        if replica.node.pairs is not None and replica.name != "Launcher"
    ]
    counts += [
        (_whole(_pair(job, "replicas")) or 1) * (_whole(_pair(job, "template", "spec", "parallelism")) or 1)
        for job in _items(spec.node, "replicatedJobs")
    ] if spec else []  # fmt: skip
    if counts:
        return sum(counts), ranks
    trainer = _pair(document, "spec", "trainer")
    if trainer is not None:
        return _whole(_pair(trainer.node, "numNodes")), _whole(_pair(trainer.node, "numProcPerNode"))
    if _pair(document, "spec", "template") and _said(_pair(document, "kind")) == "Job":
        return _whole(_pair(document, "spec", "parallelism")) or 1, ranks
    return None, ranks


def _whole(pair: ConfigPair | None) -> int | None:
    match = re.fullmatch(r"\s*(\d{1,6})\s*", _said(pair))
    return int(match[1]) if match else None
