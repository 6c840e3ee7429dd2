"""Phases of a step and columns of the table of steps (docs/recording.md)."""

from __future__ import annotations

PHASES = (
    "data_wait", "transfer", "forward", "backward", "optimizer", "sync", "logging", "checkpoint",
    "evaluation", "profiler", "collective",
)  # fmt: skip
"""Phases of the main thread, exclusive; the rest of a step is `other`."""
DEVICE = (
    "device_transfer", "device_forward", "device_backward", "device_optimizer", "device_collective",
    "device_busy", "device_idle",
)  # fmt: skip
"""Seconds by the device's clock, which times some of the steps only."""
COUNTS = (
    "backwards", "batches", "samples", "tokens", "padding", "reads", "logs", "saves", "flushes", "syncs",
    "collectives", "starts",
)  # fmt: skip
MEMORY = ("allocated", "reserved", "peak", "rss")
"""Bytes at the end of the row."""
NUMBERS = ("loss", "grad_norm", "scale", "lr")
"""What was read of tensors and of the optimizer: infinity and every sign may be the truth."""

COLUMNS: tuple[tuple[str, str], ...] = (
    ("index", "I"), ("count", "I"), ("t", "d"), ("duration", "f"), ("longest", "f"),
    *((name, "f") for name in PHASES + DEVICE + COUNTS), *((name, "d") for name in MEMORY),
    *((name, "f") for name in NUMBERS), ("probe", "f"),
)  # fmt: skip
"""Name and type code of every column that the probe writes, in the order of a row."""
