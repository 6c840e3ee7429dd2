"""Hooks that cannot harm: one that fails is turned off and written down, and the training goes on."""

from __future__ import annotations

import signal
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any, Callable

from .importlib_bootstrap import MISSING, Enter, Leave, Usual, nothing, timed, wrapped
from .tensor_reads import Outside

if TYPE_CHECKING:
    from .clock import Clock


CALLER = 3
"""Frames from the work of a hook out to the caller of what it is hooked to."""


class Guard:
    """Installs wrappers around functions of others, and knows which have failed."""

    def __init__(
        self, torch: Any, clock: Clock, lost: Callable[[str, BaseException], None], settings: dict[str, Any]
    ) -> None:
        self._clock = clock
        self._lost = lost
        self._off = set(settings.get("off", ()))
        self._faults = set(settings.get("faults", ()))
        self.outside = Outside(torch)
        self.compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling
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
            return nothing
        work = self.faulty(hook, work)

        def safe(*args: Any) -> Any:
            nonlocal work
            try:
                return work(*args)
            except BaseException as error:
                if interrupts(error):
                    raise
                work = nothing
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

    def reading(self, hook: str, work: Callable[..., Any], subclasses: bool = False) -> Callable[..., Any]:
        """`safely`, for work that asks tensors: the program's modes and profilers do not see it. `subclasses`:
        it may ask tensors of the program's own classes, and those do not see it either.
        """
        safe, outside = self.safely(hook, work), self.outside
        seen = outside.needed if not subclasses else lambda: True

        def read(*args: Any) -> Any:
            if not seen():
                return safe(*args)
            with outside:
                return safe(*args)

        return read

    def surround(self, hook: str, owner: Any, name: str, work: Callable[[Any, Any], Any]) -> None:
        """Do `work(args, kwargs)` around an attribute of `owner`; nothing where it has none.

        A generator yields where the function is called, and is given its result, `MISSING` where it raised. One that
        returns before wants none. Calls of other threads go straight through.
        """

        def begin(args: Any, kwargs: Any) -> Any:
            running = work(args, kwargs)
            return None if running is None or next(running, MISSING) is MISSING else running

        def end(running: Any, result: Any) -> None:
            try:
                running.send(result)
            except StopIteration:
                pass

        self.between(hook, owner, name, begin, end)

    def between(
        self,
        hook: str,
        owner: Any,
        name: str,
        begin: Enter,
        end: Leave,
        usual: Usual | None = None,
        outer: bool = False,
    ) -> None:
        """`surround` by two functions, for what every step calls; without a token there is no end."""
        ends = self.faulty(hook, begin), self.faulty(f"{hook} (end)", end)

        def lost(error: BaseException) -> bool:
            if interrupts(error):
                return False
            self.lose(hook, error)
            return True

        self._around(hook, owner, name, lambda call: timed(call, self._clock, self.compiling, ends, lost, usual, outer))

    def install(self, hook: str, owner: Any, name: str, enter: Enter, leave: Leave) -> None:
        """Put `enter` and `leave` around an attribute; nothing where there is no such attribute."""
        self._around(hook, owner, name, lambda call: wrapped(call, enter, leave, self.compiling))

    def _around(self, hook: str, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        def around(original: Any) -> Any:
            function = getattr(original, "__func__", original)
            made = make(function)
            return made if original is function else type(original)(made)

        self.replace(hook, owner, name, around)

    def replace(self, hook: str, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in the place of an attribute; nothing where there is no such attribute."""
        if not self.wanted(hook):
            return
        try:
            original = owner.__dict__.get(name, MISSING) if isinstance(owner, type) else getattr(owner, name, MISSING)
            if original is not MISSING:
                _put_everywhere(owner, name, original, make(original))
        except Exception as error:
            self.lose(hook, error)


def _put_everywhere(owner: Any, name: str, original: Any, replacement: Any) -> None:
    """Replace an attribute, and the name in the module where the original says that it is defined: pickle
    looks it up there.
    """
    setattr(owner, name, replacement)
    home: Any = sys.modules.get(getattr(original, "__module__", None) or "")
    if isinstance(owner, type) or home is None or home is owner:
        return
    known = original.__name__
    if getattr(home, known, None) is original:
        setattr(home, known, replacement)


# Exceptions that a signal handler of the program raises while we are at work: they are the program's.


def interrupts(error: BaseException) -> bool:
    """Whether an exception that came up in our code is not of our making; then our frames leave its traceback.

    Python runs the handlers of signals between any two instructions of the main thread. One that raises
    (Ctrl-C, a limit of time by SIGALRM) must reach the program, wherever it came up.
    """
    handlers = _handlers()
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code not in handlers:
        trace = trace.tb_next
    if trace is None and isinstance(error, Exception):
        return False
    error.__traceback__ = trace
    return True


def _handlers() -> set[CodeType]:
    """The code of the signal handlers that are installed."""
    found: set[CodeType] = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        call = type(handler).__call__ if callable(handler) else None
        for function in (handler, getattr(handler, "__func__", None), call):
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                found.add(code)
    return found
