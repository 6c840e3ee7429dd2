"""What the graph behind a loss says of it: whether what is normalised by the loss was normalised before, and
whether a softmax has a single score to choose from.

Only the names of the graph's nodes and their links are read, never a value: nothing waits for a device.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

_LOSSES = {
    "LogSoftmaxBackward0": ("SoftmaxBackward0", "LogSoftmaxBackward0"),
    "BinaryCrossEntropyWithLogitsBackward0": ("SigmoidBackward0",),
}
"""Nodes of losses that normalise their input, and what must not have made it."""
_KINDS = {"SoftmaxBackward0": "softmax", "LogSoftmaxBackward0": "log_softmax", "SigmoidBackward0": "sigmoid"}
_SOFTMAX = ("SoftmaxBackward0", "LogSoftmaxBackward0")
_UNSIGNED = 1 << 63
"""From here on a saved dimension is a negative one."""
_SHAPES = frozenset(
    {"ViewBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0", "TransposeBackward0", "PermuteBackward0",
     "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0", "SliceBackward0", "SelectBackward0",
     "ToCopyBackward0", "CloneBackward0", "AliasBackward0", "TBackward0", "IndexBackward0", "CatBackward0",
     "StackBackward0", "AsStridedBackward0"}
)  # fmt: skip
"""Nodes that move values without changing them."""
_NODES, _DEPTH, _INPUTS = 64, 12, 4
"""Nodes behind a loss that are looked at, links up to the loss's own node, moves behind that."""
LOOKS, TELL = 24, 8
"""Graphs of a process that are looked at; after so many with such a loss it is told."""


class Graphs:
    """Counts graphs whose loss normalises, and those whose input was normalised before."""

    def __init__(self) -> None:
        self._looks = 0
        self.losses = 0
        self.found: dict[str, int] = {}
        self.looks = 0
        """Graphs that were looked at whole."""
        self.single = self.closed = 0
        """Those with a softmax over one score, and those in which nothing learns but through one."""
        self._due = False

    def look(self, root: Any) -> bool:
        """Look at the graph of a loss; whether it is time to tell what was found."""
        if self._looks >= LOOKS:
            return False
        self._looks += 1
        found = single_score(root.grad_fn)
        self.looks += root.grad_fn is not None
        self.single += found is not None
        self.closed += found is True
        self._due = found is not None and self.single == self.looks and self.looks in (TELL, LOOKS)
        kinds = normalised(root.grad_fn)
        if kinds is None:
            return False
        self.losses += 1
        for kind in kinds:
            self.found[kind] = self.found.get(kind, 0) + 1
        return self.losses in (TELL, LOOKS)

    def single_due(self) -> bool:
        """Whether it is time to tell of softmaxes over one score: there was one in each graph."""
        due, self._due = self._due, False
        return due


def single_score(top: Any) -> bool | None:
    """Whether all that learns from a loss learns through a softmax over one score, which gives one for any.

    None without such a softmax among the first nodes; False where some parameter is reached beside it.
    """
    found, whole, level, seen = False, True, [top], 0
    for _ in range(_DEPTH):
        below: list[Any] = []
        for node in level:
            if node is None:
                continue
            seen += 1
            if seen > _NODES or type(node).__name__ == "AccumulateGrad":
                whole = False
                if seen > _NODES:
                    break
            elif _of_one(node):
                found = True
            else:
                below += [item[0] for item in node.next_functions]
        level = below
    return whole and not any(node is not None for node in level) if found else None


def _of_one(node: Any) -> bool:
    """Whether a node is a softmax over a dimension that holds one number."""
    if type(node).__name__ not in _SOFTMAX:
        return False
    made, dim = getattr(node, "_input_metadata", None), getattr(node, "_saved_dim", None)
    if not made or dim is None:
        return False
    shape = made[0].shape
    dim = dim - 2 * _UNSIGNED if dim >= _UNSIGNED else dim
    return bool(-len(shape) <= dim < len(shape)) and int(shape[dim]) == 1


def behind(top: Any, stops: Container[str] = ()) -> Iterator[Any]:
    """The nodes behind a loss, its own first, a level at a time; not what lies behind those named `stops`."""
    level, seen = [top], 0
    for _ in range(_DEPTH):
        below: list[Any] = []
        for node in level:
            seen += 1
            if node is None or seen > _NODES:
                continue
            yield node
            if type(node).__name__ not in stops:
                below += [item[0] for item in node.next_functions]
        level = below


def normalised(top: Any) -> set[str] | None:
    """By what the input of a loss that normalises was normalised before; None without such a loss."""
    loss = False
    kinds: set[str] = set()
    for node in behind(top, _LOSSES):
        wanted = _LOSSES.get(type(node).__name__)
        if wanted is not None:
            loss = True
            given = node.next_functions
            kind = _made(given[0][0] if given else None, wanted)
            if kind:
                kinds.add(kind)
    return kinds if loss else None


def _made(node: Any, wanted: Container[str]) -> str:
    """What made a loss's input, through moves; "" for anything else."""
    found = moved_by(node, wanted)
    # Over the first dimension it weighs the samples of a batch.
    return "" if found is None or getattr(found, "_saved_dim", None) == 0 else _KINDS[type(found).__name__]


def moved_by(node: Any, wanted: Container[str]) -> Any:
    """The node of a wanted name whose values a node gives on, at most moved; None for anything else."""
    for _ in range(_INPUTS):
        name = type(node).__name__
        if name in wanted:
            return node
        if node is None or name not in _SHAPES:
            break
        node = node.next_functions[0][0]
    return None
