"""Batches of the watched steps: what is not finite in them, and which items of the data set it came from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..overrides.patching import wrap
from ..wire.masking import mask_cut
from .origins import Origin
from .pytree import bad_count, badness, named_tensors
from .stack import here

if TYPE_CHECKING:
    from .watch import Watch

_DRAWN = "_gpudoctor_drawn"
_ROWS = 8


class Batches:
    """Looks at what loaders give while the watch is on."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.watch: Watch | None = None

    def install(self) -> None:
        """Wrap the iterators of `DataLoader`."""
        dataloader: Any = sys.modules["torch.utils.data.dataloader"]
        wrap(dataloader._BaseDataLoaderIter, "_next_index", _remembering)
        wrap(dataloader._BaseDataLoaderIter, "__next__", self._drawing)

    def _drawing(self, original: Any) -> Any:
        def __next__(iterator: Any) -> Any:
            batch = original(iterator)
            number = iterator.__dict__.setdefault("_gpudoctor_given", [0])
            number[0] += 1
            watch = self.watch
            if watch is not None and not watch.broken:
                try:
                    self._look(watch, batch, _indices(iterator, number[0] - 1))
                except Exception as error:
                    watch.broken = mask_cut(f"a batch: {type(error).__name__}: {error}", 200)
            return batch

        return __next__

    def _look(self, watch: Watch, batch: Any, indices: list[Any]) -> None:
        torch = self._torch
        for name, tensor in named_tensors(torch, batch):
            word = badness(torch, tensor)
            if not word:
                continue
            fields: dict[str, Any] = {
                "kind": "batch", "name": name, "value": word, "phase": "loader", "operation": "",
                "operator": "",
                "dtype": str(tensor.dtype).replace("torch.", ""), "shape": list(tensor.shape),
                "bad": bad_count(torch, tensor), "of": tensor.numel(), "module": None, "module_class": None,
                "step": watch.step, **watch.spots.of(here()),
            }  # fmt: skip
            rows = fields["rows"] = _bad_rows(torch, tensor)
            if len(indices) == (tensor.shape[0] if tensor.dim() else 0):
                fields["items"] = [int(indices[row]) for row in rows if isinstance(indices[row], int)]
            watch.labels.put(tensor, Origin(watch.number, word == "-inf", fields))


def _remembering(original: Any) -> Any:
    """Indices are drawn ahead of the batches where there are workers; the order is the same."""

    def _next_index(iterator: Any) -> Any:
        found = original(iterator)
        drawn = iterator.__dict__.setdefault(_DRAWN, [])
        drawn.append(found)
        return found

    return _next_index


def _indices(iterator: Any, number: int) -> list[Any]:
    """Indices of one batch; empty where there are none (a stream), and those before it are let go."""
    drawn = iterator.__dict__.get(_DRAWN) or []
    given = drawn[number] if number < len(drawn) else None
    if number < len(drawn):
        drawn[:number] = [None] * number
    return list(given) if isinstance(given, (list, tuple)) else []


def _bad_rows(torch: Any, tensor: Any) -> list[int]:
    """Rows that hold a value which is not finite: the first few."""
    if not tensor.dim():
        return []
    bad = ~torch.isfinite(tensor)
    rows = bad.reshape(tensor.shape[0], -1).any(dim=1) if tensor.numel() else bad
    return [int(row) for row in torch.nonzero(rows).flatten()[:_ROWS]]
