"""Reads Xid and SXid events out of kernel messages, and the table of what they mean."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from gpudoctor.lang import say
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.kernel_log import KernelMessage

FALLEN_OFF = 79

_ADDRESS = r"(?:PCI:)?((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?"
_XID = re.compile(rf"NVRM: Xid \({_ADDRESS}[^)]*\)[^:]*: (\d+)\s*,?\s*(.*)")
_SXID = re.compile(rf"nvidia-nvswitch(\d+): SXid \({_ADDRESS}[^)]*\)[^:]*: (\d+)\s*,?\s*(.*)")
# The driver reports a GPU that left the bus without a code too: on one line, or spread over three.
_FALLEN = re.compile(r"fallen off the bus", re.IGNORECASE)
_NAMED = re.compile(rf"(?:GPU|PCI)[ :]+(?:at )?{_ADDRESS}")
_RECOVERY = re.compile(r"changed from 0x[0-9a-fA-F]+ \(([^)]*)\) to 0x([0-9a-fA-F]+) \(([^)]*)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """One event of the driver (or of an NVSwitch) in the kernel log."""

    code: int
    address: str
    """PCI address without the function, `0000:3b:00`; "" when the line names none."""
    switch: bool
    """An NVSwitch's SXid."""
    fatal: bool | None
    """Whether the line says Fatal or Nonfatal; None when it says neither."""
    recovery: str | None
    """For 154, what the driver wants done now, `None` once it is done."""
    text: str
    age: float | None
    time: str | None
    stamp: str = ""
    """When, as a saved log writes it."""
    uptime: float | None = None
    """Seconds after boot, of a saved log without dates."""
    line: int | None = None
    """Line of a saved log."""

    @property
    def settled(self) -> bool:
        """A 154 that takes the demand back."""
        return self.recovery is not None and self.recovery.strip().lower() == "none"


@dataclass(frozen=True, slots=True, kw_only=True)
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


_UNKNOWN = XidMeaning(
    name="not in gpudoctor's table",
    severity="warning",
    blame="unknown",
    action="watch",
    meaning="The driver reported an event that this version does not know.",
    advice=say("Look the number up in NVIDIA's Xid catalogue."),
    source="",
)
_SWITCH = XidMeaning(
    name="NVSwitch event",
    severity="note",
    blame="fabric",
    action="fabric",
    meaning="A switch of the NVLink fabric reported an event.",
    advice=say("Fatal: restart the fabric manager with all GPUs reset, and watch the port that the line names."),
    source="NVIDIA fabric manager user guide",
    repeated="warning",
    fatal="error",
)


def meaning_of(event: XidEvent) -> XidMeaning:
    """The table's row for an event."""
    return _SWITCH if event.switch else _table().get(event.code, _UNKNOWN)


@cache
def _table() -> dict[int, XidMeaning]:
    from importlib.resources import files  # 5 ms: only when the log has events

    text = files("gpudoctor_checks.hardware").joinpath("xid.json").read_text(encoding="utf-8")
    rows = json.loads(text)["xids"]
    return {
        code: XidMeaning(**{key: value for key, value in row.items() if key != "codes"})
        for row in rows
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
        found = _parse(message)
        if found is None:
            address = _NAMED.search(text)
            named = address.group(1).lower() if address else named
            if not _FALLEN.search(text):
                continue
            found = _event(message, FALLEN_OFF, named, switch=False, tail="")
        if found.code == FALLEN_OFF and not found.switch:
            if _short(found.address) in fallen:
                continue
            fallen.add(_short(found.address))
        yield found


def _parse(message: KernelMessage) -> XidEvent | None:
    found = _XID.search(message.text)
    if found:
        return _event(message, int(found.group(2)), found.group(1), switch=False, tail=found.group(3))
    found = _SXID.search(message.text)
    if found:
        return _event(message, int(found.group(3)), found.group(2), switch=True, tail=found.group(4))
    return None


def _event(message: KernelMessage, code: int, address: str, *, switch: bool, tail: str) -> XidEvent:
    severity = re.search(r"\b(non-?fatal|fatal)\b", tail, re.IGNORECASE)
    recovery = _RECOVERY.search(tail) if code == 154 else None
    return XidEvent(
        code=code,
        address=address.lower(),
        switch=switch,
        fatal=None if severity is None else severity.group(1).lower() == "fatal",
        recovery=None if recovery is None else recovery.group(3),
        text=message.text,
        age=message.age,
        time=message.time,
        stamp=message.stamp,
        uptime=message.uptime,
        line=message.line,
    )


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
