"""A kernel log that somebody saved: dmesg, journalctl -k or syslog, of this machine or another, of any day.

It is read from its beginning to its end, line by line. Its times stay as they stand.
"""

import re
import shlex
from collections import deque
from pathlib import Path

from gpudoctor.lang import say
from gpudoctor.model.external_files import Damaged, is_packed, open_unpacked, unpacked_most
from gpudoctor.model.read_limits import KERNEL_LINE, KERNEL_LOG, KERNEL_MESSAGES
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.vitals.kernel_lines import KernelLine, is_kernel_line, of_program, parse
from gpudoctor.vitals.log_lines import lines_of, text_of

_HEAD = 1 << 20
"""Bytes by which a file is told: a syslog begins with hours of other programs' lines."""
_DRIVER = re.compile(r"NVRM|nvidia-nvswitch")
_CUT = re.compile(r"Xid \([^)]*(?:\)[^:]*(?:: *\d*)?)?$")
"""An event whose line was cut before its words: its number may be cut, too."""
_WORDS = ("nvrm", "nvidia-nvswitch")
"""What every line of `_DRIVER` holds, in small letters."""


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
    kept: deque[KernelMessage] = deque(maxlen=KERNEL_MESSAGES.most)
    problems: list[str] = []
    read = size = 0
    try:
        packed = is_packed(path)
        most = unpacked_most(path.stat().st_size, KERNEL_LOG) if packed else KERNEL_LOG.most
        with open_unpacked(path) as stream:
            for number, line in enumerate(lines_of(stream, KERNEL_LINE), 1):
                size += len(line)
                read += is_kernel_line(line)
                small = line.lower()
                # Only lines that name the driver are taken apart: they are a handful.
                if any(word in small for word in _WORDS) and (found := parse(line)) and not _CUT.search(found.text):
                    kept.append(_message(found, number))
                if size > most:
                    problems.append(say("it is {words}; gpudoctor read what precedes it", words=KERNEL_LOG.words))
                    break
    except Damaged as error:
        problems.append(say("{error}; gpudoctor read what precedes it", error=error))
    except OSError as error:
        raise Unavailable("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error) from None
    return KernelLog(
        origin=str(path),
        messages=tuple(item for item in kept if _DRIVER.search(item.text)),
        read=read,
        printed_by=f"{'gzip -cd' if packed else 'cat'} {shlex.quote(str(path))}",
        problems=tuple(say("{path}: {problem}", path=path, problem=problem) for problem in problems),
    )


def _message(found: KernelLine, number: int) -> KernelMessage:
    return KernelMessage(
        text=found.text,
        age=None,
        time=found.stamp if re.search(r"T[\d:.,]+(?:Z|[+-]\d\d:?\d\d)$", found.stamp) else None,
        stamp=found.stamp,
        uptime=found.uptime,
        line=number,
    )
