"""`TrainingArguments.<field>`: arguments of transformers' and trl's trainers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .patching import plain, wrap

if TYPE_CHECKING:
    from . import Trial

_FIELDS: dict[str, Any] = {}


def apply(trial: Trial, detail: str, value: Any) -> None:
    """Set the field before the arguments check themselves; subclasses (trl) go the same way."""
    first = not _FIELDS
    _FIELDS[detail] = plain(value)
    if first:
        trial.probe.when_imported("transformers.training_args", lambda module: _hook(trial, module))


def _hook(trial: Trial, module: Any) -> None:
    def make(original: Any) -> Any:
        def __post_init__(self: Any) -> None:
            for name, value in _FIELDS.items():
                if not hasattr(self, name):
                    raise AttributeError(f"TrainingArguments has no {name}")
                setattr(self, name, value)
                trial.reached(f"TrainingArguments.{name}")
            original(self)

        return __post_init__

    wrap(module.TrainingArguments, "__post_init__", make)
