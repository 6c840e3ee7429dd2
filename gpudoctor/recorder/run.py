"""One recorded run: starts the command, passes signals on, samples the machine, writes how it ended."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.records import field, frozen
from gpudoctor.model.redaction import mask_cut
from gpudoctor.model.unavailable import optional
from gpudoctor.recorder.folder import MANIFEST, CommandEnd, keep_scripts, write_end, write_manifest
from gpudoctor.recorder.live_ranks import STOP, Now, look
from gpudoctor.recorder.machine import GpuReadings, MachineSampler
from gpudoctor.recorder.signal_forwarder import SignalForwarder, stop_like
from gpudoctor.recorder.start_command import CommandError, probed, start
from gpudoctor.recorder.stop import GRACE, LAST, Stopper, Tell
from gpudoctor.text import duration
from gpudoctor.vitals.host.cgroup import control_group
from gpudoctor.vitals.kernel_log import read_kernel_log
from gpudoctor.vitals.process.procfs import signal_name

# What the system tells of a death: memory kills counted by the control group, and the kernel's words.

_TELLING = re.compile(
    r"out of memory|oom|killed process|segfault|general protection|trap |bus error|NVRM|Xid|nvidia|"
    r"I/O error|EXT4-fs error|XFS .*error|nfs: server|hung task|blocked for more than|mce:|Machine check",
    re.IGNORECASE,
)
_MOST, _LONGEST = 40, 300
_BEFORE = 2.0
"""Seconds by which the kernel's clock may be off."""


def memory_kills() -> int:
    """Processes of our control group that were killed for memory so far; 0 where nobody counts."""
    return control_group().memory_kills() or 0


def kernel_lines(seconds: float) -> tuple[str, ...]:
    """Messages of the last so many seconds that speak of memory, a GPU, a disk or a fault; newest last."""
    log = optional(read_kernel_log)
    lines = [
        mask_cut(message.text, _LONGEST)
        for message in (log.messages if log is not None else ())
        if message.age is not None and message.age <= seconds + _BEFORE and _TELLING.search(message.text)
    ]
    return tuple(lines[-_MOST:])


TICK = 0.25
"""Seconds between two looks at the folder; a signal or the command's end interrupts the wait."""
_LIVE = 1.0
_STOPS = (int(signal.SIGTSTP), int(signal.SIGTTIN), int(signal.SIGTTOU))
_ENDS = (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP), int(signal.SIGQUIT))
_PRESSES = 3
_APART = 0.5
"""Seconds between two Ctrl-C that are meant: a key that is held down repeats faster."""
_WAITED = 10.0
_KEEPING = 10.0
"""Seconds that the scripts' texts may still take once the command has ended."""
_HOW = say("(SIGTERM, {last:g} s later SIGKILL; --grace S does it S seconds after the first)", last=LAST)

Handler = Callable[[int, Any], None]


@frozen
class RunPlan:
    """What to run and when to stop."""

    command: tuple[str, ...]
    folder: Path
    steps: int | None = None
    seconds: float | None = None
    grace: float | None = None
    """Seconds from the request to end to SIGTERM. None: `GRACE` after `steps` and `seconds`, and all the time
    that the command takes after somebody else's signal."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """For the probe: `hang_after` and the like."""


Observer = Callable[[Now, float], None]
"""Called about once a second with the run as it is and the seconds since its start."""


def _silent(_text: str) -> None:
    """Nobody listens."""


def record(
    plan: RunPlan,
    observe: Observer,
    before_stop: Callable[[], None] | None = None,
    *,
    tell: Tell = _silent,
    afterwards: Handler | None = None,
) -> CommandEnd:
    """Run the command to its end and record it; returns how it ended.

    `before_stop` is called before Ctrl-Z stops us: the terminal belongs to the shell then. `tell` gets a
    sentence for each step of an ending that is ours. `afterwards` handles the signals that ask for the end
    once the command has ended: no signal falls into a gap.

    Raises `CommandError` when it cannot be started. Nothing that goes wrong with the recording reaches it.
    """
    write_manifest(plan.folder, plan.command, plan.settings)
    kills = memory_kills()
    started = time.monotonic()
    post = SignalForwarder()
    with post.open(dict.fromkeys(_ENDS, afterwards) if afterwards is not None else {}):
        try:
            child = start(plan.command, probed(os.environ, plan.folder, _variables(plan)), post.numbers)
        except CommandError:  # nothing ran: no recording is left
            with contextlib.suppress(OSError):
                (plan.folder / MANIFEST).unlink()
                plan.folder.rmdir()
            raise
        watchdog = _Watchdog(plan, child, post, observe, before_stop, tell)
        with _beside(plan.folder, child.pid, started, watchdog):
            code = watchdog.keep(started)
            seconds = time.monotonic() - started
    signalled = -code if code < 0 else None
    ending = CommandEnd(
        exit_code=128 + signalled if signalled else code,
        signal=signal_name(signalled) or say("signal {number}", number=signalled) if signalled else None,
        seconds=round(seconds, 3),
        stopped_by=watchdog.stopped_by if code else watchdog.stopped_by_us,
        oom_kills=max(0, memory_kills() - kills),
        kernel=kernel_lines(seconds) if code and watchdog.stopped_by is None else (),
        lost_bytes=watchdog.lost_bytes,
        problems=tuple(watchdog.problems),
        signals=tuple(watchdog.stopper.sent),
    )
    write_end(plan.folder, ending)
    return ending


@contextlib.contextmanager
def _beside(folder: Path, root: int, started: float, watchdog: "_Watchdog") -> Iterator[None]:
    """Sample the machine while the body runs; what fails here is a problem, and the run goes on."""
    gpus: GpuReadings | None = None
    sampler: MachineSampler | None = None
    # The command does not wait for it, and has read its script long before anybody edits it.
    keeper = threading.Thread(target=watchdog.keep_scripts, name="scripts", daemon=True)
    keeper.start()
    with watchdog.unharmed("sampling of the machine"):
        gpus = GpuReadings(os.environ)
        sampler = MachineSampler(folder, root, gpus, started)
    try:
        yield
    finally:
        with watchdog.unharmed("sampling of the machine"):
            if sampler is not None:
                sampler.close()
                watchdog.lost_bytes = sampler.lost_bytes
                watchdog.problems += [sampler.error] if sampler.error else []
            if gpus is not None:
                gpus.close()
        keeper.join(_KEEPING)


def _variables(plan: RunPlan) -> dict[str, str]:
    import json

    variables = {}
    if plan.steps is not None:
        variables["GPUDOCTOR_STEPS"] = str(plan.steps)
    if plan.settings:
        variables["GPUDOCTOR_SETTINGS"] = json.dumps(plan.settings)
    return variables


class _Watchdog:
    """Waits for the command's end and does what is to be done meanwhile."""

    def __init__(
        self,
        plan: RunPlan,
        child: "subprocess.Popen[bytes]",
        post: SignalForwarder,
        observe: Observer,
        before_stop: Callable[[], None] | None,
        tell: Tell,
    ) -> None:
        self._plan, self._child, self._post = plan, child, post
        self._observe, self._before_stop, self._tell = observe, before_stop, tell
        grace = GRACE if plan.grace is None else plan.grace
        self.stopper = Stopper(child.pid, str(plan.folder), grace, tell)
        self._presses = Presses()
        self.problems: list[str] = []
        """What failed on our side, a sentence each."""
        self.lost_bytes = 0
        """Of samples of the machine that could not be written."""
        self.stopped_by_us: str | None = None
        """`steps` or `seconds`."""
        self.interrupted = False
        """Whether somebody asked the command to end."""

    def keep_scripts(self) -> None:
        """Write down the texts that run."""
        with self.unharmed("keeping the scripts"):
            keep_scripts(self._plan.folder, self._plan.command)

    @property
    def stopped_by(self) -> str | None:
        """Who ended it, if anybody did: `steps`, `seconds`, `interrupt`."""
        return self.stopped_by_us or ("interrupt" if self.interrupted else None)

    def keep(self, started: float) -> int:
        """The command's exit code, negative when a signal killed it.

        Where the end is ours, no process of it is left. One that SIGKILL cannot end is, and is a problem.
        """
        observed = started
        while (code := self._child.poll()) is None or self.stopper.left():
            if self.stopper.given_up:
                self.problems.append(say("processes of the command are still alive after SIGKILL"))
                break
            for number in self._note(self._post.wait(TICK)):
                self._pass_on(number)
            now = time.monotonic()
            with self.unharmed("stopping"):
                self._stop_when_due(now - started)
            if now - observed >= _LIVE:
                observed = now
                with self.unharmed("the live line"):
                    self._observe(look(self._plan.folder), now - started)
        self._note(self._post.wait(0))  # what came with the end
        return -int(signal.SIGKILL) if code is None else code

    @contextlib.contextmanager
    def unharmed(self, what: str) -> Iterator[None]:
        """Whatever fails inside is noted: the command depends on us, for it ends when we do."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            sentence = say("{what} failed: {kind}: {error}", what=what, kind=type(error).__name__, error=error)
            if sentence not in self.problems:
                self.problems.append(sentence)

    def _note(self, numbers: list[int]) -> list[int]:
        """The same signals, once it is known whether one asks for the end."""
        asked = any(number in _ENDS for number in numbers)
        self.interrupted = self.interrupted or asked
        if asked and self._plan.grace is not None:
            self.stopper.expect(self._plan.grace)
        if int(signal.SIGINT) in numbers and self._child.returncode is None:
            words = self._presses.press(time.monotonic())
            if self._presses.enough:
                self.stopper.hurry()
            if words:
                self._tell(words)
        return numbers

    def _pass_on(self, number: int) -> None:
        if not self._post.was_for_all(number):
            with contextlib.suppress(OSError):
                # Only while it has not been waited for, else its number might be somebody else's by now.
                self._child.send_signal(number)
        if number in _STOPS:
            with self.unharmed("the live line"):
                if self._before_stop is not None:
                    self._before_stop()
            stop_like(number)

    def _stop_when_due(self, seconds: float) -> None:
        if self.stopped_by_us is None and self._child.returncode is None:
            if self._plan.steps is not None and (self._plan.folder / STOP).exists():
                self.stopped_by_us = "steps"
                self.stopper.ask(say("{steps:,} steps are made", steps=self._plan.steps))
            elif self._plan.seconds is not None and seconds >= self._plan.seconds:
                self.stopped_by_us = "seconds"
                self.stopper.ask(say("{seconds} are over", seconds=duration(self._plan.seconds)))
        self.stopper.look()
        if not self.stopper.ours and (words := self._presses.waiting(time.monotonic())):
            self._tell(words)


class Presses:
    """Counts Ctrl-C by hand: the command has the first two for itself, the third ends it."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._told = False

    @property
    def enough(self) -> bool:
        """Whether the user has insisted."""
        return len(self._times) >= _PRESSES

    def press(self, now: float) -> str:
        """One Ctrl-C; a sentence where there is something to say. A key that is held down counts once."""
        if self._times and now - self._times[-1] < _APART:
            return ""
        self._times.append(now)
        if len(self._times) == _PRESSES - 1:
            self._told = True
            return say("gpudoctor: the command got Ctrl-C for the second time; the third one ends it. {how}", how=_HOW)
        return ""

    def waiting(self, now: float) -> str:
        """A sentence, once, where the command still runs a while after the first."""
        if self._told or not self._times or now - self._times[0] < _WAITED:
            return ""
        self._told = True
        return say(
            "gpudoctor: the command still runs {waited:g} s after Ctrl-C, and gpudoctor waits; the "
            "third Ctrl-C ends it. {how}",
            waited=_WAITED,
            how=_HOW,
        )
