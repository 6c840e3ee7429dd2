"""What stands in for a callable without Python code (`print`, `os.fsync`), or for a function of the user's.

Python asks a callable object for its `__call__` before it calls it: there, `enter` runs and returns. What it
gets is the original, bound in an object that lives as long as the call: when that object goes, `leave` runs.
So no frame of ours lies below the original while it works: tracebacks, warnings and `sys._getframe` are as
without us. A stand-in claims the class, the name and the documentation of the original, and is pickled by its
name.
"""

from __future__ import annotations

import functools
from operator import attrgetter
from typing import Any

from .instrument import Enter, Leave
from .interrupts import covered_from_start, raised_later

_NONE: Any = {}
"""Keyword arguments: a stand-in does not see what it is called with."""


def _nothing(_given: Any, _known: Any) -> None:
    """No token, and nothing to do without one."""


class Standin:
    """Calls `enter`, the original, and `leave` whether that returned or raised (its result is None here)."""

    __slots__ = ("__weakref__", "_called", "_enter", "_leave", "_original")

    def __init__(self, original: Any, enter: Enter = _nothing, leave: Leave = _nothing, called: Any = None) -> None:
        self._original = original
        self._called = called or original
        """What is called in its place, with the same arguments."""
        self._enter = enter
        self._leave = leave

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return getattr(self._original, "__qualname__", None) or self._original.__name__

    @property
    def __class__(self) -> Any:
        return type(self._original)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("__class__ assignment only supported for mutable types or ModuleType subclasses")


class _Call:
    """`Standin.__call__`: what is to be called."""

    def __get__(self, standin: Any, owner: Any = None) -> Any:
        if standin is None:
            return self
        token = standin._enter((), _NONE)
        if token is None:
            return standin._called
        call = _Bound(standin._called)
        call.token = token
        call.leave = standin._leave  # the last: until then an interrupt leaves nothing behind
        return call


class _Bound(functools.partial):  # type: ignore[type-arg]
    """The original during one call."""

    leave: Any = None
    token: Any = None

    def end(self) -> None:
        """Run `leave`, once."""
        leave, self.leave = self.leave, None
        if leave is not None:
            leave(self.token, None)

    def __del__(self) -> None:
        try:
            self.end()
        except BaseException as error:
            _last, _reference = raised_later(error, self.end)  # they work by being there


_Bound.__del__.__code__ = covered_from_start(_Bound.__del__.__code__)


setattr(Standin, "__call__", _Call())  # noqa: B010 - no method, but what makes one
for _name in ("__doc__", "__module__"):
    setattr(Standin, _name, property(attrgetter(f"_original.{_name}")))
