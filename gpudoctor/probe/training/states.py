"""What a run reads, takes up, writes and keeps: states in files, predictions. Names, counts and sizes alone."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..importlib_bootstrap import MISSING
from ..models import class_name, parameters, unwrapped
from ..wire.masking import mask_cut
from . import Look

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "states"
_FILES = 16
"""Files and loads of weights that are kept."""
_KEYS = 24
"""Names that are looked at in one file."""
_ITEMS = 64
"""Values of a mapping among which a tensor makes it weights."""
_SAVES = 32
"""Saves whose sizes are kept, the first ones."""
_LONGEST = 64
"""Characters of a file's name."""
_MOST = 1 << 23
"""Numbers of predictions that are compared with labels, at most: it takes the program's time."""
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
        named = kwargs.get("f", kwargs.get("filename"))
        name = _path(next(iter(args), named))
        if name and result is not MISSING:
            self._hold(name, _parts_of(result))

    def _hold(self, name: str, parts: dict[str, float]) -> None:
        """A file was read; what its folder holds beside weights by then counts as well."""
        held = self._held
        new = (name, "weights") not in held
        for what, many in parts.items():
            if len(held) < _FILES:
                held.setdefault((name, what), many)
        if new and [*parts] == ["weights"]:
            folder = os.path.dirname(name)
            for what, files in _BESIDE.items():
                for file in files:
                    path = os.path.join(folder, file)
                    if (path, what) not in held and os.path.isfile(path):
                        held[path, what] = 1
        self._next = 0

    def wrote(self, _what: str, args: Any, kwargs: Any) -> None:
        """`torch.save` is about to write."""
        name = _path(_second(args, kwargs, "f"))
        series = {_series(path) for path, _ in self._held}
        step = self._probe.steps.index
        if _series(name) in series and step > self._loaded:
            self._again = True
        self._size()
        if name and len(self._saves) < _SAVES:
            self._open = name
            shown = mask_cut(_series(os.path.basename(name)), _LONGEST)
            self._saves.append([shown, step, 0, *self.place().values()])

    def _size(self) -> None:
        """Note the size of the last save, which is written by now."""
        path = self._open
        if path:
            size = os.stat(path).st_size if os.path.exists(path) else 0
            self._saves[-1][2] = size
            self._open = ""

    def take_weights(self, args: Any, kwargs: Any) -> Any:
        """`Module.load_state_dict`."""
        given = _second(args, kwargs, "state_dict")
        result = yield
        if not isinstance(given, Mapping) or not given or result is MISSING:
            return
        if len(self._weights) < _FILES:
            missing = list(getattr(result, "missing_keys", ()))
            unexpected = list(getattr(result, "unexpected_keys", ()))
            sizes = [len(given), len(missing), len(unexpected)]
            shared = len(self._starts(given) & self._starts(parameters(args[0])))
            # One name of each kind is enough to find the others by.
            named = [(*missing, "")[0], (*unexpected, "")[0]]
            self._weights.append([class_name(args[0]), *sizes, *named, *self.place().values(), shared])
            self._loaded = self._probe.steps.index
            self._next = 0

    def _starts(self, tensors: Mapping[Any, Any]) -> set[int]:
        """Where the numbers of some tensors lie."""
        kinds = (self._torch.Tensor, self._torch.nn.Parameter)
        plain = [item for item in tensors.values() if type(item) in kinds and item.layout is self._torch.strided]
        return {item.data_ptr() for item in plain if not item.is_meta} - {0}

    def take_optimizer(self, args: Any, kwargs: Any) -> Any:
        """`Optimizer.load_state_dict`."""
        given = _second(args, kwargs, "state_dict")
        state = given.get("state") if isinstance(given, Mapping) else None
        if not state:  # without any, Accelerate has moved an optimizer
            return
        result = yield
        if result is not MISSING:
            self._taken = len(state)
            self._next = 0

    def evaluated(self, _args: Any, given: Any) -> None:
        """What transformers has put together for `compute_metrics`."""
        predictions = given.get("predictions")
        labels = given.get("label_ids")
        several = predictions if type(predictions) is tuple else (predictions,)
        held = [each for each in several if hasattr(each, "nbytes")]
        size = sum(int(each.nbytes) for each in held)
        # A larger one than before is news.
        if size > self._most and hasattr(labels, "size"):
            self._most = size
            first = held[0]
            shape = " x ".join(map(str, first.shape))
            numbers_a_label = first.size // max(1, labels.size)
            row = [shape, numbers_a_label, size, *self.place().values()]
            with self:
                fields = {"kind": "predictions", "growth": [row], "shares": _shares(first, labels)}
                self.write("memory", fields)

    def ended(self) -> None:
        """A watched step has ended."""
        if self.ripe():
            for model in self._probe.models.trained()[:_FILES]:
                # transformers keeps where its weights are from
                origin = unwrapped(model).__dict__.get("name_or_path")
                folder = _path(origin) if origin else ""
                if os.path.isdir(folder):
                    self._hold(os.path.join(folder, ""), {"weights": 1})
            self.tell()

    def tell(self) -> None:
        """Write what is known by now."""
        if self._saves:
            self._size()
            self.write("memory", {"kind": "saves", "growth": self._saves})
        if self._held or self._weights or self._taken:
            base = self._probe.torch.optim.Optimizer
            stepped = self._probe.models.optimizers()
            # One that loads a state in its own way may have taken it up unseen.
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
    if labels.ndim != 2 or best.shape != labels.shape or best.dtype.kind != "i":
        return []
    if none.all() or not none.any():
        return []
    right = best == labels
    counts = numpy.unique(numpy.bincount(best[none].clip(0)))[-_FILES:]
    of_labelled = float(right[~none].mean())
    of_all = (right.sum() + numpy.append(0, counts)) / labels.size
    return [of_labelled, *of_all.tolist()]


def _second(args: Any, kwargs: Any, name: str) -> Any:
    """A call's second argument, by place or by name."""
    return args[1] if len(args) > 1 else kwargs.get(name)


def _path(given: Any) -> str:
    """The whole path of what is a file's name; empty for an open file."""
    if not isinstance(given, (str, os.PathLike)):
        return ""
    return os.path.abspath(os.fspath(given))


def _series(name: str) -> str:
    """A name that the files of one series have in common: without the numbers of their steps."""
    return re.sub(r"\d+", "#", name)


def _parts_of(found: Any) -> dict[str, float]:
    """`optimizer`, `schedule`, `weights` that a file holds, with a count."""
    kinds = [_kind(found)]
    # A checkpoint of several parts is no part itself, though it may have a tensor beside them.
    if isinstance(found, dict) and kinds[0][0] in ("", "weights"):
        inside = [_kind(part) for part in islice(found.values(), _KEYS)]
        kinds = inside if any(what for what, _ in inside) else kinds
    return {what: many for what, many in kinds if what}


def _kind(value: Any) -> tuple[str, float]:
    """What a state is of, and its count: states with tensors, the position of a schedule, tensors; or `("", 0)`."""
    if isinstance(value, list) and value:
        value = value[0]  # Lightning keeps lists of states
    if not isinstance(value, dict) or not value:
        return "", 0
    if "param_groups" in value and isinstance(value.get("state"), dict):
        states = [state for state in value["state"].values() if isinstance(state, dict)]
        return "optimizer", sum(map(_has_tensor, states))
    if "last_epoch" in value:
        position = value["last_epoch"]
        return "schedule", position if type(position) is int else 0
    if any(hasattr(item, "numel") for item in islice(value.values(), _ITEMS)):
        return "weights", len(value)
    return "", 0


def _has_tensor(state: dict[Any, Any]) -> bool:
    """Whether an optimizer's state of one parameter is more than numbers."""
    return any(getattr(item, "shape", ()) for item in state.values())


def install(probe: Probe) -> None:
    """Hook what reads, loads and saves states (`torch.save`: hooks/calls.py), and what evaluations keep."""
    states = probe.training[HOOK] = States(probe)
    torch = probe.torch
    surround = probe.guard.surround
    reading = probe.guard.reading
    probe.saves = reading(HOOK, states.wrote)
    surround(HOOK, torch, "load", states.read)
    surround(HOOK, torch.nn.Module, "load_state_dict", states.take_weights)
    surround(HOOK, torch.optim.Optimizer, "load_state_dict", states.take_optimizer)
    probe.when_imported("safetensors.torch", lambda module: surround(HOOK, module, "load_file", states.read))
    evaluated = reading(HOOK, states.evaluated)
    probe.when_imported(
        "transformers.trainer_utils", lambda module: surround(HOOK, module.EvalPrediction, "__init__", evaluated)
    )
    probe.steps.after.append(reading(HOOK, states.ended))
