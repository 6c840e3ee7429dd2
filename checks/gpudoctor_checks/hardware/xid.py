"""GPU004 xid."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache

from gpudoctor.analysis.run.steady_run import watched
from gpudoctor.lang import say, term
from gpudoctor.model import Check, Confidence, Finding, LogDetail, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import LogLine, Measurement
from gpudoctor.model.job_devices import CardsDetail
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.model.unavailable import Unavailable, optional

FALLEN_OFF = 79
_RECOVERY_ACTION = 154
_ADDRESS = r"(?:PCI:)?((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?"
_EVENT = re.compile(rf"(NVRM: Xid|nvidia-nvswitch\d+: SXid) \({_ADDRESS}[^)]*\)[^:]*: (\d+)\s*,?\s*(.*)")
# The driver also reports a GPU that left the bus on a line without a number.
_FALLEN = re.compile(rf"NVRM: .*?{_ADDRESS}.*fallen off the bus")
_RECOVERY = re.compile(r"to 0x[0-9a-fA-F]+ \(([^)]*)\)")


@frozen
class XidEvent:
    """One event of the driver (or of an NVSwitch) in the kernel log."""

    code: int
    address: str
    """PCI address without the function, `0000:3b:00`."""
    message: KernelMessage
    switch: bool = False
    """An NVSwitch's SXid."""
    fatal: bool = False
    """The line says so."""
    recovery: str = ""
    """For 154, what the driver wants done now."""


@frozen
class XidMeaning:
    """A row of the table."""

    name: str
    severity: str
    """`note`, `warning` or `error` for one event."""
    blame: str
    """`application`, `driver`, `hardware`, `fabric` or `unknown`."""
    action: str
    meaning: str
    advice: str
    source: str
    repeated: str | None = None
    """The severity of several on one GPU."""
    fatal: str | None = None
    """The severity when the line says Fatal."""
    follows: bool = False
    """Usually the consequence of another event."""


@cache
def _table() -> dict[int | str, XidMeaning]:
    from importlib.resources import files  # 5 ms: only when the log has events

    text = files("gpudoctor_checks.hardware").joinpath("xid.json").read_text(encoding="utf-8")
    tables = json.loads(text)
    return {
        code: XidMeaning(**{key: value for key, value in row.items() if key != "codes"})
        for row in (*tables["xids"], *tables["others"])
        for code in row["codes"]
    }


def _meaning(event: XidEvent) -> XidMeaning:
    return _table().get("switch" if event.switch else event.code) or _table()["unknown"]


def events(messages: Iterable[KernelMessage]) -> Iterator[XidEvent]:
    """Events in the order of the log; a GPU off the bus once, and no 154 that takes the driver's demand back."""
    fallen: set[str] = set()
    for message in messages:
        told, lost = _EVENT.search(message.text), _FALLEN.search(message.text)
        if told is not None:
            who, address, code, tail = told.groups()
            recovery = _RECOVERY.search(tail) if int(code) == _RECOVERY_ACTION else None
            found = XidEvent(
                code=int(code),
                address=address.lower(),
                message=message,
                switch=who.endswith("SXid"),
                fatal=re.search(r"(?<![Nn]on)(?<!-)\b[Ff]atal\b", tail) is not None,
                recovery=recovery[1] if recovery is not None else "",
            )
        elif lost is not None:
            found = XidEvent(code=FALLEN_OFF, address=lost[1].lower(), message=message)
        else:
            continue
        if found.recovery == "None" or (found.code == FALLEN_OFF and found.address in fallen):
            continue
        if found.code == FALLEN_OFF:
            fallen.add(found.address)
        yield found


def _place(event: XidEvent, survey: GpuSurvey | None) -> str:
    """`GPU 3`, `NVSwitch 0000:c1:00`, or `the GPU at 0000:3b:00` for one that the driver does not show here."""
    if event.switch:
        return say("NVSwitch {address}", address=event.address)
    for gpu in survey.gpus if survey else ():
        if isinstance(gpu.pci_address, str) and gpu.pci_address.lower().split(".")[0].endswith(event.address[-10:]):
            return gpu.label
    return say("the GPU at {address}", address=event.address)


class Xid(Check):
    """The driver has logged an error event (Xid) of a GPU.

    What it finds:
        Xid events of the NVIDIA driver and SXid events of NVSwitches in the kernel log of this boot. This
        includes a GPU that fell off the bus without a number. One finding for each number and GPU.
    Why it hurts:
        An Xid is the driver's only record of why a job died. Some (48, 64, 79, 95) mean that the card or its
        slot is failing. Others (13, 31, 43) mean that a program did something illegal. Draining the node for
        them wastes a healthy machine.
    How it knows:
        It reads the last 24 hours of the kernel log (journal or dmesg), or a whole saved one. A table has the
        172 numbers of NVIDIA's catalogue.
    False alarms:
        Events of a program that was killed on purpose (45), or of another user's job. The log covers the whole
        machine. Both are notes.
    Remedies:
        By number: check the program, restart it, reset the GPU, reboot, or have the card replaced.
    References:
        - https://docs.nvidia.com/deploy/xid-errors/index.html
        - https://github.com/leptonai/gpud
    """

    code = "GPU004"
    reads = frozenset({Reads.ENVIRONMENT, Reads.PROCESS, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("window", 86400, "s",
                  "node checkers look back 2 h (AzureHPC) to the whole boot (gpud); a day covers one job",
                  "Older events are not counted."),
        Threshold("repeats", 3, "{events}",
                  "NVIDIA's Xid workflows: an application fault that repeats on one GPU needs attention",
                  "This many events on one GPU turn a note into a warning."),
    )  # fmt: skip

    def beside_log(self, finding: Finding, patient: Patient) -> Finding | None:
        """Nothing for an event of the kernel log that `examine` judges by its number."""
        kernel = optional(lambda: patient.kernel_log)
        first = finding.evidence[0]
        judged = (
            kernel is not None
            and isinstance(finding.detail, LogDetail)
            and isinstance(first, LogLine)
            and first.origin == kernel.origin
            and (_EVENT.search(first.text) or _FALLEN.search(first.text))
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
        found = list(events(message for message in log.messages if message.age is None or message.age <= window))
        logged = {event.code for event in found}
        found += [event for event in live if event.code not in logged]
        primary = {event.address for event in found if not _meaning(event).follows}
        groups: dict[tuple[str, int], list[XidEvent]] = {}
        for event in found:
            if not (_meaning(event).follows and event.address in primary):
                groups.setdefault((event.address, event.code), []).append(event)
        survey = optional(lambda: patient.gpu_survey)
        for group in groups.values():
            yield self._judge(group, survey, log)

    def _judge(self, group: list[XidEvent], survey: GpuSurvey | None, log: KernelLog) -> Finding:
        last = group[-1]
        row, message, where = _meaning(last), last.message, _place(last, survey)
        severity = Severity(row.severity)
        if row.repeated and len(group) >= self.limit("repeats"):
            severity = Severity(row.repeated)
        if row.fatal and any(event.fatal for event in group):
            severity = Severity(row.fatal)
        breaks = say("{where} may stop working or give wrong results", where=where)
        blame = {
            "application": say(" The cause is the program that ran on it, not the node."),
            "unknown": say(" The cause may be the program, the driver or the hardware."),
        }.get(row.blame, "")
        return self.finding(
            say(
                "{kind} {code} ({row}{asked}) on {where}{times}{ago}. {meaning}{blame}",
                kind="SXid" if last.switch else "Xid",
                code=last.code,
                row=term(row.name),
                asked=say(" to {recovery}", recovery=last.recovery) if last.recovery else "",
                where=where,
                times=say(", {group} times", group=len(group)) if len(group) > 1 else "",
                ago=_ago(message),
                meaning=term(row.meaning),
                blame=blame,
            ),
            evidence=(
                LogLine(origin=log.origin, text=message.text, line=message.line, time=message.time),
                Measurement("xid_events", len(group), "{events}", reproduce=log.searched("Xid|fallen off the bus")),
            ),
            confidence=Confidence.CONFIRMED if _ago(message) else Confidence.PROBABLE,
            severity=severity,
            breaks=breaks if severity is Severity.ERROR else None,
            subject=where,
            detail=CardsDetail(
                gpus=where.removeprefix("GPU ") if where.startswith("GPU ") else "",
                code=last.code,
                action=row.action,
                advice=term(row.advice),
                recovery=last.recovery,
            ),
        )


def _live(patient: Patient) -> list[XidEvent]:
    """Events that the driver reported while the process was watched."""
    window = watched(patient)
    if window is None:
        return []
    return [
        XidEvent(
            code=event.number,
            address=event.pci_address.lower().split(".")[0],
            message=KernelMessage(
                text=say("Xid {event_number} on GPU {gpu}", event_number=event.number, gpu=event.gpu),
                age=window.t - event.t,
            ),
        )
        for event in window.events
        if event.kind == "xid"
    ]


def _ago(message: KernelMessage) -> str:
    if message.age is None:
        booted = say(", {uptime:.0f} s after boot", uptime=message.uptime) if message.uptime is not None else ""
        return say(", at {stamp}", stamp=message.stamp) if message.stamp else booted
    if message.age < 5400:
        return say(", {age} min ago", age=max(1, round(message.age / 60)))
    return say(", {age} h ago", age=round(message.age / 3600))
