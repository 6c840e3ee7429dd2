"""Who is near whom, as far as host names and addresses tell."""

import re
from collections import defaultdict
from collections.abc import Sequence

from gpudoctor.model.signs.preflight import PreflightNode


def domains(nodes: Sequence[PreflightNode]) -> dict[int, str]:
    """The domain of each node by index: the common beginning of host names or addresses; "" without one."""
    for key in (_name_stem, _subnet):
        found = {node.index: key(node) for node in nodes}
        sizes: dict[str, int] = defaultdict(int)
        for stem in found.values():
            sizes[stem] += 1
        together = sum(size for stem, size in sizes.items() if size > 1 and stem)
        if len(sizes) > 1 and 2 * together >= len(nodes):
            return found
    return {node.index: "" for node in nodes}


def _name_stem(node: PreflightNode) -> str:
    """`rack3-node07.cluster` is `rack3-node`: the host's name up to its last number."""
    host = node.name.split(".")[0]
    found = re.match(r"(.*?)\d+\D*$", host)
    return found.group(1) if found else host


def _subnet(node: PreflightNode) -> str:
    """The first three numbers of an IPv4 address; the first four groups of an IPv6 one."""
    if ":" in node.address:
        return ":".join(node.address.split(":")[:4])
    return node.address.rpartition(".")[0]


def natural_order(name: str) -> tuple[tuple[int, str], ...]:
    """A key by which `node2` comes before `node10`."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))
