"""Windows of one command by the machinery of `gpudoctor verify`: the noise that its trials live with."""

import csv
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

FIELDS = ("window", "seconds", "steps", "lap_seconds", "load", "command")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One window."""

    window: int
    seconds: float
    """A step, as a pair would count it."""
    steps: int
    lap_seconds: float
    """The whole run, its start and its end included."""
    load: float
    """Of the machine, over a minute."""
    command: str


def record(command: tuple[str, ...], windows: int, say: Callable[[str], None]) -> list[Measured]:
    """So many windows one after the other, as verify runs its baseline. Raises `SystemExit` if that fails."""
    from gpudoctor.trial.processes import CleanupWatchdog, adopt_orphans
    from gpudoctor.trial.protection import RunProtection
    from gpudoctor.trial.scratch import remove_scratch, scratch_folder
    from gpudoctor.trial.session import TrialSession
    from gpudoctor.trial.trial_runner import BASELINE, TrialRunner
    from gpudoctor.vitals.recording import read_recording

    adopt_orphans()
    scratch = scratch_folder()
    watchdog = CleanupWatchdog(scratch)
    try:
        bench = TrialRunner(command, scratch, RunProtection(scratch, command).protect, watchdog.watching)
        session = TrialSession(bench=bench, budget=86_400.0)
        folder = scratch / "baseline"
        folder.mkdir(mode=0o700)
        say("the command as it is")
        finished = bench.explore(folder, enough=session.enough, to_stderr=True, seconds=600.0)
        if finished.failed or not session.choose_window(read_recording(str(folder)), finished.stopped_by is None):
            raise SystemExit("the command failed, or made too few steps")
        found = []
        for number in range(windows):
            began = time.monotonic()
            lap = bench.lap(BASELINE)
            if lap.window is None or lap.problem:
                raise SystemExit(lap.problem)
            spent = round(time.monotonic() - began, 3)
            window = lap.window
            load = round(os.getloadavg()[0], 2)
            found.append(Measured(window=number, seconds=window.seconds, steps=window.steps, lap_seconds=spent,
                                  load=load, command=" ".join(command[1:])))  # fmt: skip
            say(f"window {number + 1} of {windows}: {1000 * window.seconds:.3f} ms a step, {spent:.1f} s")
        return found
    finally:
        remove_scratch(scratch)
        watchdog.dismiss()


def read(path: Path) -> list[Measured]:
    """The windows of a file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Measured(window=int(row["window"]), seconds=float(row["seconds"]), steps=int(row["steps"]),
                     lap_seconds=float(row["lap_seconds"]), load=float(row["load"]), command=row["command"])
            for row in csv.DictReader(file)
        ]  # fmt: skip


def write(path: Path, measured: list[Measured]) -> None:
    """As CSV, a row a window."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(item) for item in measured)


def say(words: str) -> None:
    """Progress."""
    print(words, file=sys.stderr, flush=True)
