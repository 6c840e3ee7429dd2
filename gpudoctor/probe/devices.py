"""What the probe must know of a device before it touches it: a graph in the making, and a parent's device."""

from __future__ import annotations

from typing import Any

_kept: list[Any] = []


def capturing(torch: Any, device: Any) -> bool:
    """Whether a graph is being captured on a device: whatever is called then becomes part of it."""
    if device.type == "cpu":
        return False
    asked = getattr(torch.get_device_module(device), "is_current_stream_capturing", None)
    return asked is not None and bool(asked())


def keep(*things: Any) -> None:
    """In a forked child: never free what is its parent's device's. Who frees pinned memory there dies."""
    _kept.append(things)
