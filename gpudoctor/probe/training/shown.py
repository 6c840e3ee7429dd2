"""The first batch of a loader itself, small: only where the user asked to see it (`--show-data`)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

_ROWS, _BYTES, _TOKENS = 8, 46_000, 256
"""Rows of a batch, bytes of their pictures, tokens of a row."""


def shown(torch: Any, parts: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """The rows in parts of one kind, trained or not, or as pictures; empty for what is neither."""
    ids, labels = parts.get("input_ids"), parts.get("labels")
    if ids is not None and labels is not None and ids.dim() == labels.dim() == 2:
        rows = zip(ids[:_ROWS, :_TOKENS].tolist(), (labels[:_ROWS, :_TOKENS] >= 0).tolist())
        return {"text": [_text(zip(*row), getattr(tokenizer, "decode", None)) for row in rows]}
    fits = (part for part in parts.values() if part.dim() == 4 and {part.shape[1], part.shape[3]} & {1, 3})
    images = next(fits, None)
    return _pictures(torch, images[:_ROWS]) if images is not None else {}


def _text(row: Any, decode: Any) -> list[list[Any]]:
    parts = ((trained, [token for token, _ in part]) for trained, part in groupby(row, key=itemgetter(1)))
    return [[str(decode(ids)) if decode is not None else " ".join(map(str, ids)), trained] for trained, ids in parts]


def _pictures(torch: Any, images: Any) -> dict[str, Any]:
    """Images, thinned out, in 256 steps between their least and greatest value."""
    images = images if images.shape[1] in (1, 3) else images.permute(0, 3, 1, 2)
    side = int((_BYTES / 3 / images.shape[0]) ** 0.5)
    images = images[:, :, :: -(-images.shape[2] // side), :: -(-images.shape[3] // side)].to(torch.float32)
    images = images.nan_to_num(0.0, 0.0, 0.0)
    low, high = (float(one) for one in images.aminmax())
    scaled = ((images - low) * (255 / ((high - low) or 1.0))).round().to(torch.uint8)
    pixels = scaled.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous()
    pictures = [base64.b64encode(bytes(one.flatten().tolist())).decode() for one in pixels]
    return {"pictures": pictures, "height": pixels.shape[1], "width": pixels.shape[2]}
