"""What tells the user while a run lasts or has just ended: `--hang-after`, `--on-finding`, `--tensorboard`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.lang import say, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model.child_process import child_code
from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.read_limits import REPORT
from gpudoctor.text import duration

if TYPE_CHECKING:
    from gpudoctor.recorder.live_ranks import RankStanding

FIRST_LOOK, LAST_PAUSE = 60.0, 900.0
"""Seconds after which a run is examined for `--on-finding`; the pause doubles up to the second number."""
_PATIENCE = 30.0
"""Seconds that the user's command may take at the end of a run before it is left to itself."""


def add_alarm_flags(group: "argparse._ArgumentGroup") -> None:
    """The flags, for `run`."""
    group.add_argument(
        "--on-finding", metavar="CMD", help="run this shell command for each finding, its JSON on standard input"
    )
    add_tensorboard_flag(group)


def add_tensorboard_flag(group: "argparse._ArgumentGroup | argparse.ArgumentParser") -> None:
    """`--tensorboard`, for `run` and `report`."""
    group.add_argument(
        "--tensorboard", metavar="DIR", help="write step time, phases and memory as an event file into DIR"
    )


def hang_text(still: float, standings: Sequence["RankStanding"]) -> str:
    """The words for a run that stands still."""
    lines = [
        say(
            "gpudoctor: no step has ended for {still}; the command is still running.",
            still=duration(float(round(still))),
        )
    ]
    for item in standings:
        who = (
            say("rank {ranges}", ranges=_ranges(item.ranks))
            if len(item.ranks) == 1
            else say("ranks {ranges}", ranges=_ranges(item.ranks))
        )
        phase = term(item.phase.replace("_", " ")) if item.phase else ""
        at = concatenated(", ", filter(None, (phase, item.place)))
        lines.append(
            say(
                "  {who}: {step:,} steps done{at}",
                who=who,
                step=item.step,
                at=say(", in {place}", place=at) if at else "",
            )
        )
    return "\n".join(lines) + "\n"


def _ranges(ranks: Sequence[int]) -> str:
    """`0-2, 4`."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def write_events(folder: str, host: str, data: bytes) -> None:
    """An event file in the folder, named as TensorBoard expects. Raises `UsageError`."""
    from gpudoctor.errors import UsageError

    name = f"events.out.tfevents.{int(time.time())}.{host or 'run'}.{os.getpid()}.gpudoctor"
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / name).write_bytes(data)
    except OSError as error:
        raise UsageError(
            say("--tensorboard {folder}: cannot be written: {error}", folder=folder, error=error.strerror or error)
        ) from error


class Alarm:
    """Examines the recording now and then in a process of low priority; runs the command for findings."""

    def __init__(self, command: str, folder: Path) -> None:
        self._command, self._folder = command, folder
        self._told: set[tuple[str, str]] = set()
        self._due, self._pause = FIRST_LOOK, FIRST_LOOK
        self._look: subprocess.Popen[bytes] | None = None
        self._running: list[subprocess.Popen[bytes]] = []

    def tick(self, passed: float) -> None:
        """Called about once a second; never waits."""
        self._running = [child for child in self._running if child.poll() is None]
        if self._look is not None:
            if self._look.poll() is not None:
                self._finished()
        elif passed >= self._due:
            self._pause = min(2 * self._pause, LAST_PAUSE)
            self._due = passed + self._pause
            self._look = self._examine()

    def end(self, findings: Sequence[dict[str, Any]]) -> None:
        """The run is over: tell what has not been told, and give the commands a while."""
        self.close()
        self._tell(findings)
        deadline = time.monotonic() + _PATIENCE
        for child in self._running:
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """End the look that is under way."""
        if self._look is not None:
            self._look.kill()
            self._look.wait()
            self._look = None

    def _examine(self) -> "subprocess.Popen[bytes]":
        out = self._folder / ".findings.json"
        words = ["report", str(self._folder), "--format", "json", "--fail-on", "never", "--output", str(out)]
        return subprocess.Popen(
            [sys.executable, "-c", child_code("gpudoctor.cli.low_priority"), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _finished(self) -> None:
        self._look = None
        out = self._folder / ".findings.json"
        with suppress(OSError, ValueError, KeyError):
            self._tell(load_json(read_text(out, REPORT))["findings"])
            out.unlink()

    def _tell(self, findings: Sequence[dict[str, Any]]) -> None:
        for finding in findings:
            key = (str(finding["code"]), str(finding["subject"]))
            if key in self._told:
                continue
            self._told.add(key)
            with suppress(OSError), tempfile.TemporaryFile() as text:
                # A file and not a pipe: a command that does not read its input must not hold us up.
                text.write(json.dumps({**finding, "recording": str(self._folder)}).encode() + b"\n")
                text.seek(0)
                self._running.append(
                    subprocess.Popen(
                        self._command, shell=True, stdin=text, stdout=_standard_error(), start_new_session=True
                    )
                )


def _standard_error() -> int:
    """Where the user's command may write: standard output is the training's."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return subprocess.DEVNULL
