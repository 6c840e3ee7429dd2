"""How large a batch is: rows, tokens, padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..table import AT

if TYPE_CHECKING:
    from ..probe import Probe

_SAMPLES, _TOKENS, _PADDING = (AT[name] for name in ("samples", "tokens", "padding"))


class Measure:
    """Counts the rows and tokens of a batch. Only plain tensors are asked: a subclass may compute."""

    def __init__(self, probe: Probe) -> None:
        self._clock = probe.clock
        self._numerics = probe.numerics
        self._plain = probe.torch.Tensor
        self._last: tuple[tuple[int, float], ...] = ()

    def of(self, batch: Any) -> None:
        """Add a batch to the row of the step."""
        self._last = ()
        self._measure(batch)
        self._numerics.losses.drawn(batch)

    def as_ever(self, batch: Any, row: list[float]) -> None:
        """Add a batch to a row: its own size where that is quick to know, else those of the last one."""
        kind = type(batch)
        if (kind is list or kind is tuple) and batch and type(batch[0]) is self._plain and batch[0].dim():
            before, rows = row[_SAMPLES], self._rows(batch[0], batch)
            row[_SAMPLES] = rows if before != before else before + rows
            return
        for column, amount in self._last:
            before = row[column]
            row[column] = amount if before != before else before + amount

    def _measure(self, batch: Any) -> None:
        plain = self._plain
        kind = type(batch)
        if kind is list or kind is tuple:
            first: Any = batch[0] if batch else None
            if type(first) is plain and first.dim():
                self._add(_SAMPLES, self._rows(first, batch))
                return
        ids: Any = None
        mask: Any = None
        if isinstance(batch, Mapping):
            ids, mask = batch.get("input_ids"), batch.get("attention_mask")
        first = ids if type(ids) is plain else self._first(batch, 4)
        if first is None or not first.dim():
            return
        self._add(_SAMPLES, self._rows(first, batch))
        if type(ids) is plain:
            self._add(_TOKENS, ids.numel())
            if type(mask) is plain and mask.device.type == "cpu":
                self._add(_PADDING, mask.numel() - int(mask.count_nonzero()))

    def _rows(self, first: Any, batch: Any) -> int:
        """Rows of a batch: the length of its first tensor. Where that is flat (texts end to end, beside where
        each begins and their labels) or in a list of its own (images of many sizes), what most parts agree on.
        """
        if first is batch:
            return int(first.size(0))
        parts = tuple(batch.values()) if isinstance(batch, Mapping) else batch
        if any(part is first for part in parts) and (first.dim() > 1 or len(parts) < 3):
            return int(first.size(0))
        lengths = [first.size(0)]
        for part in parts:
            if type(part) is self._plain and part.dim() and part is not first:
                lengths.append(part.size(0))
            elif isinstance(part, (list, tuple)):
                lengths.append(len(part))
        return int(max(lengths, key=lengths.count))

    def _add(self, column: int, amount: float) -> None:
        self._last += ((column, amount),)
        row = self._clock.row
        before = row[column]
        row[column] = amount if before != before else before + amount

    def _first(self, batch: Any, depth: int) -> Any:
        if type(batch) is self._plain:
            return batch
        if depth and isinstance(batch, (list, tuple, Mapping)):
            values = batch.values() if isinstance(batch, Mapping) else batch
            for value in values:
                return self._first(value, depth - 1)
        return None
