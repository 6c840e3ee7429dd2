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
        if _pair(document, "run"):
            found.append(_sky(document, path))
        else:
            found += _services(document)
        found += _pods(document, path)
    return found


def _pods(document: ConfigNode, path: str) -> Iterator[Container]:
    """Containers of Kubernetes: whatever has a list of them is a pod, or a template of pods."""
    nodes, ranks = _replicas(document)
    base = Grants(nodes=nodes, ranks_per_node=ranks)
    kind = _said(_pair(document, "kind"))
    starter = kind if kind in _OPERATORS else ""
    for node in _nodes(document):
        for item in _items(node, "containers"):
            if item.pairs is not None:
                yield _container(item, node, path, base, starter)


def _sky(document: ConfigNode, path: str) -> Container:
    """SkyPilot's task: its commands run on each node."""
    run = _pair(document, "run")
    nodes = _whole(_pair(document, "num_nodes")) or 1
    card = _pair(document, "resources", "accelerators")
    if card is not None and card.node.pairs:  # `{A100: 8}`
        name = card.node.pairs[0].name
    else:  # `A100:8`
        name = _said(card)
    gpus = (gres_gpus(name) or 1) if name else None
    origin = say("accelerators: {name} in {path}", name=name, path=path) if gpus else ""
    line = run.line if run else 1
    spot = _pair(document, "resources", "use_spot")
    preemptible = spot is not None and spot.node.value is True
    copied = [mount.name for mount in _pairs(document, "file_mounts") if _said(_pair(mount.node, "mode")) == "COPY"]
    own = (("SKYPILOT_NUM_NODES", str(nodes), line), ("SKYPILOT_NUM_GPUS_PER_NODE", str(gpus or 0), line))
    return Container(
        words=("bash", "-c", _said(run)),
        line=line,
        grants=Grants(
            gpus_granted=gpus,
            gpus_origin=origin,
            nodes=nodes,
            preemptible=preemptible or None,
            lost=" ".join(copied) if preemptible else "",
        ),
        variables=_variables(document, "envs") + own,
        starter="sky",
    )


_DOCKER_OPTIONS = {"shm-size": "shm_size", "ipc": "ipc", "memory": "mem_limit"}
"""Option of `docker run` to the key of a compose file that means the same."""


def _services(document: ConfigNode) -> Iterator[Container]:
    """Services of a compose file, as `docker run` would start them."""
    for service in _pairs(document, "services"):
        item = service.node
        options = {option: _said(_pair(item, key)) for option, key in _DOCKER_OPTIONS.items()}
        options["gpus"] = _reserved_gpus(item)
        words = [f"--{option}={value}" for option, value in options.items() if value]
        words += [f"--volume={_said(mount)}" for mount in _items(item, "volumes")]
        command = _pair(item, "command")
        run = _words(command)
        if len(run) == 1:
            run = ["bash", "-c", run[0]]
        yield Container(
            words=("docker", "run", *words, "image", *run),
            line=command.line if command else service.line,
            grants=Grants(),
            variables=_variables(item, "environment"),
        )


def _reserved_gpus(service: ConfigNode) -> str:
    """The number of GPUs that a service reserves, by a count or by their names; "" for none."""
    devices = _pair(service, "deploy", "resources", "reservations", "devices")
    if devices is None or not devices.node.items:
        return ""
    device = devices.node.items[0]
    listed = _items(device, "device_ids")
    return _said(_pair(device, "count")) or str(len(listed) or "")


def _variables(item: ConfigNode, name: str) -> tuple[tuple[str, str, int], ...]:
    """Plain variables, `N: V`, `N=V` or `{name: N, value: V}`."""
    found = [(pair.name, _said(pair), pair.line) for pair in _pairs(item, name)]
    for entry in _items(item, name):
        key, sign, text = _said(entry).partition("=")
        value = _pair(entry, "value")
        if value is not None:
            found.append((_said(_pair(entry, "name")), _said(value), value.line))
        elif sign:
            found.append((key, text, entry.line))
    return tuple(found)


def _nodes(document: ConfigNode) -> Iterator[ConfigNode]:
    """Every value of a document, outermost first; each object once."""
    queue = deque([document])
    seen: set[int] = set()
    while queue and len(seen) < _MOST_NODES:
        node = queue.popleft()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        queue.extend(pair.node for pair in node.pairs or ())
        queue.extend(node.items or ())


def _pair(node: ConfigNode | None, *names: str) -> ConfigPair | None:
    """The pair at a path of names."""
    pair: ConfigPair | None = None
    for name in names:
        pairs = (node.pairs if node else None) or ()
        pair = next((pair for pair in pairs if pair.name == name), None)
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
    if isinstance(node, ConfigPair):
        node = node.node
    value = node.value if node else None
    return "" if value is None or isinstance(value, bool) else str(value)


def _words(pair: ConfigPair | None) -> list[str]:
    """A list of words, or one plain value."""
    if pair is None:
        return []
    return [_said(word) for word in pair.node.items or [pair.node]]


def _container(item: ConfigNode, pod: ConfigNode, path: str, base: Grants, starter: str) -> Container:
    requests = {pair.name: pair for pair in _pairs(item, "resources", "requests")}
    limits = requests | {pair.name: pair for pair in _pairs(item, "resources", "limits")}
    asked = (_whole(pair) for name, pair in limits.items() if re.match(r"nvidia\.com/(gpu|mig-)", name))
    gpus = next(asked, None)
    grants = Grants(
        gpus_granted=gpus,
        gpus_origin=say("nvidia.com/gpu in {path}", path=path) if gpus is not None else "",
        cpus_granted=_cpus(_said(limits.get("cpu"))),
        memory_granted=byte_count(_said(limits.get("memory")), binary=False),
        shared_memory_granted=_shared_memory(item, pod) if gpus else None,
        lost=" ".join(_ephemeral(item, pod)),
    )
    command = _pair(item, "command")
    arguments = _pair(item, "args")
    first = command or arguments
    words = _words(command) + _words(arguments)
    return Container(
        words=tuple(word for word in words if word),
        line=first.line if first else 1,
        grants=grants.over(base),
        variables=_variables(item, "env"),
        starter=starter,
    )


def _ephemeral(item: ConfigNode, pod: ConfigNode) -> Iterator[str]:
    """Where volumes are mounted that end with the pod."""
    volumes = _items(pod, "volumes")
    gone = {_said(_pair(volume, "name")) for volume in volumes if _pair(volume, "emptyDir") is not None}
    for mount in _items(item, "volumeMounts"):
        if _said(_pair(mount, "name")) in gone:
            yield _said(_pair(mount, "mountPath")).rstrip("/")


def _cpus(text: str) -> float | None:
    """CPUs of `8`, `7.5` or `7500m`, thousandths."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,4})?)(m?)", text)
    if match is None:
        return None
    return float(match[1]) / (1000 if match[2] else 1)


_OWN_SHARED_MEMORY = 64 << 20
"""Bytes of a container's /dev/shm where nothing is mounted there: the default of containerd and of Docker."""


def _shared_memory(item: ConfigNode, pod: ConfigNode) -> int | None:
    """Bytes of /dev/shm: the limit of what is mounted there, else of the container's own; None: not limited."""
    mounts: list[str] = []
    for mount in _items(item, "volumeMounts"):
        if _said(_pair(mount, "mountPath")).rstrip("/") in {"/dev/shm", "/dev"}:
            mounts.append(_said(_pair(mount, "name")))
    if not mounts:
        host = _pair(pod, "hostIPC")
        shared = host is not None and host.node.value is True
        return None if shared else _OWN_SHARED_MEMORY
    for volume in _items(pod, "volumes"):
        if _said(_pair(volume, "name")) in mounts:
            return byte_count(_said(_pair(volume, "emptyDir", "sizeLimit")), binary=False)
    return None


_REPLICAS = ("pytorchReplicaSpecs", "mpiReplicaSpecs", "xgbReplicaSpecs", "tfReplicaSpecs")


def _replicas(document: ConfigNode) -> tuple[int | None, int | None]:
    """Nodes of a training operator's job, and ranks a node when it says them."""
    ranks = _whole(_pair(document, "spec", "nprocPerNode"))
    counts = _replica_counts(document)
    if counts:
        return sum(counts), ranks
    trainer = _pair(document, "spec", "trainer")
    if trainer is not None:
        return _whole(_pair(trainer.node, "numNodes")), _whole(_pair(trainer.node, "numProcPerNode"))
    if _pair(document, "spec", "template") and _said(_pair(document, "kind")) == "Job":
        return _whole(_pair(document, "spec", "parallelism")) or 1, ranks
    return None, ranks


def _replica_counts(document: ConfigNode) -> list[int]:
    """Pods of each kind of replica, and of each job of a JobSet; MPI's launcher trains nothing."""
    counts: list[int] = []
    for key in _REPLICAS:
        for replica in _pairs(document, "spec", key):
            if replica.node.pairs is not None and replica.name != "Launcher":
                counts.append(_whole(_pair(replica.node, "replicas")) or 1)
    spec = _pair(document, "spec")
    for job in _items(spec.node, "replicatedJobs") if spec else ():
        jobs = _whole(_pair(job, "replicas")) or 1
        pods = _whole(_pair(job, "template", "spec", "parallelism")) or 1
        counts.append(jobs * pods)
    return counts


def _whole(pair: ConfigPair | None) -> int | None:
    match = re.fullmatch(r"\s*(\d{1,6})\s*", _said(pair))
    return int(match[1]) if match else None
