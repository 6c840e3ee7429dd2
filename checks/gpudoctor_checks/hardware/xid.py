"""GPU004 xid."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.live.stack_shares import watched
from gpudoctor.lang import say, term
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Finding,
    LogDetail,
    LogLine,
    Measurement,
    Patient,
    Reads,
    Severity,
    Threshold,
    Unavailable,
)
from gpudoctor.model.job_devices import CardsDetail
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.hardware.xid_log import XidEvent, events, meaning_of, place_of

_BY_NUMBER = frozenset({"off-the-bus", "xid", "xid-program", "nvlink"})
"""Kinds of messages that may be an Xid or SXid event."""
_OF_NVIDIA = re.compile(r"NVRM|nvidia-nvswitch")


@dataclass(frozen=True, slots=True, kw_only=True)
class XidDetail(CardsDetail):
    """What the rule reads."""

    code: int
    """The number of the event."""
    action: str
    """What the table says is to be done."""
    advice: str
    recovery: str
    """The driver's own words."""


class Xid(Check):
    """The driver has logged an error event (Xid) of a GPU.

    What it finds:
        Xid events of the NVIDIA driver and SXid events of NVSwitches in the kernel log of this boot. This
        includes a GPU that fell off the bus without a number. One finding for each number and GPU.
    Why it hurts:
        An Xid is the driver's only record of why a job died. Some (48, 64, 79, 95) mean that the card or its
        slot is failing. The next job on the node will die too. Others (13, 31, 43) mean that a program did
        something illegal. Draining the node for them wastes a healthy machine.
    How it knows:
        It reads the last 24 hours of the kernel log (journal, /dev/kmsg, dmesg or syslog), or a whole saved
        one. A table has the 172 numbers of NVIDIA's catalogue. From a job's log: the messages that name it, in
        the exception or line that came first.
    False alarms:
        Events of a program that was killed on purpose (45), or of another user's job. The log covers the whole
        machine. Both are notes. An error that a reset has settled since becomes a note.
    Remedies:
        By number: check the program, restart it, reset the GPU, reboot, or have the card replaced.
    References:
        - https://docs.nvidia.com/deploy/xid-errors/index.html
        - https://github.com/leptonai/gpud
        - https://github.com/Azure/azurehpc-health-checks
    """

    code = Code("GPU004")
    name = "xid"
    reads = frozenset({Reads.ENVIRONMENT, Reads.PROCESS, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold(
            name="window",
            default=86400,
            unit="s",
            source="node checkers look back 2 h (AzureHPC) to the whole boot (gpud); a day covers one job",
            meaning="Older events are not counted.",
        ),
        Threshold(
            name="repeats",
            default=3,
            unit="{events}",
            source="NVIDIA's Xid workflows: an application fault that repeats on one GPU needs attention",
            meaning="This many events on one GPU turn a note into a warning.",
        ),
    )

    def beside_log(self, finding: Finding, patient: Patient) -> Finding | None:
        """Nothing for an event of the kernel log that `examine` judges by its number."""
        kernel = optional(lambda: patient.kernel_log)
        detail = finding.detail
        judged = (
            kernel is not None
            and isinstance(detail, LogDetail)
            and detail.kind in _BY_NUMBER
            and any(
                isinstance(item, LogLine) and item.origin == kernel.origin and _OF_NVIDIA.search(item.text)
                for item in finding.evidence[:1]
            )
        )
        return None if judged else finding

    def examine(self, patient: Patient) -> Iterator[Finding]:
        live = _live(patient)
        try:
            log = patient.kernel_log
        except Unavailable:
            if not live:
                raise
            log = KernelLog(origin="NVML events", messages=())
        window = self.limit("window")
        recent = [message for message in log.messages if message.age is None or message.age <= window]
        found = [event for event in events(recent) if not event.settled]
        logged = {event.code for event in found}
        found += [event for event in live if event.code not in logged]
        settled = {event.address: event for event in events(recent) if event.settled}
        survey = _survey(patient)
        primary = {event.address for event in found if not meaning_of(event).follows}
        groups: dict[tuple[str, int], list[XidEvent]] = {}
        for event in found:
            row = meaning_of(event)
            if row.cancels is not None:
                groups.pop((event.address, row.cancels), None)
            if not (row.follows and event.address in primary):
                groups.setdefault((event.address, event.code), []).append(event)
        for group in groups.values():
            yield self._judge(group, settled, survey, log)

    def _judge(
        self, group: list[XidEvent], settled: dict[str, XidEvent], survey: GpuSurvey | None, log: KernelLog
    ) -> Finding:
        last = group[-1]
        row = meaning_of(last)
        severity = max((self._severity(event, group, survey) for event in group), key=lambda item: item.rank)
        cured = all(_is_settled(event, settled) for event in group)
        if cured:
            severity = Severity.NOTE
        where = place_of(last, survey)
        kind = "SXid" if last.switch else "Xid"
        times = say(", {group} times", group=len(group)) if len(group) > 1 else ""
        asked = say(" to {recovery}", recovery=last.recovery) if last.recovery else ""
        blame = {
            "application": say(" The cause is the program that ran on it, not the node."),
            "unknown": say(" The cause may be the program, the driver or the hardware."),
        }.get(row.blame, "")
        since = say(" The driver has withdrawn its request for a reset since then.") if cured else ""
        return self.finding(
            say(
                "{kind} {code} ({row}{asked}) on {where}{times}{ago}. {meaning}{blame}{since}",
                kind=kind,
                code=last.code,
                row=term(row.name),
                asked=asked,
                where=where,
                times=times,
                ago=_ago(last),
                meaning=term(row.meaning),
                blame=blame,
                since=since,
            ),
            evidence=(
                LogLine(origin=log.origin, text=last.text, line=last.line, time=last.time),
                Measurement(
                    name="xid_events",
                    value=len(group),
                    unit="{events}",
                    reproduce=log.searched("Xid|fallen off the bus"),
                ),
            ),
            confidence=Confidence.CONFIRMED if _dated(last) else Confidence.PROBABLE,
            severity=severity,
            cost=Cost(breaks=say("{where} may stop working or give wrong results", where=where))
            if severity is Severity.ERROR
            else None,
            subject=where,
            detail=XidDetail(
                gpus=where.removeprefix("GPU ") if where.startswith("GPU ") else "",
                code=last.code,
                action=row.action,
                advice=term(row.advice),
                recovery=last.recovery or "",
            ),
        )

    def _severity(self, event: XidEvent, group: list[XidEvent], survey: GpuSurvey | None) -> Severity:
        row = meaning_of(event)
        word = row.severity
        if row.single and survey and len(survey.gpus) + len(survey.lost) == 1:
            word = row.single
        if row.repeated and len(group) >= self.limit("repeats"):
            word = row.repeated
        if row.fatal and event.fatal:
            word = row.fatal
        return Severity(word)


def _live(patient: Patient) -> list[XidEvent]:
    """Events that the driver reported while the process was watched."""
    window = watched(patient)
    if window is None:
        return []
    return [
        XidEvent(
            code=event.number,
            address=event.pci_address.lower().split(".")[0],
            switch=False,
            fatal=None,
            recovery=None,
            text=say("Xid {event_number} on GPU {gpu}", event_number=event.number, gpu=event.gpu),
            age=window.t - event.t,
            time=None,
        )
        for event in window.events
        if event.kind == "xid"
    ]


def _survey(patient: Patient) -> GpuSurvey | None:
    try:
        return patient.gpu_survey
    except Unavailable:
        return None


def _is_settled(event: XidEvent, settled: dict[str, XidEvent]) -> bool:
    """Whether a reset came after it: the driver's 154 that went back to None."""
    later = settled.get(event.address)
    if later is None or meaning_of(event).action not in {"reset", "reset-later", "follow"}:
        return False
    return event.age is not None and later.age is not None and later.age <= event.age


def _dated(event: XidEvent) -> bool:
    return event.age is not None or bool(event.stamp) or event.uptime is not None


def _ago(event: XidEvent) -> str:
    if event.age is None:
        if event.stamp:
            return say(", at {stamp}", stamp=event.stamp)
        if event.uptime is not None:
            return say(", {uptime:.0f} s after boot", uptime=event.uptime)
        return say(", at an unknown time")
    if event.age < 5400:
        return say(", {age} min ago", age=max(1, round(event.age / 60)))
    return say(", {age} h ago", age=round(event.age / 3600))
