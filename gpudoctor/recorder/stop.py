"""Ends a command within a stated time: SIGINT as by Ctrl-C, then SIGTERM, then SIGKILL to all of it."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpudoctor.lang import say
from gpudoctor.recorder.ending import alive, kill, marked, send
from gpudoctor.vitals.process.procfs import takes, tree, usage

GRACE = 30.0
"""Seconds after SIGINT at which a command that still runs gets SIGTERM (`--grace`)."""
LAST = 5.0
"""Seconds after SIGTERM at which it gets SIGKILL, and seconds after SIGKILL that we wait for its processes."""

ENDING = "ending"
"""A file in the recording's folder: the probes write down what they know by now."""
_TELLING = 2.0
"""Seconds for the probes to write down what they know, where SIGTERM is the first signal that has an effect."""

Tell = Callable[[str], None]


class Stopper:
    """Ends the processes of one command, step by step. Each step is told, and noted in `sent`."""

    def __init__(self, root: int, folder: str, grace: float, tell: Tell) -> None:
        self._root, self._folder, self._grace, self._tell = root, folder, grace, tell
        self._reaped = False
        self._began = time.monotonic()
        self._insist_at: float | None = None
        self._kill_at: float | None = None
        self._over_at: float | None = None
        """When to wait no longer, even where a process is left."""
        self._insisted = False
        self._why = say("it still runs")
        """Why it gets SIGTERM."""
        self._known: dict[int, int] = {}
        """Processes of the command by id, with when they started."""
        self.sent: list[tuple[str, float]] = []
        """Names of the signals that we sent, with the seconds since the start."""

    @property
    def ours(self) -> bool:
        """Whether we end the command: then nothing of it is left behind."""
        return self._kill_at is not None

    def ask(self, why: str) -> None:
        """SIGINT to the command's processes as a terminal would send it, once."""
        if self.ours:
            return
        self._expect(self._grace)
        # The probes write down what they know: SIGTERM and SIGKILL leave them no time for it.
        with contextlib.suppress(OSError):  # a full disk: then there is nothing to be written either
            Path(self._folder, ENDING).touch()
        grace = say("{grace:g} s later SIGTERM, {last:g} s after that SIGKILL", grace=self._grace, last=LAST)
        self._tell(
            say(
                "gpudoctor: {why}: the command gets SIGINT, as from Ctrl-C; if it keeps running, {grace}.",
                why=why,
                grace=grace,
            )
        )
        self._note("SIGINT")
        # A terminal's Ctrl-C reaches the foreground group: the command's processes that are in it, and us.
        # Our own group may hold more than that (a shell script that started us), which is to live on.
        group = os.getpgrp()
        for pid in tree(self._root):
            found = usage(pid)
            if found is not None and found.group == group:
                send(pid, signal.SIGINT)
        for pid in self._everyone():  # one that is stopped could not act on it
            send(pid, signal.SIGCONT)
        if not takes(self._root, signal.SIGINT):  # started in the background: Ctrl-C never reaches it
            self._why = say("it ignores SIGINT")
            self._insist_at = time.monotonic() + min(_TELLING, self._grace)

    def expect(self, seconds: float) -> None:
        """The command was asked by somebody else: it gets SIGTERM after so many seconds, 0 for at once."""
        if not self.ours:
            self._expect(seconds)

    def hurry(self) -> None:
        """SIGTERM at the next look, SIGKILL soon after."""
        now = time.monotonic()
        self._insist_at = min(now, self._insist_at or now)
        self._kill_at = min(now + LAST, self._kill_at or now + LAST)

    def look(self) -> None:
        """Do what is due."""
        if self._insist_at is None or self._kill_at is None or self._over_at is not None:
            return
        now = time.monotonic()
        self._remember(tree(self._root) if not self._reaped else ())
        if not self._insisted and now >= self._insist_at:
            self._insist()
        if now >= self._kill_at:
            self._over_at = now + LAST
            killed = kill(self._everyone)
            if killed:
                self._tell(
                    say(
                        "gpudoctor: sent SIGKILL to the rest of the command ({processes}).",
                        processes=_processes(len(killed)),
                    )
                )
                self._note("SIGKILL")

    def left(self) -> bool:
        """Whether processes are left of a command that has ended, and we wait for them to end."""
        if not self.ours:
            return False
        if not self._reaped:
            self._reaped = True
            self._remember(marked(self._folder))
        return not self.given_up and any(True for _ in self._living())

    @property
    def given_up(self) -> bool:
        """Whether even SIGKILL has not ended it: a process inside a driver's call."""
        return self._over_at is not None and time.monotonic() >= self._over_at

    def _expect(self, seconds: float) -> None:
        now = time.monotonic()
        self._insist_at, self._kill_at = now + seconds, now + seconds + LAST
        self._remember(tree(self._root))

    def _insist(self) -> None:
        self._insisted = True
        found = list(self._everyone())
        if found:
            self._tell(
                say(
                    "gpudoctor: sent SIGTERM to the command ({processes}): {why}.",
                    processes=_processes(len(found)),
                    why=self._why,
                )
            )
            self._note("SIGTERM")
        for pid in found:
            send(pid, signal.SIGTERM)
        for pid in found:
            send(pid, signal.SIGCONT)

    def _everyone(self) -> Iterator[int]:
        """Every process of the command that lives: descendants, known ones, those with its environment."""
        self._remember(tree(self._root) if not self._reaped else ())
        self._remember(marked(self._folder))
        yield from self._living()

    def _living(self) -> Iterator[int]:
        for pid, ticks in list(self._known.items()):
            if alive(pid) and (found := usage(pid)) is not None and found.ticks == ticks:
                yield pid

    def _remember(self, pids: "Iterator[int] | list[int] | tuple[int, ...]") -> None:
        for pid in pids:
            if pid not in self._known and (found := usage(pid)) is not None:
                self._known[pid] = found.ticks

    def _note(self, name: str) -> None:
        self.sent.append((name, round(time.monotonic() - self._began, 3)))


def _processes(number: int) -> str:
    return "1 process" if number == 1 else say("{number} processes", number=number)
