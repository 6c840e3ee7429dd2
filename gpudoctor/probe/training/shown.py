"""The first batch of a loader itself, small: only where the user asked to see it (`--show-data`)."""

from __future__ import annotations

import base64
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from . import Look, both

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..probe import Probe

HOOK = "shown"
_ROWS, _BYTES, _TOKENS = 8, 46_000, 256
"""Rows of a batch, bytes of their pictures, tokens of a row."""
_LOADERS = 4


class Shown(Look):
    """Writes the first batches down."""

    def again(self) -> None:
        """For a new recording nothing has been shown."""
        self._loaders: set[int] = set()

    def drawn(self, batch: Any) -> None:
        """A batch was drawn."""
        loader = self._probe.loaders.last
        if loader is None or loader.number in self._loaders or len(self._loaders) >= _LOADERS:
            return
        self._loaders.add(loader.number)
        fields = self._text(batch) or self._picture(batch)
        if fields:
            self._probe.record("shown", {"loader": loader.number, **fields})

    def _text(self, batch: Any) -> dict[str, Any]:
        """The rows in parts of one kind: trained or not."""
        ids: Any
        labels: Any
        ids, labels = (batch.get(name) if hasattr(batch, "get") else None for name in ("input_ids", "labels"))
        if not all(
            type(each) is self._probe.torch.Tensor and each.is_cpu and each.dim() == 2 for each in (ids, labels)
        ):
            return {}
        pairs = zip(ids[:_ROWS, :_TOKENS].tolist(), (labels[:_ROWS, :_TOKENS] >= 0).tolist())
        return {"text": [list(self._parts(zip(*pair))) for pair in pairs]}

    def _parts(self, row: Iterable[tuple[int, bool]]) -> Iterator[list[Any]]:
        for trained, part in groupby(row, key=itemgetter(1)):
            yield [self._words([token for token, _ in part]), trained]

    def _words(self, ids: list[int]) -> str:
        decode = getattr(self._probe.training["batches"].words.tokenizer, "decode", None)
        return str(decode(ids)) if decode is not None else " ".join(map(str, ids))

    def _picture(self, batch: Any) -> dict[str, Any]:
        """Rows of images, thinned out, in 256 steps between their least and greatest value."""
        torch = self._probe.torch
        parts = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, (list, tuple)) else [batch]
        fits = (part for part in parts if type(part) is torch.Tensor and part.is_cpu and part.dim() == 4)
        images = next((part for part in fits if part.numel() and {part.shape[1], part.shape[3]} & {1, 3}), None)
        if images is None:
            return {}
        images = images[:_ROWS] if images.shape[1] in (1, 3) else images[:_ROWS].permute(0, 3, 1, 2)
        side = int((_BYTES / 3 / images.shape[0]) ** 0.5)
        images = images[:, :, :: -(-images.shape[2] // side), :: -(-images.shape[3] // side)].to(torch.float32)
        low, high = (float(one) for one in images.nan_to_num(0.0, 0.0, 0.0).aminmax())
        scaled = ((images - low) * (255 / ((high - low) or 1.0))).round().nan_to_num(0.0).clamp(0, 255).to(torch.uint8)
        pixels = scaled.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous()
        pictures = [base64.b64encode(bytes(one.flatten().tolist())).decode() for one in pixels]
        return {"pictures": pictures, "height": pixels.shape[1], "width": pixels.shape[2]}


def install(probe: Probe) -> None:
    """Look at the first batches, if they are to be seen."""
    if probe.settings.get("show_data"):
        shown = probe.training[HOOK] = Shown(probe)
        probe.drawn = both(probe.drawn, probe.guard.reading(HOOK, shown.drawn))
