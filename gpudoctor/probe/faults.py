"""Stacks at fatal signals, written into a file of ours by the interpreter's C handlers (`faulthandler`).

No handler of Python's is installed: it would have to wait for the interpreter, and what a signal does to the
program would change. faulthandler's writes and hands over to what was there before. The program may use it too:
what it turns on replaces ours, we never turn that off, and `is_enabled` speaks of it alone.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import TYPE_CHECKING, Any

from .standin import Standin
from .wire.frames import private

if TYPE_CHECKING:
    from .probe import Probe

SIGNALS = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGHUP", "SIGQUIT", "SIGALRM")
"""Signals whose default is death, and that schedulers and launchers send."""


class Faults:
    """Our use of faulthandler, and the program's."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._stream: Any = None
        self._path = ""
        self._theirs = False
        """Whether the program has enabled faulthandler."""
        self._registered: set[int] = set()
        """Signals that we have registered, and the program has not since."""

    def watch(self) -> None:
        """Begin, unless the program has enabled faulthandler before."""
        identity = self._probe.identity
        if faulthandler.is_enabled() or not hasattr(faulthandler, "register"):
            return
        self._path = os.path.join(identity.folder, f"fault-{identity.label}-{identity.pid}.txt")
        self._stream = open(self._path, "wb", buffering=0, opener=private)  # noqa: SIM115 - while the process lives
        # Functions of faulthandler answer as if it were the program's alone.
        for name in _ORIGINALS:
            called = getattr(self, "_" + name)
            self._probe.guard.replace("ends", faulthandler, name, lambda given, own=called: Standin(given, called=own))
        _ORIGINALS["enable"](self._stream, all_threads=False)
        for name in SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                _ORIGINALS["register"](number, self._stream, all_threads=False, chain=True)
                self._registered.add(number)

    def renew(self) -> None:
        """In a forked child: the handlers would write into the parent's file, at an orderly SIGTERM too."""
        stream = self._unwatch()
        if stream is not None:
            stream.close()

    def close(self) -> None:
        """The interpreter ends in order: an empty file is none."""
        stream = self._unwatch()
        if stream is not None:
            stream.close()
            if os.path.getsize(self._path) == 0:
                os.unlink(self._path)

    def _unwatch(self) -> Any:
        stream, self._stream = self._stream, None
        if stream is not None:
            for number in self._registered:
                if signal.getsignal(number) is signal.SIG_DFL:  # else the program has set one since
                    _ORIGINALS["unregister"](number)
            self._registered.clear()
            if not self._theirs:
                _ORIGINALS["disable"]()
        return stream

    def _is_enabled(self) -> bool:
        return self._theirs if self._stream is not None else _ORIGINALS["is_enabled"]()

    def _enable(self, *args: Any, **kwargs: Any) -> None:
        _ORIGINALS["enable"](*args, **kwargs)
        self._theirs = True

    def _disable(self) -> bool:
        if self._stream is None:
            return bool(_ORIGINALS["disable"]())
        was, self._theirs = self._theirs, False
        if was:
            _ORIGINALS["enable"](self._stream, all_threads=False)
        return was

    def _register(self, signum: int, *args: Any, **kwargs: Any) -> None:
        _ORIGINALS["register"](signum, *args, **kwargs)
        self._registered.discard(signum)

    def _unregister(self, signum: int) -> bool:
        was = signum not in self._registered
        self._registered.discard(signum)
        return bool(_ORIGINALS["unregister"](signum)) and was


_ORIGINALS: dict[str, Any] = {
    name: getattr(faulthandler, name)
    for name in ("disable", "enable", "is_enabled", "register", "unregister")
    if hasattr(faulthandler, name)
}
