"""What a run reads, takes up, writes and keeps: states in files, predictions. Names, counts and sizes alone."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..importlib_bootstrap import MISSING
from ..models import class_name, unwrapped
from ..wire.masking import mask_cut
from . import Look

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "states"
_FILES, _KEYS = 16, 24
"""Files and loads of weights that are kept; names that are looked at in one file."""
_SAVES, _LONGEST, _MOST = 32, 64, 1 << 23
"""Saves whose sizes are kept, the first ones; characters of a file's name."""
_BESIDE = {"optimizer": ("optimizer.pt", "optimizer.bin"), "schedule": ("scheduler.pt", "scheduler.bin")}
"""What Trainer and Accelerate write beside the weights."""


class States(Look):
    """Knows what was loaded and saved; its hooks are generators around the calls."""

    def again(self) -> None:
        """For a new recording nothing has been loaded."""
        super().again()
        self._held: dict[tuple[str, str], float] = {}
        self._weights: list[list[Any]] = []
        self._taken = 0
        self._loaded = -1
        """The step in which a model was loaded last."""
        self._again = False
        """Whether it trained on, and a file of the same name was written, but for its numbers."""
        self._saves: list[list[Any]] = []
        self._open = ""
        """The file of the last save, which has no size before it is written."""
        self._most = 0

    def read(self, args: Any, kwargs: Any) -> Any:
        """`torch.load`, and safetensors' `load_file`."""
        result = yield
        name = _path(next(iter(args), kwargs.get("f", kwargs.get("filename"))))
        if name and result is not MISSING:
            self._hold(name, _parts_of(result))

    def _hold(self, name: str, parts: dict[str, float]) -> None:
        """A file was read; what its folder holds beside weights by then counts as well."""
        new = (name, "weights") not in self._held
        for what, many in parts.items():
            if len(self._held) < _FILES:
                self._held.setdefault((name, what), many)
        if new and [*parts] == ["weights"]:
            beside = {(os.path.join(os.path.dirname(name), file), what) for what in _BESIDE for file in _BESIDE[what]}
            self._held.update((key, 1) for key in beside if key not in self._held and os.path.isfile(key[0]))
        self._next = 0

    def wrote(self, _what: str, args: Any, kwargs: Any) -> None:
        """`torch.save` is about to write."""
        name = _path(args[1] if len(args) > 1 else kwargs.get("f"))
        series, step = {_series(path) for path, _ in self._held}, self._probe.steps.index
        self._again = self._again or (_series(name) in series and step > self._loaded)
        self._size()
        if name and len(self._saves) < _SAVES:
            self._open, shown = name, mask_cut(_series(os.path.basename(name)), _LONGEST)
            self._saves.append([shown, step, 0, *self.place().values()])

    def _size(self) -> None:
        if self._open:
            self._saves[-1][2] = os.stat(self._open).st_size if os.path.exists(self._open) else 0
            self._open = ""

    def take_weights(self, args: Any, kwargs: Any) -> Any:
        """`Module.load_state_dict`."""
        given = args[1] if len(args) > 1 else kwargs.get("state_dict")
        result = yield
        if isinstance(given, Mapping) and given and result is not MISSING and len(self._weights) < _FILES:
            missing, unexpected = (list(getattr(result, name, ())) for name in ("missing_keys", "unexpected_keys"))
            named = [(*names, "")[0] for names in (missing, unexpected)]
            sizes = len(given), len(missing), len(unexpected)
            self._weights.append([class_name(args[0]), *sizes, *named, *self.place().values()])
            self._loaded, self._next = self._probe.steps.index, 0

    def take_optimizer(self, args: Any, kwargs: Any) -> Any:
        """`Optimizer.load_state_dict`."""
        given = args[1] if len(args) > 1 else kwargs.get("state_dict")
        state = given.get("state") if isinstance(given, Mapping) else None
        if state and (yield) is not MISSING:  # without any, Accelerate has moved an optimizer
            self._taken, self._next = len(state), 0

    def evaluated(self, _args: Any, given: Any) -> None:
        """What transformers has put together for `compute_metrics`."""
        held, labels = given.get("predictions"), given.get("label_ids")
        held = [each for each in (held if type(held) is tuple else (held,)) if hasattr(each, "nbytes")]
        size = sum(int(each.nbytes) for each in held)
        if size > self._most and hasattr(labels, "size"):
            self._most = size
            shape = " x ".join(map(str, held[0].shape))
            row = [shape, held[0].size // max(1, labels.size), size, *self.place().values()]
            with self.charged():
                self.write("memory", {"kind": "predictions", "growth": [row], "shares": _shares(held[0], labels)})

    def ended(self) -> None:
        """A watched step has ended."""
        if self.ripe():
            for model in self._probe.models.trained()[:_FILES]:  # transformers keeps where its weights are from
                path = unwrapped(model).__dict__.get("name_or_path")
                if path and os.path.isdir(_path(path)):
                    self._hold(os.path.join(_path(path), ""), {"weights": 1})
            self.tell()

    def tell(self) -> None:
        """Write what is known by now."""
        if self._saves:
            self._size()
            self.write("memory", {"kind": "saves", "growth": self._saves})
        if self._held or self._weights or self._taken:
            stepped, base = self._probe.models.optimizers(), self._probe.torch.optim.Optimizer
            seen = all(type(known).load_state_dict is base.load_state_dict for known in stepped)
            files = [[*key, many] for key, many in self._held.items()] if seen else []
            fields = {"weights": self._weights, "taken": self._taken, "files": files, "again": self._again}
            self.write("state", fields)


def _shares(guessed: Any, labels: Any) -> list[float]:
    """Of right labels: of those that there are; of all positions, if one without a label is none's or a class's."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not type(guessed) is type(labels) is numpy.ndarray or guessed.size > _MOST:
        return []
    best = guessed.argmax(-1) if guessed.ndim > labels.ndim else guessed
    none = labels < 0
    if labels.ndim != 2 or best.shape != labels.shape or best.dtype.kind != "i" or none.all() or not none.any():
        return []
    right, counts = best == labels, numpy.unique(numpy.bincount(best[none].clip(0)))[-_FILES:]
    return [float(right[~none].mean()), *((right.sum() + numpy.append(0, counts)) / labels.size).tolist()]


def _path(given: Any) -> str:
    return os.path.abspath(os.fspath(given)) if isinstance(given, (str, os.PathLike)) else ""


def _series(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _parts_of(found: Any) -> dict[str, float]:
    """`optimizer`, `schedule`, `weights` that a file holds, with a count."""
    inside = islice(found.values(), _KEYS) if isinstance(found, dict) and not _kind(found)[0] else [found]
    return {what: many for what, many in map(_kind, inside) if what}


def _kind(value: Any) -> tuple[str, float]:
    if isinstance(value, list) and value:
        value = value[0]  # Lightning keeps lists of states
    if not isinstance(value, dict) or not value:
        return "", 0
    if "param_groups" in value and isinstance(value.get("state"), dict):
        states = [state for state in value["state"].values() if isinstance(state, dict)]
        return "optimizer", sum(any(getattr(item, "shape", ()) for item in state.values()) for state in states)
    if "last_epoch" in value:
        return "schedule", value["last_epoch"] if type(value["last_epoch"]) is int else 0
    return ("weights", len(value)) if any(hasattr(item, "numel") for item in islice(value.values(), 64)) else ("", 0)


def install(probe: Probe) -> None:
    """Hook what reads, loads and saves states (`torch.save`: hooks/calls.py), and what evaluations keep."""
    states = probe.training[HOOK] = States(probe)
    torch, surround = probe.torch, probe.guard.surround
    probe.saves = probe.guard.reading(HOOK, states.wrote)
    surround(HOOK, torch, "load", states.read)
    surround(HOOK, torch.nn.Module, "load_state_dict", states.take_weights)
    surround(HOOK, torch.optim.Optimizer, "load_state_dict", states.take_optimizer)
    probe.when_imported("safetensors.torch", lambda module: surround(HOOK, module, "load_file", states.read))
    hear, evaluated = "transformers.trainer_utils", probe.guard.reading(HOOK, states.evaluated)
    probe.when_imported(hear, lambda module: surround(HOOK, module.EvalPrediction, "__init__", evaluated))
    probe.steps.after.append(probe.guard.reading(HOOK, states.ended))
