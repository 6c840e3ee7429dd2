"""A kernel log that somebody saved: dmesg, journalctl -k or syslog, of this machine or another, of any day.

It is read from its beginning to its end, line by line. Its times stay as they stand.
"""

import re
import shlex
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gpudoctor.lang import say
from gpudoctor.model.external_files import Damaged, is_packed, open_unpacked, unpacked_most
from gpudoctor.model.read_limits import KERNEL_LINE, KERNEL_LOG, KERNEL_MESSAGES
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import count
from gpudoctor.vitals.kernel_lines import KernelLine, is_kernel_line, of_program, parse
from gpudoctor.vitals.log_lines import lines_of, text_of

_HEAD = 1 << 20
"""Bytes by which a file is told: a syslog begins with hours of other programs' lines."""
_DRIVER = re.compile(r"NVRM|nvidia-nvswitch")
_EVENT = re.compile(r"(?:NVRM: |nvidia-nvswitch\d+: S)Xid\b|NVRM: .*fallen off the bus", re.IGNORECASE)
_WHOLE = re.compile(r"Xid \([^)]*\)[^:]*: \d+\s*[,\s]\s*\S|fallen off the bus")
_WORDS = ("nvrm", "nvidia-nvswitch")
"""What every line of `_DRIVER` and `_EVENT` holds, in small letters."""
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def is_kernel_log(path: Path) -> bool:
    """Whether a file begins as a saved kernel log does: half of its lines, one of them the kernel's."""
    lines = [line for line in text_of(_head(path)).splitlines() if line.strip()]
    ours = sum(parse(line[: KERNEL_LINE.most]) is not None for line in lines)
    others = sum(of_program(line[: KERNEL_LINE.most]) for line in lines) if 2 * ours < len(lines) else 0
    return ours > 0 and 2 * (ours + others) >= len(lines)


def _head(path: Path) -> bytes:
    """The first bytes, as far as they can be unpacked."""
    head = bytearray()
    try:
        with open_unpacked(path) as stream:
            while len(head) < _HEAD and (part := stream.read(4096)):
                head += part
    except OSError:
        pass
    return bytes(head)


def read_saved_log(path: Path) -> KernelLog:
    """The driver's messages of a saved kernel log. Raises `Unavailable` for one that cannot be read."""
    reader = _Reader()
    try:
        packed = is_packed(path)
        most = unpacked_most(path.stat().st_size, KERNEL_LOG) if packed else KERNEL_LOG.most
        with open_unpacked(path) as stream:
            wide = not packed and stream.read(2) in _WIDE
            stream.seek(0)
            reader.take(stream, most)
    except Damaged as error:
        reader.damage = say("{error}; gpudoctor read what precedes it", error=error)
    except OSError as error:
        raise Unavailable("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error) from None
    printer = "gzip -cd" if packed else "iconv -f UTF-16 -t UTF-8" if wide else "cat"
    return KernelLog(
        origin=str(path),
        messages=tuple(reader.kept),
        read=reader.read,
        printed_by=f"{printer} {shlex.quote(str(path))}",
        problems=tuple(say("{path}: {problem}", path=path, problem=problem) for problem in reader.problems()),
    )


@dataclass
class _Reader:
    """What was read so far."""

    read: int = 0
    kept: deque[KernelMessage] = field(default_factory=lambda: deque(maxlen=KERNEL_MESSAGES.most))
    driver: int = 0
    """Messages of the driver, also those that are not kept any more."""
    long: int = 0
    cut: bool = False
    """Whether the last line ends within an event of the driver."""
    damage: str = ""

    def take(self, stream: IO[bytes], most: int) -> None:
        """Every line, up to so many bytes. Only lines that name the driver are taken apart: they are a handful."""
        size = 0
        line = "\n"
        for number, line in enumerate(lines_of(stream, KERNEL_LINE), 1):
            size += len(line)
            self.read += is_kernel_line(line)
            self.long += not line.endswith("\n") and len(line) >= KERNEL_LINE.most
            small = line.lower()
            if any(word in small for word in _WORDS):
                self._add(number, line)
            if size > most:
                self.damage = say("it is {words}; gpudoctor read what precedes it", words=KERNEL_LOG.words)
                break
        if not line.endswith("\n") and not self.long and _EVENT.search(line) and not _WHOLE.search(line):
            self.cut = True  # the last line ends within an event of the driver
            self.read -= is_kernel_line(line)
            self.driver -= 1
            self.kept.pop()

    def _add(self, number: int, line: str) -> None:
        found = parse(line)
        if found is None:
            # An event whose line lost its beginning, where the log was cut.
            event = None if of_program(line) else _EVENT.search(line)
            if event is None:
                return
            found = KernelLine(text=line[event.start() :].strip())
            self.read += 1
        if _DRIVER.search(found.text):
            self.driver += 1
            self.kept.append(
                KernelMessage(
                    text=found.text,
                    age=None,
                    time=found.stamp if re.search(r"T[\d:.,]+(?:Z|[+-]\d\d:?\d\d)$", found.stamp) else None,
                    stamp=found.stamp,
                    uptime=found.uptime,
                    line=number,
                )
            )

    def problems(self) -> Iterator[str]:
        """What was not read, a sentence each."""
        if self.damage:
            yield self.damage
        if self.cut:
            yield say("its last line is cut within an event of the driver and was ignored")
        if self.long:
            lines = count(self.long, "line")
            yield say(
                "{lines} {beyond}, of which gpudoctor read only the beginning", lines=lines, beyond=KERNEL_LINE.beyond
            )
        if left := self.driver - len(self.kept):
            oldest = count(left, "message")
            yield say(
                "the oldest {oldest} of the driver ignored; it has {beyond}",
                oldest=oldest,
                beyond=KERNEL_MESSAGES.beyond,
            )
