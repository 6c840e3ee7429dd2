"""Signals that ask for the end once the command has ended: they end the report, not its exit code."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupts:
    """A handler: notes the signal, and raises `KeyboardInterrupt` where that is allowed."""

    def __init__(self) -> None:
        self._noted = self._allowed = False
        numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        self._before = {number: signal.getsignal(number) for number in numbers}

    def __call__(self, _number: int, _frame: object) -> None:
        """Take a signal."""
        self._noted = True
        if self._allowed:
            self._allowed = False  # once: what it ends must not be ended in its turn
            raise KeyboardInterrupt

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """What the body does may be left; a signal that came before raises at once."""
        self._allowed = True
        try:
            if self._noted:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    def close(self, *, last: bool) -> None:
        """Give the signals back; where nothing follows but the exit, none may change its code any more."""
        for number, handler in self._before.items():
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_IGN if last else handler)
