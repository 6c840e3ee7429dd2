"""What a watched job prints, if that goes to files: the first cause of its death, as `autopsy` names it."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.analysis.live.rank_positions import standing_for
from gpudoctor.engine.examination import Request, examine
from gpudoctor.lang import say
from gpudoctor.model import Confidence, Patient, PatientKind, Ranked, Report, Severity, Sign, Signs
from gpudoctor.model.signs.job_log import JobLog
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.model.unavailable import Unread
from gpudoctor.text import capitalised
from gpudoctor.vitals.job_log import read_job_log
from gpudoctor.vitals.output_files import output_of, own_output

_TAIL = 4 << 20
"""Bytes at the end of each file that are read."""
_MOST_FILES = 64
_EVERY, _SHARE = 5.0, 0.01
"""Seconds between two looks at files that grow, and the most of one core that they take."""
_STILL = 15.0
"""Seconds without a change of any rank's stack after which the output is read at once."""
_FOLLOWED = 25
"""Ordinary lines behind an error after which a job that moves has gone on."""
_KEEP = say("start the job with `> job.out 2>&1`, or torchrun with `--tee 3 --log-dir logs`")


class JobOutput:
    """The output of the processes that are watched."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._files: dict[str, int] = {}
        self._elsewhere = ""
        self._known: set[int] = set()
        self._read: dict[str, int] | None = None
        """The sizes that were read last."""
        self._due = 0.0
        self._log: JobLog | None = None

    def find(self, pids: Iterable[int]) -> None:
        """Note where these processes print to, while they run."""
        for pid in pids:
            if pid in self._known or len(self._files) >= _MOST_FILES:
                continue
            found = output_of(pid)
            if found.files:  # one that prints to a pipe yet may open a file of its own later
                self._known.add(pid)
            own = own_output().starts  # what we print ourselves says nothing of the job
            for path, start in found.files.items():
                if path not in own:
                    self._files.setdefault(path, start)
            self._elsewhere = self._elsewhere or found.elsewhere

    def add_to(self, report: Report, window: ProcessWindow, title: str, *, at_once: bool = False) -> Report:
        """The report, with what the output says of a death; `at_once` reads what came since the last look."""
        if not self._files:
            return self._unread(report, window)
        alive = [rank for rank in window.ranks if rank.alive]
        still = bool(alive) and all(rank.stack and standing_for(rank) >= _STILL for rank in alive)
        self._look(window.t, at_once=at_once or still or bool(window.ended))
        cause = first_cause(self._log) if self._log is not None else None
        if self._log is None or cause is None:
            return report
        moves = bool(alive) and not still
        if moves and (cause.root is None or cause.root.followed > _FOLLOWED):
            return report
        signs = Signs(job_log=Sign.of("the log", self._log))
        targets = tuple(item.path for item in self._log.files)
        said = examine(Patient(PatientKind.LOG, title, signs, targets=targets), self._request)
        return _joined(report, said, window, moves=moves)

    def _unread(self, report: Report, window: ProcessWindow) -> Report:
        if not self._elsewhere:
            return report
        sentence = say(
            "The job prints to {elsewhere}, which gpudoctor cannot read; {keep}.", elsewhere=self._elsewhere, keep=_KEEP
        )
        summary = report.summary
        if window.ended:
            printed = say(
                "The job printed to {elsewhere}, which gpudoctor cannot read; {keep}.",
                elsewhere=self._elsewhere,
                keep=_KEEP,
            )
            verdict = say("{verdict} {printed}", verdict=summary.verdict, printed=printed)
            summary = replace(summary, verdict=verdict)
        return replace(report, summary=summary, remarks=(*report.remarks, sentence))

    def _look(self, t: float, *, at_once: bool) -> None:
        """Read the ends of the files if they have grown, and the last look was cheap enough or is long ago."""
        if not at_once and t < self._due:
            return
        sizes: dict[str, int] = {}
        for path, start in self._files.items():
            with suppress(OSError):
                size = os.stat(path).st_size
                if size < start:
                    self._files[path] = start = 0  # it was emptied
                if size > start:
                    sizes[path] = size
        if sizes == self._read or not sizes:
            return
        began = time.process_time()
        starts = {path: max(self._files[path], size - _TAIL) for path, size in sizes.items()}
        try:
            self._log = read_job_log(list(sizes), self._request.registry.log_messages(), starts)
        except Unread:
            self._log = None
        self._read = sizes
        self._due = t + max(_EVERY, (time.process_time() - began) / _SHARE)


def _joined(report: Report, said: Report, window: ProcessWindow, *, moves: bool) -> Report:
    """The report of the processes with the findings of their output before its own."""
    found = [_of_output(item, moves=moves) for item in said.findings]
    codes = {item.finding.code for item in found}
    ranked = [*found, *(item for item in report.findings if item.finding.code not in codes)]
    error, warning, note = (
        sum(item.finding.severity is each for item in ranked)
        for each in (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    )
    if window.ended:
        verdict = say("{ended}. {verdict}", ended=capitalised(window.ended), verdict=said.summary.verdict)
    elif moves:
        verdict = say("Its output names an error, and the process goes on. {verdict}", verdict=report.summary.verdict)
    else:
        verdict = say(
            "By its output: {verdict} {own_verdict}", verdict=said.summary.verdict, own_verdict=report.summary.verdict
        )
    outcomes = {item.code: item for item in report.outcomes}
    outcomes |= {item.code: item for item in said.outcomes if item.code in codes}
    return replace(
        report,
        findings=tuple(replace(item, rank=number) for number, item in enumerate(ranked, 1)),
        outcomes=tuple(outcomes[code] for code in sorted(outcomes)),
        summary=replace(report.summary, verdict=verdict.strip(), error=error, warning=warning, note=note),
        log=said.log,
    )


def _of_output(item: Ranked, *, moves: bool) -> Ranked:
    """A finding of the output; of a process that goes on, the error may have been handled."""
    if not moves:
        return item
    finding = replace(item.finding, severity=Severity.WARNING, confidence=Confidence.SUSPECTED)
    return replace(item, finding=finding)
