"""The kernel's messages of this boot, from the first source that may be read.

The journal comes before dmesg: it keeps what the ring buffer has lost, and its times are right after a suspend.
Bounded in time and in size. A file of syslog can be named like any log.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import datetime

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.vitals.kernel_lines import parse

_TIME_LIMIT = 3.0
"""Seconds for all sources together."""
_SIZE_LIMIT = 8 << 20
"""Bytes of a log, counted from its end: more than a ring buffer holds."""


def read_kernel_log() -> KernelLog:
    """Messages of this boot, oldest first; `Unavailable` says what was tried."""
    instant = time.time()
    deadline = time.monotonic() + _TIME_LIMIT
    refusals: list[str] = []
    sources: list[tuple[str, Callable[[], KernelLog]]] = [
        ("journalctl", lambda: _of_journal(instant, deadline)),
        ("dmesg", lambda: _of_dmesg(deadline)),
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
    uptime = time.clock_gettime(time.CLOCK_MONOTONIC)
    # `[  12.345678] message`: seconds since boot.
    messages = tuple(
        _message(line.text, age=max(0.0, uptime - line.uptime))
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


def _message(body: str, *, age: float, at: float | None = None) -> KernelMessage:
    stamp = datetime.fromtimestamp(time.time() - age if at is None else at).astimezone().isoformat(timespec="seconds")
    return KernelMessage(text=body.strip(), age=age, time=stamp)
