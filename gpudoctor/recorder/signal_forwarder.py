"""Signals on their way to the command: it gets each one once, as it would without us.

Ctrl-C, a closing terminal, `timeout` and schedulers signal a whole process group, and then the command has had
its own; `kill PID` reaches us alone, and then we pass it on. Which of the two it was, no signal says (`si_code`
does not for `kill -- -PGID`). So a witness stands in our process group: a child that blocks all signals and,
asked, tells which are pending for it. What it got as well was meant for the group.
"""

import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

Handler = Callable[[int, Any], None]
_OWN = ("SIGKILL SIGSTOP SIGCHLD SIGPIPE SIGSEGV SIGBUS SIGFPE SIGILL SIGABRT SIGTRAP SIGSYS SIGTTIN SIGTTOU "
        "SIGWINCH SIGURG SIGXFSZ SIGEMT SIGSTKFLT")  # fmt: skip
"""Not passed on: faults of the process itself, what cannot be caught, and what only a terminal sends."""
SETTLE = 0.005
"""Seconds after which a signal to a group has reached all of it: the kernel walks the group in one call."""
PATIENCE = 2.0
"""Seconds for the witness to answer on a machine whose CPUs are all busy."""


def forwarded() -> list[int]:
    """Signals that we pass on: all that end or stop a process, less those that are ignored here (nohup)."""
    own = {getattr(signal, name) for name in _OWN.split() if hasattr(signal, name)}
    valid = signal.valid_signals() - own
    return sorted(int(number) for number in valid if signal.getsignal(number) is not signal.SIG_IGN)


class SignalForwarder:
    """Receives signals for the command and tells which of them it has had. For the main thread only."""

    def __init__(self) -> None:
        self.numbers = forwarded()
        """Signals that are looked after."""
        self._received: list[int] = []
        self._seen: Counter[int] = Counter()
        self._wake, self._write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._write, False)
        self._witness = _Witness(self.numbers)

    @contextmanager
    def open(self, afterwards: Mapping[int, Handler] | None = None) -> Iterator["SignalForwarder"]:
        """Handlers are ours while the body runs; then some are given to others, the rest is as it was."""
        before = {}
        for number in [*self.numbers, int(signal.SIGCHLD)]:
            with suppress(OSError, ValueError):  # one that the system keeps for itself
                before[number] = signal.signal(number, self._take)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, (afterwards or {}).get(number, handler))
            self.close()

    def wait(self, seconds: float) -> list[int]:
        """Signals that came; waits up to so many seconds for one, or for a child's end."""
        with suppress(InterruptedError):
            select.select([self._wake], [], [], max(0.0, seconds))
        with suppress(BlockingIOError):
            while os.read(self._wake, 512):
                pass
        taken, self._received = self._received, []
        return taken

    def was_for_all(self, number: int) -> bool:
        """Whether the whole process group got this signal, and so the command did."""
        if not self._seen[number]:
            time.sleep(SETTLE)
            self._seen.update(self._witness.pending())
        if not self._seen[number]:
            return False
        self._seen[number] -= 1
        return True

    def close(self) -> None:
        """Let the witness go."""
        self._witness.dismiss()
        for handle in (self._wake, self._write):
            with suppress(OSError):
                os.close(handle)

    def _take(self, number: int, _frame: object) -> None:
        if number != signal.SIGCHLD:
            self._received.append(number)


@contextmanager
def held(numbers: list[int]) -> Iterator[set[int]]:
    """Signals wait while the body runs (it forks); gives the mask as it was before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield {int(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_like(number: int) -> None:
    """Stop as the signal would have stopped us; returns when we are continued.

    By its default action and not by SIGSTOP: the kernel lets no process of an orphaned group stop (nobody would
    continue it), and the command does not stop there either.
    """
    handler = signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.signal(number, handler)


class _Witness:
    """A child in our process group that answers which signals it got."""

    def __init__(self, numbers: list[int]) -> None:
        self.pid: int | None = None
        self._asked = 0
        question, self._ask = os.pipe()
        self._answer, tell = os.pipe()
        with held(numbers):  # no signal may kill the witness before it listens
            with suppress(OSError):
                self.pid = os.fork()
            if self.pid == 0:
                try:
                    _testify(numbers, question, tell)
                finally:
                    os._exit(0)
        os.close(question)
        os.close(tell)

    def pending(self) -> list[int]:
        """Signals that it got since it was asked last; none where it does not answer in time.

        Questions are numbered: an answer that comes too late tells of signals that have been passed on by then,
        and must not be taken for the answer to the next question.
        """
        if self.pid is None:
            return []
        self._asked = (self._asked + 1) % 256
        with suppress(OSError, ValueError):  # ValueError: it is gone, and its pipe is at its end
            os.write(self._ask, bytes([self._asked]))
            deadline = time.monotonic() + PATIENCE
            while (left := deadline - time.monotonic()) > 0:
                with suppress(InterruptedError):
                    if not select.select([self._answer], [], [], left)[0]:
                        continue
                    number, length = os.read(self._answer, 2)
                    found = list(os.read(self._answer, length)) if length else []
                    if number == self._asked:
                        return found
        return []

    def dismiss(self) -> None:
        for handle in (self._ask, self._answer):
            with suppress(OSError):
                os.close(handle)
        if self.pid is not None:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            self.pid = None


def _testify(numbers: list[int], question: int, tell: int) -> None:
    """Answer each question with its number, a length and the signals that are pending; ends with the asker."""
    keep = sorted((question, tell))
    # Whoever reads an output of ours must not wait for this process.
    os.closerange(0, keep[0])
    os.closerange(keep[0] + 1, keep[1])
    os.closerange(keep[1] + 1, 1 << 16)
    while number := os.read(question, 1):
        found = []
        while ready := signal.sigpending() & set(numbers):
            found += [int(signal.sigwait({number})) for number in ready]
        os.write(tell, number + bytes([len(found), *found]))
