"""Whether a program's batches have one shape, as far as the source says so."""

import ast
import re

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.networks import Network, network
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, Known, Script

_CROPS = re.compile(
    r"(torchvision\.transforms\.(v2\.)?|albumentations\.|kornia\.augmentation\.|monai\.transforms\.)"
    r"(RandomResizedCrop|CenterCrop|RandomCrop|Resize|RandomSizedCrop|RandSpatialCropd?|RandCropByPosNegLabeld)$"
)
_FIXED_DATASETS = re.compile(r"torchvision\.datasets\.(CIFAR10|CIFAR100|STL10|SVHN|FakeData)$")
_VARYING_CALLS = re.compile(
    r"(torch\.nn\.utils\.rnn\.(pad_sequence|pack_padded_sequence|pack_sequence)|torchvision\.models\.detection\..*|"
    r"torch_geometric\..*|dgl\..*|transformers\.DataCollator\w*|.*\.RandomResize|.*\.ScaleJitter)$"
)
"""Calls of programs whose shapes change, or may change, from step to step."""


def stable_network(program: Program, weights: float) -> tuple[Network, SourceSpan] | None:
    """The network of a program and what fixes the shape of its batches; None for a small one, and for shapes that vary.

    `weights`: fewer are small, in a network of the program's own.
    """
    built, shape = network(program), _fixed_shape(program)
    if built is None or shape is None or (built.tiny if built.library else built.parameters < weights):
        return None
    return built, shape


def _fixed_shape(program: Program) -> SourceSpan | None:
    """What says that every batch has the same shape; None when nothing does or something speaks against it."""
    found: SourceSpan | None = None
    for script in program.scripts:
        varying, span = _shape(script)
        if varying:
            return None
        found = found or span
    return found


@once
def _shape(script: Script) -> tuple[bool, SourceSpan | None]:
    """Whether shapes vary in a script, and the first place that fixes one."""
    found: SourceSpan | None = None
    for call in script.calls:
        if _VARYING_CALLS.match(call.name):
            return True, None
        padding = call.keywords.get("padding")
        tokens = isinstance(padding, Known) and padding.value in (True, "longest")
        if tokens and "token" in ast.unparse(call.node.func).lower():
            return True, None
        if found is None and _fixes(call):
            found = call.span
    return False, found


def _fixes(call: Call) -> bool:
    if _FIXED_DATASETS.match(call.name):
        return True
    if _CROPS.match(call.name):
        if call.method == "Resize":
            size = call.argument("size", 0)
            return (isinstance(size, Known) and isinstance(size.value, tuple)) or len(call.positional) > 1
        return True
    padding = call.keywords.get("padding")
    if isinstance(padding, Known) and padding.value == "max_length":
        return True
    packing = call.keywords.get("packing")
    return bool(isinstance(packing, Known) and packing.value is True)
