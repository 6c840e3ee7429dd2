"""The kernel's messages of this boot, from the first source that may be read.

Order (journal, /dev/kmsg, dmesg, files of syslog) as pre-flight tools use it: the journal keeps what the ring
buffer has lost, and its times are right after a suspend. Bounded in time and in size.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.vitals.kernel_lines import parse
from gpudoctor.vitals.process.procfs import boot_time

_TIME_LIMIT = 3.0
"""Seconds for all sources together."""
_SIZE_LIMIT = 8 << 20
"""Bytes of a log, counted from its end: more than a ring buffer holds."""
_SYSLOGS = ("/var/log/kern.log", "/var/log/syslog", "/var/log/messages")


def read_kernel_log() -> KernelLog:
    """Messages of this boot, oldest first; `Unavailable` says what was tried."""
    instant = time.time()
    deadline = time.monotonic() + _TIME_LIMIT
    boot = boot_time()
    refusals: list[str] = []
    sources: list[tuple[str, Callable[[], KernelLog]]] = [
        ("journalctl", lambda: _of_journal(instant, deadline)),
        ("/dev/kmsg", lambda: _of_kmsg(deadline)),
        ("dmesg", lambda: _of_dmesg(deadline)),
        *((path, lambda path=path: _of_file(Path(path), instant, since=boot)) for path in _SYSLOGS),
    ]
    for name, read in sources:
        try:
            return read()
        except Unavailable as error:
            refusals.append(say("{name}: {error}", name=name, error=error))
    raise Unavailable(say("the kernel log cannot be read (") + concatenated("; ", refusals) + ")")


def _of_journal(now: float, deadline: float) -> KernelLog:
    command = ["journalctl", "--dmesg", "--boot", "--quiet", "--no-pager", "--output=short-unix"]
    text = _run(command, deadline)
    found = (re.match(r"(\d{9,}\.\d+) (?:\S+ )?kernel: (.*)", line) for line in text.splitlines())
    messages = tuple(_message(line[2], age=now - float(line[1]), at=float(line[1])) for line in found if line)
    if not messages:
        raise Unavailable("contains no kernel messages that this user may read")
    return KernelLog(origin="journalctl -k", messages=messages)


def _of_dmesg(deadline: float) -> KernelLog:
    uptime = time.clock_gettime(time.CLOCK_MONOTONIC) if hasattr(time, "CLOCK_MONOTONIC") else None
    # `[  12.345678] message`: seconds since boot.
    messages = tuple(
        _message(line.text, age=None if uptime is None else max(0.0, uptime - line.uptime))
        for line in map(parse, _run(["dmesg"], deadline).splitlines())
        if line is not None and line.uptime is not None
    )
    if not messages:
        raise Unavailable("is empty")
    return KernelLog(origin="dmesg", messages=messages)


def _run(command: list[str], deadline: float) -> str:
    program = shutil.which(command[0])
    if program is None:
        raise Unavailable("not installed")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(0.1, deadline - time.monotonic()),
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable("did not answer in time") from None
    except OSError as error:
        raise Unavailable(str(error.strerror or error)) from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Unavailable(words[-1][:120] if words else say("exit code {exit_code}", exit_code=done.returncode))
    return done.stdout[-_SIZE_LIMIT:].decode("utf-8", "replace")


def _of_kmsg(deadline: float) -> KernelLog:
    """/dev/kmsg gives one record a read and says EAGAIN at its end: `6,339,5140900,-;message`, microseconds."""
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise Unavailable(str(error.strerror)) from None
    try:
        records = list(_kmsg_records(descriptor, deadline))
    finally:
        os.close(descriptor)
    uptime = time.clock_gettime(time.CLOCK_MONOTONIC)
    messages: list[KernelMessage] = []
    for record in records:
        head, _, body = record.partition(";")
        parts = head.split(",")
        if len(parts) < 3 or not parts[2].isdigit():
            continue
        messages.append(_message(body.split("\n", 1)[0], age=max(0.0, uptime - int(parts[2]) / 1e6)))
    if not messages:
        raise Unavailable("contains no messages")
    return KernelLog(origin="/dev/kmsg", messages=tuple(messages))


def _kmsg_records(descriptor: int, deadline: float) -> Iterator[str]:
    size = 0
    while size < _SIZE_LIMIT and time.monotonic() < deadline:
        try:
            record = os.read(descriptor, 8192)
        except BlockingIOError:
            return
        except BrokenPipeError:  # overwritten while we read: the next read goes on behind the gap
            continue
        except OSError:
            return
        if not record:
            return
        size += len(record)
        yield record.decode("utf-8", "replace")


def _of_file(path: Path, now: float, since: float | None) -> KernelLog:
    """Kernel lines of a syslog file since a moment, where one is known."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _SIZE_LIMIT))
            text = stream.read(_SIZE_LIMIT).decode("utf-8", "replace")
    except OSError as error:
        raise Unavailable(str(error.strerror or error)) from None
    dated = list(_syslog(text, now))
    kept = tuple(message for message in dated if since is None or message.age is None or message.age <= now - since)
    if not dated:
        raise Unavailable("contains no kernel messages with a time")
    if since is not None and not kept:
        raise Unavailable("contains no kernel messages of this boot")
    return KernelLog(origin=str(path), messages=kept)


def _syslog(text: str, now: float) -> Iterator[KernelMessage]:
    for line in map(parse, text.splitlines()):
        if line is not None and line.stamp:
            at = _instant(line.stamp, now)
            yield _message(line.text, age=None if at is None else now - at, at=at)


def _instant(stamp: str, now: float) -> float | None:
    """Unix time of `2025-11-18T03:04:05.1+01:00`, or of `Nov 18 03:04:05`, which leaves out its year."""
    if stamp[0].isdigit():
        # Python 3.10 reads neither a Z nor a zone without a colon.
        iso = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", stamp.replace("Z", "+00:00"))
        iso = re.sub(r"\.\d+", "", iso)
        try:
            return datetime.fromisoformat(iso).timestamp()
        except ValueError:
            return None
    year = datetime.fromtimestamp(now).year
    for candidate in (year, year - 1):
        try:
            at = datetime.strptime(f"{candidate} {stamp}", "%Y %b %d %H:%M:%S").timestamp()
        except ValueError:
            continue
        if at <= now + 86400:
            return at
    return None


def _message(body: str, *, age: float | None, at: float | None = None) -> KernelMessage:
    when = at if at is not None else (time.time() - age if age is not None else None)
    stamp = None if when is None else datetime.fromtimestamp(when).astimezone().isoformat(timespec="seconds")
    return KernelMessage(text=body.strip(), age=age, time=stamp)
