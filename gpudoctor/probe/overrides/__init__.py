"""Overrides of a trial: one setting of the user's program changed at run time, without an edit of a file.

Loaded only when GPUDOCTOR_OVERRIDES is set (JSON: name to value). A name is `topic` or `topic.detail`; its
topic leads to a function `apply...(trial, detail, value)`. An override that found its place says so in the
recording (`override` records), so that a trial without an effect is told from one that changed nothing.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..wire.masking import mask_cut

if TYPE_CHECKING:
    from ..probe import Probe

VARIABLE = "GPUDOCTOR_OVERRIDES"

TOPICS = {
    "DataLoader": (".settings", "apply_loader"),
    "TrainingArguments": (".settings", "apply_training_arguments"),
    "offline": (".offline", "apply"),
    "replay": (".first_nonfinite", "apply"),
    "torch": (".settings", "apply_torch"),
    "trial": (".bounds", "apply"),
}
"""Topic to module and function."""


class Trial:
    """What overrides share."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.torch = probe.torch
        self._told: set[str] = set()

    def reached(self, name: str, **fields: Any) -> None:
        """An override has changed something; told once."""
        if name not in self._told:
            self._told.add(name)
            self.probe.record("override", {"name": name, "reached": True, **fields})

    def failed(self, name: str, error: BaseException) -> None:
        """An override could not be put in place."""
        self.probe.record(
            "override", {"name": name, "reached": False, "error": mask_cut(f"{type(error).__name__}: {error}", 300)}
        )


def install(probe: Probe) -> None:
    """Put the overrides of the environment in place; torch has been imported."""
    trial, table = Trial(probe), json.loads(os.environ[VARIABLE])
    for name, value in table.items():
        topic, _, detail = name.partition(".")
        try:
            module, function = TOPICS[topic]
            getattr(importlib.import_module(module, __name__), function)(trial, detail, value)
        except Exception as error:  # the arm is told to have failed, not the user's program
            trial.failed(name, error)


def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
    """Put `make(original)` in the place of an attribute; False where there is none."""
    original = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if original is None:
        return False
    new = make(original)
    try:
        functools.update_wrapper(new, original)
    except (AttributeError, TypeError):
        pass
    setattr(owner, name, new)
    return True
