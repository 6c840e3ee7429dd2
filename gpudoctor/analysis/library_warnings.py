"""What libraries said themselves while the program ran: the findings that follow."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import recorded, spots
from gpudoctor.lang import term
from gpudoctor.model import Check, Confidence, Cost, Evidence, Finding, LogLine, Patient, Severity
from gpudoctor.model.log_message import Bearing, LibraryDetail
from gpudoctor.model.unavailable import optional

if TYPE_CHECKING:
    from gpudoctor.model.log_message import LibraryWarning
    from gpudoctor.model.run import Warned

_NUMBER = re.compile(r"\d+")


def said_in(recording: "of_run.Recording") -> "tuple[Warned, ...]":
    """The warnings of a run, each text once: of the first rank that had it, with the counts of all."""
    from gpudoctor.model.run import Warned

    found: dict[tuple[str, str], Warned] = {}
    for process in recording.ranks:
        last = {(item.get("library"), str(item.get("text"))): item for item in process.of("warning")}
        for (library, text), item in last.items():
            key = str(library or ""), _NUMBER.sub("0", text)
            times = int(item.get("count") or 1)
            if key in found:
                found[key] = replace(found[key], count=found[key].count + times)
            else:
                place = {"path": item.get("path"), "line": item.get("line")}
                found[key] = Warned(library=key[0], text=text, count=times, **place)
    return tuple(found.values())


def library_findings(check: Check, patient: Patient) -> Iterator[Finding]:
    """A finding for each of the check's rows that a library said in a run, or else in a job's log."""
    recording = recorded(patient)
    for row in check.library_warnings:
        if recording is not None:
            for told in said_in(recording):
                if re.search(row.pattern, told.text):
                    line = LogLine(origin=told.library or "Python", text=told.text.split("\n")[0][:300])
                    place = of_run.LinePlace(path=told.path, line=told.line or 0, function="") if told.path else None
                    yield _finding(check, row, (line, *spots(patient, place)))
                    break
        elif log := optional(lambda: patient.job_log):
            from gpudoctor.analysis.job_log.findings import log_line

            hints = (item for item in log.events if item.bearing is Bearing.HINT)
            event = next((item for item in hints if re.search(row.pattern, item.text)), None)
            if event is not None:  # nobody knows what came of it
                most = Severity.NOTE if row.severity is Severity.NOTE else Severity.WARNING
                yield _finding(check, replace(row, severity=most), (log_line(event),))


def _finding(check: Check, row: "LibraryWarning", evidence: tuple[Evidence, ...]) -> Finding:
    return check.finding(
        term(row.text),
        evidence=evidence,
        confidence=Confidence.PROBABLE,
        severity=row.severity,
        cost=Cost(breaks=term(row.breaks) if row.breaks else None),
        subject=row.kind,
        detail=LibraryDetail(row.kind, advice=row.advice),
    )
