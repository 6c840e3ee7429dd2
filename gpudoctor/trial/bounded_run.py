"""A bounded run: the user's command under the probe, up to a number of steps, a time, or a look that says
enough.

A window ends in the training process itself (`probe/overrides/bounds.py`): it writes what it has recorded and
stands still. Then everything that the run has started is stopped and killed, so no shell script goes on after
it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.records import field, frozen
from gpudoctor.recorder.ending import end_all
from gpudoctor.recorder.folder import CommandEnd, write_end, write_manifest
from gpudoctor.recorder.machine import GpuReadings, MachineSampler
from gpudoctor.recorder.signal_forwarder import held
from gpudoctor.recorder.start_command import CommandError, die_with_us, probed
from gpudoctor.trial.scratch import inside
from gpudoctor.vitals.process.procfs import signal_name

ENOUGH, DONE = "enough", "done-"
OUTPUT = "output.txt"
_TICK = 0.02
_ENDS = [int(getattr(signal, name)) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_TELL = 0.2
"""Seconds between two words on how far it is: what watches must not take time from what is measured."""
_LOOK = 0.5
"""Seconds between two looks at the recording of a run that has no fixed length."""
_GRACE = 3.0
"""Seconds for the other ranks to reach the end of the window once the first has."""
_GONE = 10.0
"""Seconds in which a killed process is gone."""
_FLUSH = 3.0
"""Seconds for a process that was told that it is enough: it looks at the end of its step."""


@frozen
class RunSpec:
    """What to run, and where it ends."""

    command: tuple[str, ...]
    folder: Path
    """Of the recording; exists."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    """Words before the command: what keeps its writes away from the user's files."""
    copied: tuple[str, str] | None = None
    """The copy to work in, and the folder that it is of; the recording names the latter."""
    steps: int | None = None
    """Steps after which it ends; None looks at `enough`."""
    seconds: float = 3600.0
    """Seconds after which it ends in any case."""
    shown: bool = False
    """Whether its output goes to the user's streams; else into a file of the folder."""
    to_stderr: bool = False
    """With `shown`: what it says on standard output goes to standard error."""
    machine: bool = False
    """Whether the machine beside it is sampled."""


@frozen
class RunOutcome:
    """How it ended."""

    folder: Path
    stopped_by: str | None
    """`steps` (or a look that said enough), `seconds`, or None when it ended by itself."""
    exit_code: int | None
    """128+n where a signal killed it; None where we ended it."""
    seconds: float
    left: tuple[int, ...] = ()
    """Processes that could not be ended."""
    copied: tuple[str, str] | None = None
    """The copy that it worked in, and the folder that it is of."""

    @property
    def failed(self) -> bool:
        """Whether it died."""
        return self.stopped_by is None and self.exit_code != 0

    def last_words(self, most: int = 1) -> str:
        """The last lines that it wrote, when they were kept."""
        with suppress(OSError):
            text = (self.folder / OUTPUT).read_text(encoding="utf-8", errors="replace")
            text = text.replace(*self.copied) if self.copied is not None else text
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            return "\n".join(lines[-most:])
        return ""


Enough = Callable[[Path, float], bool]
"""Asked twice a second with the recording's folder and the seconds since the start."""
Watch = Callable[[float], None]
"""Told the seconds since the start, often."""
Watching = Callable[[int, Path], AbstractContextManager[None]]
"""Entered with the first process's id and the recording's folder: who ends the run when we are killed."""


def unwatched(_pid: int, _folder: Path) -> AbstractContextManager[None]:
    """Nobody does."""
    return nullcontext()


def run_bounded(
    plan: RunSpec, *, enough: Enough | None = None, watch: Watch = lambda _seconds: None, watching: Watching = unwatched
) -> RunOutcome:
    """Run it, end it, return how it ended. Raises `CommandError` when it cannot be started."""
    write_manifest(plan.folder, plan.command, {"trial": dict(plan.overrides)})
    started = time.monotonic()
    child: subprocess.Popen[bytes] | None = None
    gpus = GpuReadings(os.environ) if plan.machine else None
    sampler: MachineSampler | None = None
    left: list[int] = []
    stopped_by: str | None = None
    try:
        # A signal in the middle of a fork would be lost: Python calls its hooks then, and drops what they raise.
        with held(_ENDS) as mask:
            child = _start(plan, mask)
        sampler = MachineSampler(plan.folder, child.pid, gpus, started) if gpus is not None else None
        with watching(child.pid, plan.folder):
            stopped_by = _keep(plan, child, started, enough, watch)
    finally:
        if child is not None:
            left = end_all(child.pid, str(plan.folder))
            _reap(child)
        for part in (sampler, gpus):
            if part is not None:
                part.close()
    code, seconds = child.returncode, time.monotonic() - started
    exit_code = None if stopped_by else 128 - code if code < 0 else code
    name = signal_name(-code) or None if code < 0 and not stopped_by else None
    write_end(
        plan.folder, CommandEnd(exit_code=exit_code, signal=name, seconds=round(seconds, 3), stopped_by=stopped_by)
    )
    return RunOutcome(
        folder=plan.folder,
        stopped_by=stopped_by,
        exit_code=exit_code,
        seconds=seconds,
        left=tuple(left),
        copied=plan.copied,
    )


def _reap(child: "subprocess.Popen[bytes]") -> None:
    """Take leave of a child that is dead.

    A signal's handler that raised in the middle of `Popen.poll` has left its lock shut: then by hand.
    """
    try:
        child.wait(_GONE)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            child.returncode = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])


def _start(plan: RunSpec, mask: set[int]) -> "subprocess.Popen[bytes]":
    overrides = {"trial.steps": plan.steps, **plan.overrides}
    _must_exist(plan.command)
    variables = probed(os.environ, plan.folder, {"GPUDOCTOR_OVERRIDES": json.dumps(overrides)})
    if plan.copied is not None:
        path = os.pathsep.join(in_copy(part, plan.copied) for part in variables["PYTHONPATH"].split(os.pathsep))
        variables |= {"GPUDOCTOR_COPIED": json.dumps(plan.copied), "PWD": plan.copied[0], "PYTHONPATH": path}
    dies = die_with_us()

    def prepare() -> None:
        dies()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    output = None if plan.shown else (plan.folder / OUTPUT).open("wb")
    try:
        return subprocess.Popen(
            [*plan.prefix, plan.command[0], *(in_copy(word, plan.copied) for word in plan.command[1:])],
            cwd=plan.copied[0] if plan.copied is not None else None,
            env={**variables, **plan.environment},
            stdin=subprocess.DEVNULL,  # what one run reads the next would miss
            stdout=sys.stderr.fileno() if plan.shown and plan.to_stderr else output,
            stderr=subprocess.STDOUT if output is not None else None,
            start_new_session=True,  # Ctrl-C is for us: we end all of it
            preexec_fn=prepare,
        )
    except (OSError, ValueError) as error:
        raise CommandError(
            say("{command}: cannot be started: {error}", command=plan.command[0], error=error), 126
        ) from None
    finally:
        if output is not None:
            output.close()


def in_copy(word: str, copied: tuple[str, str] | None) -> str:
    """A path, or a word with one behind `=`, as it is in the copy."""
    if copied is None:
        return word
    copy, source = copied
    name, sign, path = word.rpartition("=")
    return f"{name}{sign}{copy}{path[len(source) :]}" if inside(path, source) else word


def _must_exist(command: tuple[str, ...]) -> None:
    """Raise `CommandError` as a shell would; behind a prefix the system's own word would come too late."""
    if shutil.which(command[0]) is None:
        if os.path.exists(command[0]):
            script = command[0].endswith(".py")
            hint = say("; to try a script: gpudoctor verify -- python {command}", command=command[0]) if script else ""
            raise CommandError(say("{command}: cannot be executed{hint}", command=command[0], hint=hint), 126)
        raise CommandError(say("{command}: command not found", command=command[0]), 127)


def _keep(
    plan: RunSpec, child: "subprocess.Popen[bytes]", started: float, enough: Enough | None, watch: Watch
) -> str | None:
    """Wait for the end of the window and return who ended it; None when it ended by itself."""
    looked = shown = started
    told: float | None = None
    first: float | None = None
    while child.poll() is None:
        now = time.monotonic()
        done = sum(name.startswith(DONE) for name in os.listdir(plan.folder))
        if done:
            first = first or now
            if done >= len(list(plan.folder.glob("rank-*.gdr"))) or now - first > _GRACE:
                return "steps"
        if told is None and enough is not None and now - looked >= _LOOK:
            looked = now
            if enough(plan.folder, now - started):
                told = now
                (plan.folder / ENOUGH).touch()
        if told is not None and now - told > _FLUSH and not done:
            return "steps"
        if now - started > plan.seconds:
            return "seconds"
        if now - shown >= _TELL:
            shown = now
            watch(now - started)
        time.sleep(_TICK)
    return None
