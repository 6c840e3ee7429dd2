"""Schedulers of the learning rate: the numbers that each was made with, and where it stands after watched steps."""

from __future__ import annotations

import functools
import sys
import weakref
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from . import Look

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "schedules"
_MOST, _METRICS = 16, 64
"""Schedulers, and metrics that are kept."""
_TOTALS = ("T_max", "total_steps", "num_training_steps", "total_iters", "total", "max_steps")
_EMPTY = CellType()


class Schedules(Look):
    """Knows the schedulers: each with its record, but for what is read when it is told."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._known: list[tuple[weakref.ref[Any], dict[str, Any]]] = []

    def made(self, args: Any, _kwargs: Any) -> None:
        """A scheduler is being made."""
        if len(self._known) < _MOST and self._of(args[0]) is None:
            fields = {"id": len(self._known), "made": self._probe.steps.index, **self.place()}
            self._known.append((weakref.ref(args[0]), fields))

    def _of(self, scheduler: Any) -> dict[str, Any] | None:
        return next((fields for known, fields in self._known if known() is scheduler), None)

    def given(self, args: Any, kwargs: Any) -> None:
        """A plateau's `step` gets a metric."""
        fields, given = self._of(args[0]), args[1] if len(args) > 1 else kwargs.get("metrics")
        on_host = getattr(getattr(given, "device", None), "type", "") == "cpu" and given.numel() == 1
        if fields is not None and (type(given) in (int, float) or on_host):
            fields["mode"], metrics = args[0].mode, fields.setdefault("metrics", [])
            metrics += [float(given)] * (len(metrics) < _METRICS)

    def ended(self) -> None:
        """A watched step has ended."""
        self._look(before=True)
        if self.ripe():
            self._write()

    def tell(self) -> None:
        """Write what is known by now."""
        self._look(before=False)
        self._write()

    def _look(self, before: bool) -> None:
        """Where each stands, `before` it is stepped or after: it may be gone when all is told."""
        index = self._probe.steps.index
        for known, fields in self._known:
            scheduler = known()
            if scheduler is not None:
                fields.update(position=_position(scheduler), step=index, before=before)
                fields.setdefault("first", [index, fields["position"]])

    def _write(self) -> None:
        """All but what another scheduler steps."""
        alive = [scheduler for known, _ in self._known if (scheduler := known()) is not None]
        inner = {id(item) for scheduler in alive for item in vars(scheduler).get("_schedulers") or ()}
        for known, fields in self._known:
            scheduler = known()
            if scheduler is not None:
                groups = getattr(getattr(scheduler, "optimizer", None), "param_groups", ())[:64]
                rates = [group.get("max_lr", group.get("initial_lr", group.get("lr"))) for group in groups]
                base = max((rate for rate in rates if type(rate) is float), default=None)
                fields.update(name=type(scheduler).__name__, base=base, total=_total(scheduler))
                fields["inner"] = id(scheduler) in inner
            if fields.get("inner") is False:
                self._probe.record("schedule", {name: value for name, value in fields.items() if name != "inner"})


def _position(scheduler: Any) -> float:
    """Its `last_epoch`; one that chains others stands where they do."""
    own = vars(scheduler)
    position = own.get("last_epoch", max(map(_position, own.get("_schedulers") or ()), default=0))
    return position if type(position) in (int, float) else 0


def _total(scheduler: Any) -> tuple[str, float]:
    """What it, or its first function, believes the run to be, and the name of that number; of a chain the last's."""
    own = dict(vars(scheduler))
    inner, function = own.get("_schedulers"), next(iter(own.get("lr_lambdas") or ()), None)
    if inner:
        name, total = _total(inner[-1])
        return name, total + (own.get("_milestones") or [0])[-1]
    if type(function) is functools.partial:
        own.update(function.keywords)
        function = function.func
    if type(function) is FunctionType:
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        own.update((name, cell.cell_contents) for name, cell in cells if cell != _EMPTY)
    names = [name for name in _TOTALS if type(own.get(name)) in (int, float) and 0 < own[name] < 1e15]
    return next(((name, own[name]) for name in names if name != "total_iters" or "power" in own), ("", 0))


def install(probe: Probe) -> None:
    """Hook what makes schedulers, and the metrics of a plateau."""
    schedules = probe.training[HOOK] = Schedules(probe)
    module: Any = sys.modules["torch.optim.lr_scheduler"]
    for kind in list(vars(module).values()):  # what has a step of its own may not call the base's
        if isinstance(kind, type) and kind.__module__ == module.__name__ and "step" in vars(kind):
            probe.guard.surround(HOOK, kind, "__init__", schedules.made)
    probe.guard.surround(HOOK, module.ReduceLROnPlateau, "step", schedules.given)
    probe.steps.after.append(probe.guard.safely(HOOK, schedules.ended))
