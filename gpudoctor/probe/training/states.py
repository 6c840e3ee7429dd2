"""What a resumed run takes up: the states that a file held, and which of them were loaded. Names and counts alone."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..call_sites import where
from ..importlib_bootstrap import MISSING
from ..models import class_name, parameters

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "states"
_FILES, _KEYS, _LOADS = 8, 24, 8
"""Files, names in one, and loads of weights that are kept."""


class States:
    """Knows what was loaded and saved; its hooks are generators around the calls."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._own = probe.guard.reading(HOOK, self._owned)
        self.again()

    def again(self) -> None:
        """For a new recording nothing has been loaded."""
        self.files: dict[str, list[list[Any]]] = {}
        self.weights: list[list[Any]] = []
        self.optimizer: dict[str, Any] = {}
        self.saved: dict[str, None] = {}
        self._used = self._keeps = False
        """Whether the optimizer that was loaded makes steps; whether those that do keep a state."""
        self._loaded: Any = None
        self._next = 0

    def _place(self) -> list[Any]:
        self._next = 0
        return list(where(self._probe.places.user_frame(sys._getframe(1)))[:2])

    def read(self, args: Any, kwargs: Any) -> Any:
        """`torch.load`."""
        result = yield
        name = _path(args[0] if args else kwargs.get("f"))
        parts = _parts_of(result) if name and len(self.files) < _FILES else []
        if parts:
            self.files[name], self._next = parts, 0

    def wrote(self, args: Any, kwargs: Any) -> None:
        """`torch.save`."""
        name = _path(args[1] if len(args) > 1 else kwargs.get("f"))
        if name and len(self.saved) < _FILES:
            self.saved[name] = None

    def _owned(self, module: Any, given: Any) -> int:
        """How many of the tensors that a module is to load are its own already."""
        plain = self._probe.torch.Tensor
        held = {item.data_ptr() for item in parameters(module).values() if type(item.data) is plain} - {0}
        return sum(type(item) is plain and item.data_ptr() in held for item in islice(given.values(), 4096))

    def take_weights(self, args: Any, kwargs: Any) -> Any:
        """`Module.load_state_dict`."""
        given = args[1] if len(args) > 1 else kwargs.get("state_dict")
        if not isinstance(given, Mapping) or not given or len(self.weights) >= _LOADS:
            return
        own = self._own(args[0], given) or 0
        result = yield
        if result is not MISSING:
            missing, unexpected = (list(getattr(result, name, ())) for name in ("missing_keys", "unexpected_keys"))
            absent, extra = set(missing), set(unexpected)
            renamed = sum(name.partition(".")[2] in absent for name in extra)
            renamed += sum(name.partition(".")[2] in extra for name in absent)
            first = [missing[0], unexpected[0]] if missing and unexpected else ["", ""]
            counted = [len(given), len(missing), len(unexpected), renamed, own]
            self.weights.append([class_name(args[0]), *counted, *first, *self._place()])

    def take_optimizer(self, args: Any, kwargs: Any) -> Any:
        """`Optimizer.load_state_dict`."""
        given = args[1] if len(args) > 1 else kwargs.get("state_dict")
        state = given.get("state") if isinstance(given, Mapping) else None
        if state and (yield) is not MISSING:  # without any, Accelerate has moved an optimizer
            made = next((_number(item.get("step")) for item in state.values() if isinstance(item, Mapping)), None)
            (path, line), rate = self._place(), _number(given["param_groups"][0].get("lr"))
            self._loaded, self._used = weakref.ref(args[0]), False
            self.optimizer = {"entries": len(state), "steps": made, "rate": rate, "path": path, "line": line}

    def ended(self) -> None:
        """A watched step has ended."""
        index = self._probe.steps.index
        if index >= self._next:
            self._next = 2 * index
            self.tell()

    def tell(self) -> None:
        """Write what is known by now."""
        if not (self.files or self.weights or self.optimizer):
            return
        stepped, base = self._probe.models.optimizers(), self._probe.torch.optim.Optimizer
        loaded = self._loaded() if self._loaded is not None else None
        self._used = self._used or any(known is loaded for known in stepped)
        self._keeps = self._keeps or any(
            name != "step" and getattr(item, "numel", int)() > 1
            for known in stepped
            for state in islice(known.state.values(), 4)
            if isinstance(state, Mapping)
            for name, item in state.items()
        )
        self._probe.record(
            "state",
            {
                "step": self._probe.steps.index,
                "files": [[name, parts] for name, parts in self.files.items()],
                "weights": self.weights,
                "optimizer": self.optimizer or None,
                "saved": list(self.saved),
                "used": self._used if self.optimizer else None,
                "keeps": self._keeps,
                "plain": all(type(known).load_state_dict is base.load_state_dict for known in stepped),
            },
        )


def _path(given: Any) -> str:
    return os.path.abspath(os.fspath(given)) if isinstance(given, (str, os.PathLike)) else ""


def _number(value: Any) -> float | None:
    """A number on the host."""
    on_host = getattr(getattr(value, "device", None), "type", "") == "cpu" and value.numel() == 1
    return float(value) if on_host or type(value) in (int, float) else None


def _parts_of(found: Any) -> list[list[Any]]:
    """`[name, what, count]` of what a file holds: `optimizer`, `schedule`, `weights`."""
    named = islice(found.items(), _KEYS) if isinstance(found, dict) and not _kind(found)[0] else [("", found)]
    return [item for item in ([str(name)[:40], *_kind(value)] for name, value in named) if item[1]]


def _kind(value: Any) -> tuple[str, float]:
    if isinstance(value, list) and value:
        value = value[0]  # Lightning keeps lists of states
    if not isinstance(value, dict) or not value:
        return "", 0
    if "param_groups" in value and isinstance(value.get("state"), dict):
        return "optimizer", len(value["state"])
    if "last_epoch" in value:
        return "schedule", _number(value["last_epoch"]) or 0
    return ("weights", len(value)) if any(hasattr(item, "numel") for item in islice(value.values(), 64)) else ("", 0)


def install(probe: Probe) -> None:
    """Hook what reads, loads and saves states."""
    states = probe.training[HOOK] = States(probe)
    torch = probe.torch
    for owner, name, work in (
        (torch, "load", states.read),
        (torch, "save", states.wrote),
        (torch.nn.Module, "load_state_dict", states.take_weights),
        (torch.optim.Optimizer, "load_state_dict", states.take_optimizer),
    ):
        probe.guard.surround(HOOK, owner, name, work)
    probe.steps.after.append(probe.guard.reading(HOOK, states.ended))
