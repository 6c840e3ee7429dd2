"""`DataLoader.num_workers`, `.pin_memory`, `.persistent_workers`, `.prefetch_factor`, `.batch_size`."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

from .patching import plain, wrap

if TYPE_CHECKING:
    from . import Trial

_SETTINGS: dict[str, Any] = {}
_NEED_WORKERS = ("persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout")


def apply(trial: Trial, detail: str, value: Any) -> None:
    """Change what loaders are made with; all overrides of loaders share one wrapper."""
    first = not _SETTINGS
    _SETTINGS[detail] = plain(value)
    if first:
        dataloader: Any = sys.modules["torch.utils.data.dataloader"]
        wrap(dataloader.DataLoader, "__init__", lambda original: _making(trial, original))


def _making(trial: Trial, original: Any) -> Any:
    names = list(inspect.signature(original).parameters)[1:]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = {**dict(zip(names, args)), **kwargs}
        original(self, **changed(trial, given))

    return __init__


def changed(trial: Trial, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a loader with the overrides in place; a stream's workers are its program's affair."""
    settings = dict(_SETTINGS)
    dataset = given.get("dataset")
    if "num_workers" in settings and isinstance(dataset, trial.torch.utils.data.IterableDataset):
        del settings["num_workers"]
    if given.get("batch_sampler") is not None or given.get("batch_size", 1) is None:
        settings.pop("batch_size", None)
    result = {**given, **settings}
    if not result.get("num_workers"):
        for name in _NEED_WORKERS:
            result.pop(name, None)
    for name in settings:
        if name in result:
            trial.reached(f"DataLoader.{name}")
    return result
