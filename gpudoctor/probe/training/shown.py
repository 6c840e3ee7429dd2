"""The first batch of a loader itself, small: only where the user asked to see it (`--show-data`)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

_ROWS = 8
"""Rows of a batch."""
_TOKENS = 256
"""Tokens of a row."""


def shown(parts: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """The rows of tokens in parts of one kind, trained or not; empty for what has none."""
    ids = parts.get("input_ids")
    labels = parts.get("labels")
    if ids is not None and labels is not None and ids.dim() == labels.dim() == 2:
        decode = getattr(tokenizer, "decode", None)
        tokens = ids[:_ROWS, :_TOKENS].tolist()
        trained = (labels[:_ROWS, :_TOKENS] >= 0).tolist()
        rows = zip(tokens, trained)
        return {"text": [_text(zip(*row), decode) for row in rows]}
    return {}


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
