"""Schedulers of the learning rate: what each believes the run to be, where it stands, who steps it, what it is given.

Only numbers that it keeps itself are read, after watched steps; where it stands is its own `last_epoch`.
"""

from __future__ import annotations

import functools
import sys
import weakref
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from ..call_sites import Place, where
from ..guard import CALLER

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "schedules"
_MOST, _NUMBERS, _METRICS = 16, 12, 64
"""Schedulers, numbers of one, and metrics that are kept."""
_OWN = frozenset({"last_epoch", "_step_count", "verbose", "num_bad_epochs", "cooldown_counter", "T_cur", "best"})
"""Where a scheduler stands, and not what it was made for."""
_EMPTY = CellType()


class Schedule:
    """A scheduler that was made."""

    def __init__(self, scheduler: Any, place: Place, step: int) -> None:
        self.scheduler = weakref.ref(scheduler)
        groups = scheduler.optimizer.param_groups[:64] if hasattr(scheduler, "optimizer") else []
        rates = [group.get("max_lr", group.get("initial_lr", group.get("lr"))) for group in groups]
        self.inner = False
        """Whether another one steps it."""
        self.fields: dict[str, Any] = {
            "name": type(scheduler).__name__,
            "numbers": _numbers(scheduler),
            "made": step,
            "path": place[0],
            "line": place[1],
            "base": max((rate for rate in rates if type(rate) is float), default=None),
        }
        """The record, but for where it stands."""

    def stand(self, index: int) -> None:
        """Where it stands now; one that chains others stands where they do."""
        scheduler = self.scheduler()
        if scheduler is not None:
            self.fields["position"], self.fields["step"] = _position(scheduler), index


class Schedules:
    """Knows the schedulers."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.known: dict[int, Schedule] = {}
        self.depth = 0
        """Schedulers that are being made."""
        self.stepping: Any = None
        """The outermost scheduler that is being stepped."""
        self._next = 1
        self._planned: Any = None

    def again(self) -> None:
        """For a new recording nothing has been told."""
        self._next = 1

    def planned(self, args: Any, kwargs: Any) -> None:
        """A Trainer says how many steps it will make."""
        self._planned = args[1] if len(args) > 1 else kwargs.get("num_training_steps")

    def made(self, scheduler: Any, frame: Any) -> None:
        """A scheduler is there."""
        if len(self.known) < _MOST and self._of(scheduler) is None:
            place = where(self._probe.places.user_frame(frame))
            self.known[id(scheduler)] = Schedule(scheduler, place, self._probe.steps.index)
        for inner in scheduler.__dict__.get("_schedulers") or ():
            known = self._of(inner)
            if known is not None:
                known.inner = True

    def _of(self, scheduler: Any) -> Schedule | None:
        known = self.known.get(id(scheduler))
        return known if known is not None and known.scheduler() is scheduler else None

    def stepped(self, scheduler: Any, given: Any, frame: Any) -> None:
        """A scheduler is about to be stepped, in a watched step."""
        known = self._of(scheduler)
        if known is None:
            return
        fields = known.fields
        if "began" not in fields:
            place = where(self._probe.places.user_frame(frame))
            fields.update(began=_position(scheduler), called=list(place[:2]))
        if given is not None and hasattr(scheduler, "num_bad_epochs"):
            metrics = fields.setdefault("metrics", [])
            on_host = getattr(getattr(given, "device", None), "type", "") == "cpu" and given.numel() == 1
            if len(metrics) < _METRICS and (type(given) in (int, float) or on_host):
                metrics.append(float(given))
                fields["mode"] = scheduler.mode

    def ended(self) -> None:
        """A watched step has ended."""
        index = self._probe.steps.index
        for known in self.known.values():
            known.stand(index)
        if index >= self._next:
            self._next = 2 * index
            self.tell()

    def tell(self) -> None:
        """Write what is known by now."""
        index = self._probe.steps.index
        if type(self._planned) is int and self._planned > 0:
            self._probe.record("schedule", {"step": index, "planned": self._planned})
        for number, known in enumerate(list(self.known.values())):
            if not known.inner:
                known.stand(index)
                self._probe.record("schedule", {"id": number, **known.fields})


def _position(scheduler: Any) -> float | None:
    own = scheduler.__dict__.get("last_epoch")
    if own is None:
        own = max((_position(inner) or 0 for inner in scheduler.__dict__.get("_schedulers") or ()), default=None)
    return own if type(own) in (int, float) else None


def _numbers(scheduler: Any) -> dict[str, float]:
    """The plain numbers that a scheduler and its functions keep, by name; of chained ones the last one's, too."""
    found: dict[str, float] = {}

    def take(names: Any, prefix: str = "") -> None:
        for name, value in names:
            if type(value) in (int, float) and abs(value) < 1e15 and len(found) < _NUMBERS and name not in _OWN:
                found.setdefault(prefix + name, value)

    own = scheduler.__dict__
    take(own.items())
    marks = sorted(mark for mark in own.get("milestones") or own.get("_milestones") or () if type(mark) is int)
    take([("milestones", marks[-1]), ("first_milestone", marks[0])] if marks else ())
    for function in (own.get("lr_lambdas") or ())[:1]:
        if type(function) is functools.partial:
            take((function.keywords or {}).items())
            function = function.func
        if type(function) is FunctionType:
            code = function.__code__
            cells = function.__closure__ or ()
            take(zip(code.co_freevars, (cell.cell_contents if cell != _EMPTY else None for cell in cells)))
            take((name, function.__globals__.get(name)) for name in code.co_names)
    chained = own.get("_schedulers")
    take(_numbers(chained[-1]).items() if chained else (), "last.")
    return found


def install(probe: Probe) -> None:
    """Hook what makes and steps schedulers, and the Trainer's word on its steps."""
    schedules = probe.training[HOOK] = Schedules(probe)
    module: Any = sys.modules["torch.optim.lr_scheduler"]
    base = getattr(module, "LRScheduler", None) or module._LRScheduler
    for kind in [kind for kind in vars(module).values() if isinstance(kind, type) and "step" in kind.__dict__]:
        if issubclass(kind, base) or kind.__name__ == "ReduceLROnPlateau":
            _hook(probe, schedules, kind)  # what has a step of its own may not call the base's
    probe.steps.after.append(probe.guard.safely(HOOK, schedules.ended))
    probe.when_imported(
        "transformers.trainer",
        lambda module: probe.guard.surround(HOOK, module.Trainer, "create_scheduler", schedules.planned),
    )


def _hook(probe: Probe, schedules: Schedules, kind: Any) -> None:
    clock = probe.clock

    def make(args: Any, _kwargs: Any) -> Any:
        schedules.depth += 1
        yield
        schedules.depth -= 1
        schedules.made(args[0], sys._getframe(CALLER))

    def begin(args: Any, kwargs: Any) -> Any:
        if clock.light or schedules.depth or schedules.stepping is not None:
            return None
        schedules.stepping = args[0]
        given = args[1] if len(args) > 1 else kwargs.get("metrics")
        schedules.stepped(args[0], given, sys._getframe(CALLER - 1))
        return args[0]

    def end(_token: Any, _result: Any) -> None:
        schedules.stepping = None

    probe.guard.surround(HOOK, kind, "__init__", make)
    probe.guard.between(HOOK, kind, "step", begin, end)
