"""`leak.collect`, `leak.containers`, `leak.hooks`: what may hold memory is let go between steps.

For the search of a leak that no line explains: where the growth stops, that was what held it. Only what grows
is touched: containers with a name that gain an element in three steps, hooks beyond those of the first steps.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from ..growing_containers import CONTAINERS, Holders, grown

if TYPE_CHECKING:
    from . import Trial

_EVERY = 10
"""Steps between two turns."""
_FIRST, _SECOND = 12, 30
"""Steps at which containers are looked at, to see which of them grow."""
_KEPT = 4
"""Elements that stay, the newest: the program may look at its last ones."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def apply(trial: Trial, detail: str, value: Any) -> None:
    """Begin; `value` is a name that a container must have, or nothing for all."""
    parts: dict[str, Any] = {"collect": Collect, "containers": Containers, "hooks": Hooks}
    trial.probe.pace.watch_all()
    trial.probe.steps.after.append(trial.probe.guard.safely("leak", parts[detail](trial, value).stepped))


class Collect:
    """Cycles of references go at once instead of when Python thinks of it."""

    def __init__(self, trial: Trial, _value: Any) -> None:
        self._trial = trial

    def stepped(self) -> None:
        """A step has ended."""
        if self._trial.probe.steps.index % _EVERY == 0:
            self._trial.reached("leak.collect")
            gc.collect()


class Hooks:
    """Modules lose the hooks that they got after the first steps."""

    def __init__(self, trial: Trial, _value: Any) -> None:
        self._trial = trial
        self._known: dict[int, set[Any]] = {}

    def stepped(self) -> None:
        """A step has ended."""
        index = self._trial.probe.steps.index
        if index < _FIRST or index % _EVERY:
            return
        for model in self._trial.probe.models.trained():
            for module in model.modules():
                for name in _HOOKS:
                    self._drop(getattr(module, name, None))

    def _drop(self, hooks: Any) -> None:
        if not hooks and id(hooks) not in self._known:
            return
        known = self._known.setdefault(id(hooks), set(hooks))
        for key in [key for key in hooks if key not in known]:
            del hooks[key]
            self._trial.reached("leak.hooks")


class Containers:
    """Containers that grow lose all but their newest elements."""

    def __init__(self, trial: Trial, value: Any) -> None:
        self._trial = trial
        self._wanted = str(value or "")
        self._first: Holders | None = None
        self._names: list[str] = []

    def stepped(self) -> None:
        """A step has ended."""
        index = self._trial.probe.steps.index
        if index == _FIRST:
            self._first = Holders(self._trial.probe, sys._getframe(1))
        elif index >= _SECOND and index % _EVERY == 0:
            self._clear()

    def _clear(self) -> None:
        now = Holders(self._trial.probe, sys._getframe(1))
        if self._first is not None and not self._names:
            names = {holder.name for holder in grown(self._first, now)}
            self._names = sorted(name for name in names if not self._wanted or name == self._wanted)
            self._first = None
        for (key, kind), holder in now.found.items():
            if holder.name in self._names and kind in CONTAINERS:
                for found in _with_id(key, kind):
                    _shorten(found)
                    self._trial.reached("leak.containers", names=self._names)


def _with_id(key: Any, kind: type) -> list[Any]:
    """The container of an id: the look keeps none alive, so it is found again among all objects."""
    return [item for item in gc.get_objects() if id(item) == key and type(item) is kind]


def _shorten(container: Any) -> None:
    if isinstance(container, (list,)):
        del container[:-_KEPT]
    elif isinstance(container, dict):
        for key in list(container)[:-_KEPT]:
            del container[key]
    elif isinstance(container, set):
        container.clear()
    else:
        while len(container) > _KEPT:
            container.popleft()
