"""All objects of the process, counted between steps: for growth that no container with a name explains."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .probe import Probe

_TOLD = 12


class Census:
    """One count: a tenth of a second in a process of half a million objects; it keeps none of them."""

    def __init__(self, probe: Probe) -> None:
        kinds = {probe.torch.Tensor, probe.torch.nn.Parameter}
        objects = gc.get_objects()
        self.step = probe.steps.index
        self.types = Counter(map(type, objects))
        self.tensors: dict[tuple[Any, ...], list[int]] = {}
        for tensor in [found for found in objects if type(found) in kinds]:
            key = (tensor.device.type, tuple(tensor.shape), str(tensor.dtype), tensor.grad_fn is not None)
            entry = self.tensors.setdefault(key, [0, 0])
            entry[0] += 1
            entry[1] += tensor.numel() * tensor.element_size()


def growth(before: Census, now: Census) -> list[list[Any]]:
    """`[what, count, bytes, None, None]` of what grew by the step, the largest first."""
    least = max(6, (now.step - before.step) // 3)
    rows: list[list[Any]] = []
    for key, (count, size) in now.tensors.items():
        old = before.tensors.get(key, [0, 0])
        if count - old[0] >= least:
            device, shape, dtype, graph = key
            what = f"{device} tensors {shape} {dtype.replace('torch.', '')} {held(graph)}"
            rows.append([what, count - old[0], size - old[1], None, None])
    for kind, count in now.types.items():
        more = count - before.types.get(kind, 0)
        if more >= least and not issubclass(kind, (int, float, str, tuple, list, dict)):
            rows.append([f"{kind.__module__}.{kind.__qualname__}", more, None, None, None])
    rows.sort(key=lambda row: (-(row[2] or 0), -row[1]))
    return rows[:_TOLD]


def held(graph: bool) -> str:
    """How tensors are kept, in the words that the diagnosis reads."""
    return "with their graphs" if graph else "without graphs"
