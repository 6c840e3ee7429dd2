"""One line of a kernel log in the ways that dmesg, journalctl and syslog write it."""

import re
from dataclasses import dataclass
from datetime import datetime, timezone

_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
_DAY = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
_LONG = r"[^\s\d\[\]]{2,10} [^\s\d\[\]]{2,10} [ \d]\d \d\d:\d\d:\d\d \d{4}"
_CALLER = r"(?:\[[^\]\n]{0,40}\])?"
_LEVEL = r"(?:[a-z0-9]{1,10} *:[a-z]{1,10} *: ?)?(?:<\d{1,3}>)?"
_STAMP = rf"(?P<stamp>{_DAY}(?:\.\d+)?|[A-Z][a-z]{{2}} {_ISO} [A-Z+\-\d:]{{2,6}}|{_ISO}\S*|\d{{9,12}}\.\d+)"
_BOOT = r"\[ *(?P<uptime>\d{1,10}\.\d{1,9})\]"
_HEADS = (
    rf"{_LEVEL}{_BOOT}{_CALLER}[ \t](?:(?:\S+ )?kernel: )?",
    rf"(?:<\d{{1,3}}>)?{_STAMP} (?:(?P<host>\S+) )?kernel(?:\[\d+\])?: (?:{_BOOT}{_CALLER} )?",
    rf"{_LEVEL}\[(?P<stamp>{_LONG})\]{_CALLER}[ \t]",
    rf"{_LEVEL}(?P<stamp>{_ISO},\d{{6}}\S*) ",
    r"(?=(?:NVRM|nvidia-nvswitch\d+): )",
)
_FORMS = tuple(re.compile(head + r"(?P<text>.*)", re.ASCII) for head in _HEADS)
"""`[ 12.345678] text`, `Feb  3 10:00:00 host kernel: text`, `[Mon Feb  3 10:00:00 2025] text` (dmesg -T),
`2025-02-03T10:00:00,123456+01:00 text` (dmesg --time-format iso), `NVRM: text` (dmesg -t)."""
_HEAD = re.compile("|".join(f"(?:{re.sub(r'[?]P<[a-z]+>', '?:', head)})" for head in _HEADS), re.ASCII)
_PROGRAM = re.compile(rf"(?:<\d{{1,3}}>)?{_STAMP} \S+ [\w.\-/@()]{{1,80}}(?:\[\d+\])?: ")


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A line of the kernel."""

    text: str
    stamp: str = ""
    """The date and time as they stand; "" without."""
    uptime: float | None = None
    host: str = ""


def parse(line: str) -> KernelLine | None:
    """The kernel's line; None for one of another program, and for what is none."""
    for form in _FORMS:
        if found := form.match(line):
            parts = found.groupdict()
            uptime, stamp = parts.get("uptime"), parts.get("stamp") or ""
            if re.fullmatch(r"\d{9,12}\.\d+", stamp):  # `journalctl -o short-unix`: people get no number
                stamp = datetime.fromtimestamp(float(stamp), tz=timezone.utc).isoformat(timespec="seconds")
            host = parts.get("host") or ""
            return KernelLine(found["text"].strip(), stamp, float(uptime) if uptime else None, host)
    return None


def is_kernel_line(line: str) -> bool:
    """What `parse` says of a line, without taking it apart."""
    return _HEAD.match(line) is not None


def of_program(line: str) -> bool:
    """Whether another program wrote a line of syslog or of the journal."""
    return _PROGRAM.match(line) is not None
