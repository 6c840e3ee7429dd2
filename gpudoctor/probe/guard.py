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
        self._placed: list[tuple[Any, str, Any, Any]] = []
        self._off = set(settings.get("off", ()))
        self._faults = set(settings.get("faults", ()))
        self.compiling: Callable[[], bool] = lambda: False
        self.names: set[str] = set()
        """Hooks that went through here."""
        self.failed: set[str] = set()
        """Those of them that have failed."""

    def wanted(self, hook: str) -> bool:
        """Whether the settings leave this hook on."""
        return hook not in self._off and "all" not in self._off

    def lose(self, hook: str, error: BaseException) -> None:
        """A hook failed; it is off from now on."""
        self._off.add(hook)
        self.failed.add(hook)
        self._lost(hook, error)

    def safely(self, hook: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """`work` that never raises: after its first failure, and if it is not wanted, it returns None."""
        if not self.wanted(hook):
            return lambda *_: None
        work = self.faulty(hook, work)
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

    def safely_of(self, hook: str, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The same for one argument, and faster: what is called in every step."""
        if not self.wanted(hook):
            return lambda _: None
        work = self.faulty(hook, work)
        works = True

        def safe(argument: Any) -> Any:
            nonlocal works
            if works:
                try:
                    return work(argument)
                except Exception as error:
                    works = False
                    self.lose(hook, error)
            return None

        return safe

    def faulty(self, hook: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """For tests: a hook that fails on purpose."""
        self.names.add(hook)
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
        passes: bool = False,
    ) -> Callable[..., Any]:
        """`original` with `begin(args, kwargs)` before it and `end(token, result, failed)` after it.

        A `begin` that returns None wants no `end`. Calls of other threads, and calls that Dynamo traces, go
        straight through, and in untimed steps those that are part of every step (`passes`). `end` is also
        called when the call raised, with no result.
        """
        begin = self.faulty(hook, begin)
        end = self.faulty(f"{hook} (end)", end)
        state = [True]
        clock = self._clock
        ident = threading.get_ident
        compiling = self.compiling

        def fail(error: BaseException) -> None:
            state[0] = False
            self.lose(hook, error)

        def hooked(*args: Any, **kwargs: Any) -> Any:
            if (passes and clock.blind) or compiling() or not state[0] or ident() != clock.ident:
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
            self.put(owner, name, original, make(original))
        except Exception as error:
            self.lose(hook, error)

    def put(self, owner: Any, name: str, original: Any, replacement: Any) -> None:
        """Set an attribute of others, and remember what was there (nothing, where it was inherited)."""
        inherited = isinstance(owner, type) and name not in owner.__dict__
        self._placed.append((owner, name, _MISSING if inherited else original, replacement))
        setattr(owner, name, replacement)

    def withdraw(self) -> None:
        """Take everything out again, so that torch is as it was."""
        for owner, name, original, _ in reversed(self._placed):
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def restore(self) -> None:
        """Put everything back in."""
        for owner, name, _, replacement in self._placed:
            setattr(owner, name, replacement)
