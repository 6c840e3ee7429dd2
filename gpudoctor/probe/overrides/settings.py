"""Overrides of one setting each: of loaders, torch and transformers' TrainingArguments.

Each `apply_...(trial, detail, value)` serves one topic of `TOPICS`. What an edit can do a trial does by the edit.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import TYPE_CHECKING, Any

from . import wrap

if TYPE_CHECKING:
    from . import Trial


def truth(value: Any) -> bool:
    """A setting's text as a truth value: `False`, `0`, `off`, `no` and nothing are false."""
    return str(value).strip().lower() not in {"false", "0", "off", "no", "none", ""}


def plain(value: Any) -> Any:
    """A setting's text as a Python value: number, truth value, None, or the text itself."""
    if not isinstance(value, str):
        return value
    words = {"true": True, "false": False, "none": None, "null": None}
    if value.strip().lower() in words:
        return words[value.strip().lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


# `DataLoader.num_workers`, `.pin_memory`, `.persistent_workers`, `.prefetch_factor`, `.batch_size`.

_LOADER_SETTINGS: dict[str, Any] = {}
_KEPT: Any = weakref.WeakSet()
"""Loaders whose workers live on because a trial says so."""
_NEED_WORKERS = ("persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout")


def apply_loader(trial: Trial, detail: str, value: Any) -> None:
    """Change what loaders are made with; all overrides of loaders share one wrapper."""
    _LOADER_SETTINGS[detail] = plain(value)
    if len(_LOADER_SETTINGS) > 1:
        return
    torch = trial.torch

    def making(original: Any) -> Any:
        names = list(inspect.signature(original).parameters)[1:]

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            given = {**dict(zip(names, args)), **kwargs}
            settings = changed_loader(trial, given)
            original(self, **settings)
            if settings.get("persistent_workers") and not given.get("persistent_workers"):
                _KEPT.add(self)

        return __init__

    def drawing(original: Any) -> Any:
        # torch draws no number where workers live on. Without it a shuffle has another order from the second epoch
        # on, and the loss moves for no other reason.
        def __iter__(self: Any) -> Any:
            if self in _KEPT and getattr(self, "_iterator", None) is not None:
                torch.empty((), dtype=torch.int64).random_(generator=self.generator)
            return original(self)

        return __iter__

    dataloader: Any = sys.modules["torch.utils.data.dataloader"]
    wrap(dataloader.DataLoader, "__init__", making)
    wrap(dataloader.DataLoader, "__iter__", drawing)


def changed_loader(trial: Trial, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a loader with the overrides in place; a stream's workers are its program's affair."""
    settings = dict(_LOADER_SETTINGS)
    if isinstance(given.get("dataset"), trial.torch.utils.data.IterableDataset):
        settings.pop("num_workers", None)
    if given.get("batch_sampler") is not None or given.get("batch_size", 1) is None:
        settings.pop("batch_size", None)
    result = {**given, **settings}
    if not result.get("num_workers"):
        result = {name: value for name, value in result.items() if name not in _NEED_WORKERS}
    for name in settings.keys() & result.keys():
        trial.reached(f"DataLoader.{name}")
    return result


# `torch.<attribute>`, `torch.float32_matmul_precision`, `torch.num_threads`.


def apply_torch(trial: Trial, detail: str, value: Any) -> None:
    """Set it now and again after the first step: what the program sets itself is what is being tried out."""
    torch: Any = trial.torch
    *path, last = detail.split(".")
    for name in path:
        torch = getattr(torch, name)

    def setter() -> None:
        if detail == "use_deterministic_algorithms":
            torch.use_deterministic_algorithms(truth(value))
        elif hasattr(torch, f"set_{detail}"):  # float32_matmul_precision, num_threads
            getattr(torch, f"set_{detail}")(plain(value))
        else:
            getattr(torch, last)  # an AttributeError says that there is no such switch
            setattr(torch, last, plain(value))

    def stepped() -> None:
        if trial.probe.steps.index == 1:
            setter()
            trial.reached(f"torch.{detail}")

    setter()
    trial.probe.steps.after.append(stepped)


def apply_training_arguments(trial: Trial, detail: str, value: Any) -> None:
    """Set the field before the arguments check themselves; subclasses (trl) go the same way."""

    def make(original: Any) -> Any:
        def __post_init__(self: Any) -> None:
            if not hasattr(self, detail):
                raise AttributeError(f"TrainingArguments has no {detail}")
            setattr(self, detail, plain(value))
            trial.reached(f"TrainingArguments.{detail}")
            original(self)

        return __post_init__

    trial.probe.when_imported(
        "transformers.training_args", lambda module: wrap(module.TrainingArguments, "__post_init__", make)
    )
