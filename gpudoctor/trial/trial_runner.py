"""Runs arms of one command (with one change, or with none), each in a recording of its own."""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.records import field, frozen, replace
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import duration
from gpudoctor.trial.bounded_run import Enough, RunOutcome, RunSpec, Watching, in_copy, run_bounded, unwatched
from gpudoctor.trial.window import FENCES, TrialWindow, fences, first_step, window
from gpudoctor.vitals.recording.reader import read_recording

# An arm of a trial: the user's command with one change, or with none.


@frozen
class Arm:
    """What differs from the command as the user gave it."""

    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """For the probe: name and value."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to set."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Real path of a file to its new text."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Flags of the user's script: `--batch-size` to `16`."""
    command: tuple[str, ...] | None = None
    """Another command altogether."""

    def words(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command with this arm's arguments: replaced where they stand, else added at the end."""
        words = list(self.command or command)
        for flag, value in self.arguments.items():
            words = _with_argument(words, flag, value)
        return tuple(words)


BASELINE = Arm(name="baseline")


def _with_argument(words: list[str], flag: str, value: str) -> list[str]:
    """`--flag value` and `--flag=value` (and Hydra's `key=value`) with another value."""
    for at, word in enumerate(words):
        if word == flag and at + 1 < len(words):
            return [*words[: at + 1], value, *words[at + 2 :]]
        if word.startswith(flag + "="):
            return [*words[:at], f"{flag}={value}", *words[at + 1 :]]
    return [*words, flag, value] if flag.startswith("-") else [*words, f"{flag}={value}"]


_REFUSALS = ("Permission denied", "Read-only file system", "Operation not permitted",
             "Value too large for defined data type", "Invalid cross-device link")  # fmt: skip
"""What programs say of a write that is refused."""
_LOOKED_AT = 20
"""Last lines of a run's output that are searched for it."""
SEED = 20
"""Of every run, as long as the program has none of its own."""
EDITS = "edits.json"
"""A run's file with what it edits: the path, where that lies in the run, the new text."""


@frozen
class Protection:
    """How a run is kept away from the user's files."""

    prefix: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""
    """Why a write may be refused; empty where none is."""
    copied: tuple[str, str] | None = None
    """The copy that the run works in, and the folder that it is of."""


@frozen
class TrialRun:
    """One run of an arm."""

    finished: RunOutcome
    recording: Recording
    window: TrialWindow | None
    """None where it made too few steps."""
    problem: str = ""
    """Why it cannot be used: one clause."""


class TrialRunner:
    """Runs arms one after the other in folders of the scratch place."""

    def __init__(
        self,
        command: tuple[str, ...],
        scratch: Path,
        protect: Callable[[Path], AbstractContextManager[Protection]],
        watching: Watching = unwatched,
    ) -> None:
        self.command = command
        self.scratch = scratch
        self.skip = 0
        """Steps that are set aside in every run."""
        self.steps: int | None = None
        """Steps of a run, the first ones included; None lets it run to its end."""
        self.seconds = 3600.0
        """Seconds after which a run is ended in any case."""
        self.deadline = math.inf
        """On the monotonic clock: no run lasts longer."""
        self.watch: Callable[[str, float], None] = lambda _arm, _seconds: None
        """Told the arm that runs and the seconds since its start, often."""
        self._protect = protect
        self._watching = watching
        self._laps = 0

    def explore(self, folder: Path, *, enough: Enough, to_stderr: bool, seconds: float) -> RunOutcome:
        """The first run: shown to the user, as long as `enough` says that more is needed."""
        with self._protect(folder) as protection:
            plan = replace(
                self._plan(BASELINE, folder, seconds, protection),
                shown=True,
                to_stderr=to_stderr,
                machine=True,
                steps=None,
            )
            return run_bounded(
                plan, enough=enough, watch=lambda passed: self.watch("baseline", passed), watching=self._watching
            )

    def lap(self, arm: Arm) -> TrialRun:
        """One run of an arm over the window."""
        return self.look(arm, steps=self.steps, seconds=self.seconds, timed=True)

    def look(
        self, arm: Arm, *, steps: int | None, seconds: float, machine: bool = False, timed: bool = False
    ) -> TrialRun:
        """One protected run of an arm, of so many steps (None: to its end).

        `machine`: with the machine beside it sampled, as in the first run. `timed`: for its time, and not only for
        what it shows.
        """
        self._laps += 1
        folder = self.scratch / f"lap-{self._laps}"
        folder.mkdir(mode=0o700)
        limit = max(1.0, min(seconds, self.deadline - time.monotonic()))
        with self._protect(folder) as protection:
            finished = run_bounded(
                replace(self._plan(arm, folder, limit, protection), steps=steps, machine=machine),
                watch=lambda passed: self.watch(arm.name, passed),
                watching=self._watching,
            )
        recording, found, problem = read_recording(str(folder)), None, _ended(finished)
        if timed:  # a change that warms up longer (compiling) sets more aside, up to a half
            found = window(recording, first_step(recording, self.skip, steps), steps)
            if not problem and (found is None or found.problems):
                problem = say("it made too few steps to measure") if found is None else found.problems[0]
        if problem and protection.hint and any(words in finished.last_words(_LOOKED_AT) for words in _REFUSALS):
            problem += say(" ({hint})", hint=protection.hint)
        return TrialRun(finished=finished, recording=recording, window=found, problem=problem)

    def _plan(self, arm: Arm, folder: Path, seconds: float, protection: Protection) -> RunSpec:
        overrides: dict[str, Any] = {
            "trial.seed": SEED,
            "trial.isolate": True,
            FENCES: fences(self.skip, self.steps),
            **protection.overrides,
            **arm.overrides,
        }
        edits = [(path, in_copy(path, protection.copied), text) for path, text in arm.texts.items()]
        (folder / EDITS).write_text(json.dumps(edits), encoding="utf-8")
        return RunSpec(
            command=arm.words(self.command),
            folder=folder,
            overrides=overrides,
            environment={"PYTHONHASHSEED": "0", **protection.environment, **arm.environment},
            prefix=protection.prefix,
            copied=protection.copied,
            steps=self.steps,
            seconds=seconds,
        )


def _ended(finished: RunOutcome) -> str:
    """Why a run did not end as it should."""
    if finished.stopped_by == "seconds":
        return say("no end within {seconds}", seconds=duration(finished.seconds))
    if finished.failed:
        words = finished.last_words()
        return say("it ended with exit code {exit_code}", exit_code=finished.exit_code) + (
            say(": {words}", words=words[:200]) if words else ""
        )
    return ""
