"""A live watch: the collectors' window and its examination, put together once a tick."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from gpudoctor.engine.claims import FEWEST_SAMPLES
from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.watch_verdict import pronounce_live
from gpudoctor.lang import say
from gpudoctor.model import Patient, PatientKind, Report, Sign
from gpudoctor.model.signs.process import ProcessWindow, Rank
from gpudoctor.model.watch import Tick
from gpudoctor.vitals.build_patient import PatientRequest, admit
from gpudoctor.vitals.job.launch import find_launch
from gpudoctor.vitals.process.watcher import WINDOW, Watcher
from gpudoctor.vitals.targets import Targets
from gpudoctor.watch.exporter import Exporter
from gpudoctor.watch.window_summary import summarise

EXAMINE_EVERY = 2.0
"""Seconds between two examinations; the window is taken anew every tick."""
_SHARE = 0.01
"""Of one core, the most that examinations take."""


class WatchSession:
    """Ticks of the processes that the user named. Raises `IncompleteError` when they cannot be watched."""

    def __init__(
        self, pids: Sequence[int], request: Request, *, length: float = WINDOW, exporter: Exporter | None = None
    ) -> None:
        self._exporter = exporter
        self._watcher = Watcher(pids, length=length)
        self._request = request
        self._base: Patient | None = None
        self._report: Report | None = None
        self._due = 0.0
        self._samples = 0
        self.paused = False

    def tick(self, *, judge: bool = False) -> Tick:
        """The job now; `judge` examines this very window, which else happens every few ticks."""
        window = self._watcher.tick()
        enough = self._samples < FEWEST_SAMPLES <= window.samples
        if self._report is None or judge or enough or window.t >= self._due or window.ended:
            self._report = self._examine(window)
        elif self._samples < window.samples < FEWEST_SAMPLES:
            # the next examination may be a minute away; the first sentence counts the samples
            verdict = pronounce_live(window, self._report.findings, self._report.outcomes)
            self._report = replace(self._report, summary=replace(self._report.summary, verdict=verdict))
        tick = Tick(window=window, report=self._report)
        if self._exporter is not None:
            self._exporter.take(tick)
        return tick

    def pause(self, on: bool) -> None:
        """Stop looking at stacks, or go on."""
        self.paused = on
        self._watcher.pause(on)

    def close(self) -> None:
        """End; the target goes on."""
        self._watcher.close()
        if self._exporter is not None:
            with suppress(OSError):
                self._exporter.close()

    def _examine(self, window: ProcessWindow) -> Report:
        began = time.process_time()
        survey = self._watcher.survey()
        rank = window.ranks[0]
        if self._base is None:
            self._base = admit(
                PatientRequest(
                    targets=Targets(items=()), command=absolute(rank), pid=rank.pid, python=rank.python or None
                )
            )
        signs = replace(self._base.signs, process=Sign.of("the process", window))
        if survey is not None:
            signs = replace(signs, gpu_survey=Sign.of("the GPUs", survey))
        patient = Patient(PatientKind.PROCESS, title(window), signs, targets=tuple(str(r.pid) for r in window.ranks))
        report = examine(patient, self._request, _unseen(window))
        self._samples = window.samples
        cost = time.process_time() - began
        self._due = window.t + max(EXAMINE_EVERY, cost / _SHARE)
        return replace(report, run=summarise(window))


def _unseen(window: ProcessWindow) -> list[str]:
    """What makes the examination incomplete: a job of which no stack at all can be read."""
    gaps = [gap for gap in window.gaps if gap.panel == "stacks"]
    return [say("no stacks: {reason}", reason=gap.reason) for gap in gaps[:1]] if not window.samples else []


def title(window: ProcessWindow) -> str:
    """`train.py (pid 123)`, `train.py (8 ranks)`."""
    first = window.ranks[0]
    count = len(window.ranks)
    return say(
        "{program} ({count})",
        program=program(first),
        count=say("{count} ranks", count=count) if count > 1 else say("pid {pid}", pid=first.pid),
    )


def program(rank: Rank) -> str:
    """The script or module that a process runs, for headings."""
    found = find_launch(rank.command)
    if found is not None and (name := found.module or found.script or found.shell_script):
        return name if found.module else os.path.basename(name)
    return os.path.basename(rank.command[0]) if rank.command else "process"


def absolute(rank: Rank) -> tuple[str, ...]:
    """The command line with the script's path as seen from here: it is relative to the process's folder."""
    return tuple(
        os.path.join(rank.cwd, word)
        if word.endswith(".py") and not os.path.isabs(word) and os.path.isfile(os.path.join(rank.cwd, word))
        else word
        for word in rank.command
    )
