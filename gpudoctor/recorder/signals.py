"""Signals on their way to the command: it gets each one once, as it would without us.

Ctrl-C, a closing terminal, `timeout` and schedulers signal a whole process group, and then the command has had its
own; `kill PID` reaches us alone, and then we pass it on. Which of the two it was, no signal says (`si_code` does
not for `kill -- -PGID`). So a witness stands in our process group: a child that blocks all signals and reports
those that come. What the witness got as well was meant for the group.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_OWN = ("SIGKILL SIGSTOP SIGCHLD SIGPIPE SIGSEGV SIGBUS SIGFPE SIGILL SIGABRT SIGTRAP SIGSYS SIGTTIN SIGTTOU "
        "SIGWINCH SIGURG SIGXFSZ SIGEMT SIGSTKFLT")  # fmt: skip
"""Not passed on: faults of the process itself, what cannot be caught, and what only a terminal sends."""
PATIENCE = 0.1
"""Seconds for the witness to report; signals of a group arrive together, but its turn on a CPU may take a while."""
_BEAT = 1.0


def forwarded() -> list[signal.Signals | int]:
    """Signals that we pass on: all that end or stop a process, less those that are ignored here (nohup)."""
    own = {getattr(signal, name) for name in _OWN.split() if hasattr(signal, name)}
    return sorted(
        number
        for number in getattr(signal, "valid_signals", lambda: {signal.SIGINT, signal.SIGTERM})()
        if number not in own and signal.getsignal(number) is not signal.SIG_IGN
    )


class Post:
    """Receives signals for the command and passes on what it did not get. For the main thread only."""

    def __init__(self) -> None:
        self.received: list[int] = []
        """Signals that came, in order; the wake-up pipe tells that there is one."""
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)
        self._numbers = forwarded()
        self._witness, self._reports = _start_witness(self._numbers)

    @contextmanager
    def open(self) -> Iterator["Post"]:
        """Handlers are ours while the body runs."""
        before = {}
        for number in self._numbers:
            with suppress(OSError, ValueError):  # one that the system keeps for itself
                before[number] = signal.signal(number, self._take)
        wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._close()

    def wait(self, seconds: float) -> list[int]:
        """Signals that came; waits up to so many seconds for one (or for a child's end)."""
        with suppress(InterruptedError):
            select.select([self._read], [], [], max(0.0, seconds))
        with suppress(BlockingIOError):
            while os.read(self._read, 512):
                pass
        taken, self.received = self.received, []
        return taken

    def was_for_all(self, number: int) -> bool:
        """Whether the whole process group got this signal, and so the command did."""
        if self._witness is None:
            return False
        deadline = time.monotonic() + PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            with suppress(InterruptedError):
                if not select.select([self._reports], [], [], left)[0]:
                    break
                seen = os.read(self._reports, 1)
                if not seen:
                    break
                if seen[0] == number:
                    return True
        return False

    def _take(self, number: int, _frame: object) -> None:
        self.received.append(number)

    def _close(self) -> None:
        if self._witness is not None:
            with suppress(OSError):
                os.kill(self._witness, signal.SIGKILL)
                os.waitpid(self._witness, 0)
        for handle in (self._read, self._write, self._reports):
            with suppress(OSError):
                os.close(handle)


def stop_like(number: int) -> None:
    """Stop as the signal would have stopped us; returns when we are continued.

    By its default action and not by SIGSTOP: the kernel lets no process of an orphaned group stop (nobody would
    continue it), and the command does not stop there either.
    """
    handler = signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.signal(number, handler)


def _start_witness(numbers: list[signal.Signals | int]) -> tuple[int | None, int]:
    """The witness's process id and the pipe of its reports; no process where the system has no fork."""
    reports, tell = os.pipe()
    if not hasattr(os, "fork"):
        return None, reports
    # Blocked before the fork: no signal may kill the witness before it listens.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid == 0:
        with contextlib.suppress(BaseException):
            _witness(numbers, tell, parent)
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(tell)
    return (None, reports) if pid < 0 else (pid, reports)


def _witness(numbers: list[signal.Signals | int], tell: int, parent: int) -> None:
    """Report each signal with a byte; ends when the parent has."""
    for handle in (0, 1, 2):
        os.close(handle)  # whoever reads our output must not wait for this process
    wait: Callable[[], int | None]
    if sys.platform == "linux":
        wait = lambda: _number(signal.sigtimedwait(numbers, _BEAT))  # noqa: E731
    else:
        wait = lambda: signal.sigwait(numbers)  # noqa: E731  # killed by its parent
    while os.getppid() == parent:
        number = wait()
        if number is not None:
            os.write(tell, bytes([number]))


def _number(info: "signal.struct_siginfo | None") -> int | None:
    return None if info is None else info.si_signo
