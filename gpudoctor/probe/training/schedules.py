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
_MOST = 16
"""Schedulers that are kept."""
_METRICS = 64
"""Metrics of each that are kept."""
_GROUPS = 64
"""Groups of an optimizer whose rates are read."""
_LARGEST = 1e15
"""What is no number of steps any more: programs that have no end give such a total."""
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
        fields = self._of(args[0])
        given = args[1] if len(args) > 1 else kwargs.get("metrics")
        device = getattr(given, "device", None)
        # A device's number is not waited for.
        on_host = getattr(device, "type", "") == "cpu" and given.numel() == 1
        if fields is not None and (isinstance(given, (int, float)) or on_host):  # numpy's are floats, too
            fields["mode"] = args[0].mode
            metrics = fields.setdefault("metrics", [])
            metric = float(given)
            if len(metrics) < _METRICS:
                metrics.append(metric)

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
                if self._replaced(getattr(scheduler, "optimizer", None)):
                    fields.setdefault("orphan", fields["position"])
                else:  # a new optimizer is not told from another one at its first step
                    fields.pop("orphan", None)

    def _replaced(self, optimizer: Any) -> bool:
        """Whether another optimizer, and none that shares its groups as a wrapper does, steps what it should."""
        anchor = self._probe.steps.anchor
        stepping = next((each for each in self._probe.models.optimizers() if id(each) == anchor), None)
        if optimizer is None or stepping is None or optimizer is stepping:
            return False
        groups, own = stepping.param_groups, optimizer.param_groups
        first = own[0]["params"][0]
        shared = any(group is each for group in groups for each in own)
        return not shared and any(first is parameter for group in groups for parameter in group["params"])

    def _write(self) -> None:
        """All but what another scheduler steps."""
        alive = [scheduler for known, _ in self._known if (scheduler := known()) is not None]
        inner = {id(item) for scheduler in alive for item in vars(scheduler).get("_schedulers") or ()}
        for known, fields in self._known:
            scheduler = known()
            if scheduler is not None:
                fields["name"] = type(scheduler).__name__
                fields["base"] = _base(scheduler)
                fields["total"] = _total(scheduler)
                fields["inner"] = id(scheduler) in inner
            if fields.get("inner") is False:
                told = {name: value for name, value in fields.items() if name != "inner"}
                self._probe.record("schedule", told)


def _base(scheduler: Any) -> float | None:
    """The largest rate that its groups are to have at some time; None where none is a number of the host's."""
    optimizer = getattr(scheduler, "optimizer", None)
    groups = getattr(optimizer, "param_groups", ())[:_GROUPS]
    rates = [group.get("max_lr", group.get("initial_lr", group.get("lr"))) for group in groups]
    return max((rate for rate in rates if type(rate) is float), default=None)


def _position(scheduler: Any) -> float:
    """Its `last_epoch`; one that chains others stands where they do."""
    own = vars(scheduler)
    inner = own.get("_schedulers") or ()
    furthest = max(map(_position, inner), default=0)
    position = own.get("last_epoch", furthest)
    return position if type(position) in (int, float) else 0


def _total(scheduler: Any) -> tuple[str, float]:
    """What it, or its first function, believes the run to be, and the name of that number; of a chain the last's."""
    own = dict(vars(scheduler))
    inner = own.get("_schedulers")
    function = next(iter(own.get("lr_lambdas") or ()), None)
    if inner:
        name, total = _total(inner[-1])
        # The last one begins at the last milestone, where it counts from 0 again.
        milestones = own.get("_milestones") or [0]
        return name, total + milestones[-1]
    if type(function) is functools.partial:
        own.update(function.keywords)
        function = function.func
    if type(function) is FunctionType:
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        own.update((name, cell.cell_contents) for name, cell in cells if cell != _EMPTY)
    for name in _TOTALS:
        number: Any = own.get(name)
        if type(number) not in (int, float) or not 0 < number < _LARGEST:
            continue
        # Of the schedulers with `total_iters`, a polynomial's spans the run; others warm up in it.
        if name != "total_iters" or "power" in own:
            return name, number
    return "", 0


def install(probe: Probe) -> None:
    """Hook what makes schedulers, and the metrics of a plateau."""
    schedules = probe.training[HOOK] = Schedules(probe)
    module: Any = sys.modules["torch.optim.lr_scheduler"]
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    for kind in kinds:
        # What has a step of its own may not call the base's.
        if kind.__module__ == module.__name__ and "step" in vars(kind):
            probe.guard.surround(HOOK, kind, "__init__", schedules.made)
    probe.guard.surround(HOOK, module.ReduceLROnPlateau, "step", schedules.given)
    probe.steps.after.append(probe.guard.safely(HOOK, schedules.ended))
