"""GPU004 xid."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache

from gpudoctor.analysis.run.steady_run import watched
from gpudoctor.lang import say, term
from gpudoctor.model import Check, Code, Confidence, Cost, Finding, LogDetail, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import LogLine, Measurement
from gpudoctor.model.job_devices import CardsDetail
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.model.unavailable import Unavailable, optional

FALLEN_OFF = 79

_ADDRESS = r"(?:PCI:)?((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?"
_EVENT = re.compile(rf"(NVRM: Xid|nvidia-nvswitch\d+: SXid) \({_ADDRESS}[^)]*\)[^:]*: (\d+)\s*,?\s*(.*)")
# The driver reports a GPU that left the bus without a code too: on one line, or spread over three.
_FALLEN = re.compile(r"fallen off the bus", re.IGNORECASE)
_NAMED = re.compile(rf"(?:GPU|PCI)[ :]+(?:at )?{_ADDRESS}")
_FATAL = re.compile(r"\b(non-?fatal|fatal)\b", re.IGNORECASE)
_RECOVERY = re.compile(r"changed from 0x[0-9a-fA-F]+ \(([^)]*)\) to 0x([0-9a-fA-F]+) \(([^)]*)\)")


@frozen
class XidEvent:
    """One event of the driver (or of an NVSwitch) in the kernel log."""

    code: int
    address: str
    """PCI address without the function, `0000:3b:00`; "" when the line names none."""
    message: KernelMessage
    switch: bool = False
    """An NVSwitch's SXid."""
    fatal: bool = False
    """The line says so."""
    recovery: str | None = None
    """For 154, what the driver wants done now, `None` once it is done."""

    @property
    def settled(self) -> bool:
        """A 154 that takes the demand back."""
        return self.recovery is not None and self.recovery.strip().lower() == "none"


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
    single: str | None = None
    """The severity on a node with one GPU."""
    follows: bool = False
    """Usually the consequence of another event."""
    cancels: int | None = None
    """The number of an earlier event on the same GPU that it ends."""


def meaning_of(event: XidEvent) -> XidMeaning:
    """The table's row for an event."""
    return _table().get("switch" if event.switch else event.code) or _table()["unknown"]


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


def events(messages: Iterable[KernelMessage]) -> Iterator[XidEvent]:
    """Events in the order of the log; a GPU off the bus is told once, by its Xid 79 or by the line without."""
    named = ""
    fallen: set[str] = set()
    for message in messages:
        text = message.text
        if "NVRM" not in text and "nvidia-nvswitch" not in text:
            continue
        told = _EVENT.search(text)
        if told is not None:
            who, address, code, tail = told.groups()
            severity = _FATAL.search(tail)
            recovery = _RECOVERY.search(tail) if code == "154" else None
            found = XidEvent(
                code=int(code),
                address=address.lower(),
                message=message,
                switch=who.endswith("SXid"),
                fatal=severity is not None and severity[1].lower() == "fatal",
                recovery=None if recovery is None else recovery[3],
            )
        else:
            place = _NAMED.search(text)
            named = place[1].lower() if place else named
            if not _FALLEN.search(text):
                continue
            found = XidEvent(code=FALLEN_OFF, address=named, message=message)
        if found.code == FALLEN_OFF and not found.switch:
            if _short(found.address) in fallen:
                continue
            fallen.add(_short(found.address))
        yield found


def place_of(event: XidEvent, survey: GpuSurvey | None) -> str:
    """`GPU 3`, `NVSwitch 0000:c1:00`, or `the GPU at 0000:3b:00` for one that the driver does not show here."""
    if event.switch:
        return say("NVSwitch {address}", address=event.address)
    for gpu in survey.gpus if survey else ():
        if isinstance(gpu.pci_address, str) and _short(gpu.pci_address) == _short(event.address):
            return gpu.label
    return say("the GPU at {address}", address=event.address) if event.address else "a GPU"


def _short(address: str) -> str:
    """`0000:3b:00` of every way to write it: eight digits of domain, none, a function behind."""
    parts = address.split(".")[0].lower().split(":")
    if len(parts) == 2:
        parts.insert(0, "0000")
    return ":".join([parts[0][-4:], *parts[1:]])


_BY_NUMBER = frozenset({"off-the-bus", "xid", "xid-program", "nvlink"})
"""Kinds of messages that may be an Xid or SXid event."""
_OF_NVIDIA = re.compile(r"NVRM|nvidia-nvswitch")


@frozen
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
        It reads the last 24 hours of the kernel log (journal or dmesg), or a whole saved
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
        survey = optional(lambda: patient.gpu_survey)
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
        row, message = meaning_of(last), last.message
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
                ago=_ago(message),
                meaning=term(row.meaning),
                blame=blame,
                since=since,
            ),
            evidence=(
                LogLine(origin=log.origin, text=message.text, line=message.line, time=message.time),
                Measurement("xid_events", len(group), "{events}", reproduce=log.searched("Xid|fallen off the bus")),
            ),
            confidence=Confidence.CONFIRMED
            if message.age is not None or message.stamp or message.uptime is not None
            else Confidence.PROBABLE,
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
            message=KernelMessage(
                text=say("Xid {event_number} on GPU {gpu}", event_number=event.number, gpu=event.gpu),
                age=window.t - event.t,
                time=None,
            ),
        )
        for event in window.events
        if event.kind == "xid"
    ]


def _is_settled(event: XidEvent, settled: dict[str, XidEvent]) -> bool:
    """Whether a reset came after it: the driver's 154 that went back to None."""
    later = settled.get(event.address)
    if later is None or meaning_of(event).action not in {"reset", "reset-later", "follow"}:
        return False
    then, since = event.message.age, later.message.age
    return then is not None and since is not None and since <= then


def _ago(message: KernelMessage) -> str:
    if message.age is not None:
        if message.age < 5400:
            return say(", {age} min ago", age=max(1, round(message.age / 60)))
        return say(", {age} h ago", age=round(message.age / 3600))
    if message.stamp:
        return say(", at {stamp}", stamp=message.stamp)
    if message.uptime is not None:
        return say(", {uptime:.0f} s after boot", uptime=message.uptime)
    return say(", at an unknown time")
