"""The parent's side of the GPU sampler: starts the child, takes its newest reading, never waits for it."""

import sys
from collections.abc import Mapping
from typing import Any

from gpudoctor.vitals.nvml import sampling
from gpudoctor.vitals.nvml.child_feed import ChildFeed

_LONGEST = 1 << 20
"""Bytes of one line of the child; a longer one is none of ours."""


class GpuFeed:
    """Readings of the GPUs that the command sees. Every method returns at once."""

    def __init__(self, environment: Mapping[str, str], interval: float = 1.0) -> None:
        self.facts: list[dict[str, Any]] | None = None
        """Name, `bytes` and `power_limit` of each GPU; None until the driver has answered."""
        self._child: ChildFeed | None = None
        if sys.platform == "win32":  # no pipe there can be asked without waiting
            self.facts = []
            return
        visible = environment.get("CUDA_VISIBLE_DEVICES", "all") or "-"
        order = environment.get("CUDA_DEVICE_ORDER", "")
        words = (str(sampling.__file__), visible, order, str(interval))
        try:
            self._child = ChildFeed(*words, longest=_LONGEST, environment=environment)
        except OSError:
            self.facts = []

    def latest(self) -> list[dict[str, float]]:
        """The newest sample of each GPU since the last call; empty when there is none."""
        newest: list[dict[str, float]] = []
        if self._child is None:
            return newest
        for record in self._child.records():
            if record.get("record") == "gpus":
                self.facts = list(record["gpus"])
            elif record.get("record") == "sample":
                newest = list(record["gpus"])
        if self._child.ended and self.facts is None:  # there is no driver, or no GPU
            self.facts = []
        return newest

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()
