"""Memory of a training job before it runs: `gpudoctor.estimate("7b", method="lora", gpu="24GiB")`.

The package itself can be called, so that `gpudoctor.estimate(...)` and `from gpudoctor.estimate import ...`
live under one name.
"""

import sys
from types import ModuleType
from typing import Any

from gpudoctor.estimate.api import estimate, estimate_job, from_numbers
from gpudoctor.estimate.gpus import COMMON, device, devices
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.presets import Preset, lookup, presets
from gpudoctor.estimate.result import CardReading, Device, Estimate, Instant, Line, Verdict
from gpudoctor.estimate.shapes import Latent, ModelShape, ParameterCounts

__all__ = [
    "COMMON", "CardReading", "Device", "Estimate", "Instant", "Latent", "Line", "ModelShape", "ParameterCounts",
    "Preset", "TrainingJob", "Verdict", "device", "devices", "estimate", "estimate_job", "from_numbers", "lookup",
    "presets",
]  # fmt: skip


class _Callable(ModuleType):
    """A module that forwards a call to its function of the same name (data model: a module's class)."""

    def __call__(self, *args: Any, **options: Any) -> Estimate:
        return estimate(*args, **options)


sys.modules[__name__].__class__ = _Callable
