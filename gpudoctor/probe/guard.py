"""Hooks that cannot harm: one that fails is turned off and written down, and the training goes on."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clock import Clock

_MISSING = object()


class Guard:
    """Installs wrappers around functions of others, and knows which have failed."""

    def __init__(
        self, clock: Clock, lost: Callable[[str, BaseException], None], settings: dict[str, Any]
    ) -> None:
        self._clock = clock
        self._lost = lost
        self._off = set(settings.get("off", ()))
        self._faults = set(settings.get("faults", ()))
        self.compiling: Callable[[], bool] = lambda: False

    def wanted(self, hook: str) -> bool:
        """Whether the settings leave this hook on."""
        return hook not in self._off and "all" not in self._off

    def lose(self, hook: str, error: BaseException) -> None:
        """A hook failed; it is off from now on."""
        self._off.add(hook)
        self._lost(hook, error)

    def safely(self, hook: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """`work` that never raises: after its first failure it does nothing and returns None."""
        work = self._faulty(hook, work)
        state = [True]

        def safe(*args: Any) -> Any:
            if not state[0]:
                return None
            try:
                return work(*args)
            except Exception as error:
                state[0] = False
                self.lose(hook, error)
                return None

        return safe

    def _faulty(self, hook: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """For tests: a hook that fails on purpose."""
        if hook not in self._faults and "all" not in self._faults:
            return work

        def fail(*_: Any) -> Any:
            raise RuntimeError(f"{hook} fails on purpose")

        return fail

    def around(
        self,
        hook: str,
        original: Callable[..., Any],
        begin: Callable[[Any, Any], Any],
        end: Callable[[Any, Any, bool], None],
    ) -> Callable[..., Any]:
        """`original` with `begin(args, kwargs)` before it and `end(token, result, failed)` after it.

        A `begin` that returns None wants no `end`. Calls of other threads, and calls that Dynamo traces, go
        straight through. `end` is also called when the call raised, with no result.
        """
        begin = self._faulty(hook, begin)
        state = [True]
        clock = self._clock
        ident = threading.get_ident
        compiling = self.compiling

        def fail(error: BaseException) -> None:
            state[0] = False
            self.lose(hook, error)

        def hooked(*args: Any, **kwargs: Any) -> Any:
            if compiling() or not state[0] or ident() != clock.ident:
                return original(*args, **kwargs)
            try:
                token = begin(args, kwargs)
            except Exception as error:
                fail(error)
                return original(*args, **kwargs)
            if token is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as raised:
                clock.passed(raised)
                try:
                    end(token, None, True)
                except Exception as error:
                    fail(error)
                raise
            try:
                end(token, result, False)
            except Exception as error:
                fail(error)
            return result

        functools.update_wrapper(hooked, original)
        return hooked

    def replace(self, hook: str, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in the place of an attribute; nothing where there is no such attribute."""
        if not self.wanted(hook):
            return
        try:
            original = (
                owner.__dict__.get(name, _MISSING)
                if isinstance(owner, type)
                else getattr(owner, name, _MISSING)
            )
            if original is _MISSING:
                return
            setattr(owner, name, make(original))
        except Exception as error:
            self.lose(hook, error)
