"""The text of `nvidia-smi -q` as trees, a GPU each, once or again and again (`-l`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpudoctor.lang import say
from gpudoctor.model.external_files import RefusedFile
from gpudoctor.model.read_limits import SMI_VALUES

LISTING = "NVSMI LOG"
"""What stands above each turn of the text."""
_GPU = re.compile(r"\s{0,64}GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{1,32})\s*$")
_ADDRESS = r"(?:GPU ?)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
_NO_HANDLE = re.compile(rf"Unable to determine the device handle for {_ADDRESS}: (.{{1,200}})")
_INFOROM = re.compile(rf"WARNING: infoROM is corrupted at gpu {_ADDRESS}", re.IGNORECASE)


@dataclass(slots=True)
class QueryNode:
    """A section or a value."""

    name: str
    """Small letters and underscores: `fb_memory_usage`."""
    value: str = ""
    children: list["QueryNode"] = field(default_factory=list)

    def at(self, path: str) -> Iterator["QueryNode"]:
        """Every node at a path of names, such as `ecc_mode/current_ecc`."""
        level = [self]
        for name in path.split("/"):
            level = [child for node in level for child in node.children if child.name == name]
        yield from level

    def text(self, *paths: str) -> str | None:
        """The value at the first of some paths that is there."""
        return next((node.value for path in paths for node in self.at(path)), None)


@dataclass(slots=True)
class GpuBlock:
    """What one turn says of one GPU."""

    address: str
    """`00000000:3B:00.0`, as it stands."""
    head: QueryNode
    """What stands above the GPUs: `timestamp`, `driver_version`, `cuda_version`, `attached_gpus`."""
    gpu: QueryNode
    error: str = ""
    """Why the driver gave no handle for this GPU; its tree is empty then."""
    inforom_corrupt: bool = False
    """A warning of nvidia-smi that stands outside the trees; its tree is empty then."""


def named(words: str) -> str:
    """A name in small letters and underscores: `FB Memory Usage` is `fb_memory_usage`."""
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def blocks_of(lines: Iterator[str]) -> Iterator[GpuBlock]:
    """The GPUs of a file in its order."""
    head, block = QueryNode("head"), None
    stack: list[tuple[int, QueryNode]] = []
    values = 0
    for line in lines:
        if found := _GPU.match(line):
            if block is not None:
                yield block
            block = GpuBlock(address=found[1], head=head, gpu=QueryNode("gpu"))
            stack, values = [(line.index("GPU"), block.gpu)], 0
            continue
        if LISTING in line:
            if block is not None:
                yield block
            head, block, stack = QueryNode("head"), None, []
            continue
        if (aside := _aside(line, head)) is not None:
            yield aside
            continue
        words, colon, value = line.partition(" :")
        if not words.strip() or (value and not value[0].isspace()):
            continue
        node = QueryNode(named(words), value.strip() if colon else "")
        depth = len(line) - len(line.lstrip())
        while stack and stack[-1][0] >= depth and len(stack) > (block is not None):
            stack.pop()
        (stack[-1][1] if stack else head).children.append(node)
        if block is not None:
            stack.append((depth, node))
        if (values := values + 1) > SMI_VALUES.most:
            raise RefusedFile(say("it has {words}", words=SMI_VALUES.words))
    if block is not None:
        yield block


def _aside(line: str, head: QueryNode) -> GpuBlock | None:
    """A line of nvidia-smi about one GPU that is no part of its listing."""
    if found := _NO_HANDLE.search(line):
        return GpuBlock(address=found[1], head=head, gpu=QueryNode("gpu"), error=found[2].strip())
    if found := _INFOROM.search(line):
        return GpuBlock(address=found[1], head=head, gpu=QueryNode("gpu"), inforom_corrupt=True)
    return None
