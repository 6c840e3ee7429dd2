"""The first batch of a loader itself, small: only where the user asked to see it (`--show-data`)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

_ROWS = 8
"""Rows of a batch."""
_BYTES = 46_000
"""Bytes of their pictures, of three colours a pixel, before they are written as text."""
_TOKENS = 256
"""Tokens of a row."""


def shown(torch: Any, parts: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """The rows in parts of one kind, trained or not, or as pictures; empty for what is neither."""
    ids = parts.get("input_ids")
    labels = parts.get("labels")
    if ids is not None and labels is not None and ids.dim() == labels.dim() == 2:
        decode = getattr(tokenizer, "decode", None)
        tokens = ids[:_ROWS, :_TOKENS].tolist()
        trained = (labels[:_ROWS, :_TOKENS] >= 0).tolist()
        rows = zip(tokens, trained)
        return {"text": [_text(zip(*row), decode) for row in rows]}
    for part in parts.values():
        if _is_images(part):
            return _pictures(torch, part[:_ROWS])
    return {}


def _is_images(part: Any) -> bool:
    """Whether a tensor has one colour or three, which come before height and width or after them."""
    if part.dim() != 4:
        return False
    _, before, _, after = part.shape
    return before in (1, 3) or after in (1, 3)


def _text(row: Any, decode: Any) -> list[list[Any]]:
    """`[text, trained]` of each part of a row of tokens that is trained as a whole, or not."""
    found: list[list[Any]] = []
    for trained, part in groupby(row, key=itemgetter(1)):
        ids = [token for token, _ in part]
        if decode is not None:
            text = str(decode(ids))
        else:
            text = " ".join(map(str, ids))
        found.append([text, trained])
    return found


def _pictures(torch: Any, images: Any) -> dict[str, Any]:
    """Images, thinned out, in 256 steps between their least and greatest value."""
    if images.shape[1] not in (1, 3):
        images = images.permute(0, 3, 1, 2)
    count, _, height, width = images.shape
    # Pixels of a square picture's side; every so many rows and columns are kept that none is larger.
    side = int((_BYTES / 3 / count) ** 0.5)
    rows = -(-height // side)
    columns = -(-width // side)
    images = images[:, :, ::rows, ::columns].to(torch.float32)
    images = images.nan_to_num(0.0, 0.0, 0.0)
    low, high = (float(one) for one in images.aminmax())
    # All alike: any span will do.
    span = (high - low) or 1.0
    scaled = ((images - low) * (255 / span)).round().to(torch.uint8)
    # One colour becomes three alike.
    pixels = scaled.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous()
    pictures = []
    for one in pixels:
        colours = bytes(one.flatten().tolist())
        pictures.append(base64.b64encode(colours).decode())
    return {"pictures": pictures, "height": pixels.shape[1], "width": pixels.shape[2]}
