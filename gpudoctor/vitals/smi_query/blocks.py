"""The text and the XML of `nvidia-smi -q` as trees, a GPU each, once or again and again (`-l`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from gpudoctor.lang import say
from gpudoctor.model.external_files import RefusedFile
from gpudoctor.model.read_limits import SMI_DEPTH, SMI_VALUES

LISTING = "NVSMI LOG"
"""What stands above each turn of the text."""
XML_ROOT = "nvidia_smi_log"
_XML_HEAD = re.compile(rf"\s*(?:<\?xml[^>]{{0,200}}>\s*)?(?:<!DOCTYPE\s+{XML_ROOT}\b|<{XML_ROOT}\b)")
_GPU = re.compile(r"\s{0,64}GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{1,32})\s*$")
_ADDRESS = r"(?:GPU ?)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
_NO_HANDLE = re.compile(rf"Unable to determine the device handle for {_ADDRESS}: (.{{1,200}})")
_INFOROM = re.compile(rf"WARNING: infoROM is corrupted at gpu {_ADDRESS}", re.IGNORECASE)


@dataclass(slots=True)
class QueryNode:
    """A section or a value."""

    name: str
    """Small letters and underscores, as the XML has it: `fb_memory_usage`."""
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


def is_xml(head: str) -> bool:
    """Whether a text begins as the XML of `nvidia-smi -q -x` does."""
    return _XML_HEAD.match(head.removeprefix("\ufeff")) is not None


def blocks_of(lines: Iterator[str], *, xml: bool) -> Iterator[GpuBlock]:
    """The GPUs of a file in its order. Raises `Refused` for XML that is broken or that declares entities."""
    return _of_xml(lines) if xml else _of_text(lines)


def named(words: str) -> str:
    """A name of the text as the XML writes such names: `FB Memory Usage` is `fb_memory_usage`."""
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def _of_text(lines: Iterator[str]) -> Iterator[GpuBlock]:
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


def _of_xml(lines: Iterator[str]) -> Iterator[GpuBlock]:
    """One document after another, as `-l` writes them; what is read of one is dropped at each GPU's end."""
    head, root = QueryNode("head"), None
    parser: ElementTree.XMLPullParser[Any] | None = None
    depth = values = 0
    for line in lines:
        if (aside := _aside(line, head)) is not None:
            yield aside
            continue
        if parser is None:
            if not (line := line.lstrip(" \t\r\n\ufeff")):
                continue
            head, root, values = QueryNode("head"), None, 0
            parser = ElementTree.XMLPullParser(["start", "end"])
        if "<!ENTITY" in line or ("<!DOCTYPE" in line and "[" in line):
            raise RefusedFile("its XML declares an entity, which nvidia-smi never writes")
        try:
            parser.feed(line)
            events: list[Any] = list(parser.read_events())
        except ElementTree.ParseError as error:
            raise RefusedFile(say("its XML is broken: {error}", error=error)) from None
        for event, element in events:
            depth += 1 if event == "start" else -1
            values += event == "start"
            root = element if root is None else root
            if depth > SMI_DEPTH.most:
                raise RefusedFile(say("it has {words}", words=SMI_DEPTH.words))
            if values > SMI_VALUES.most:
                raise RefusedFile(say("it has {words}", words=SMI_VALUES.words))
            if event == "end" and depth == 1:
                if element.tag == "gpu":
                    yield GpuBlock(address=element.get("id", ""), head=head, gpu=_node(element))
                    values = 0
                else:
                    head.children.append(_node(element))
                if root is not None:
                    root.clear()
            elif depth == 0:
                parser = None
    if parser is not None:
        raise RefusedFile("its XML is cut short; save the output of nvidia-smi again")


def _node(element: ElementTree.Element) -> QueryNode:
    value = " ".join((element.text or "")[:4096].split())
    return QueryNode(element.tag, value, [_node(child) for child in element])
