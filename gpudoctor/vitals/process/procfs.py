"""One process at one moment: straight from /proc, where psutil would cost five times as much.

Every function answers None or "" for a process that is gone or may not be looked at.
"""

import os
import re
import signal
from contextlib import suppress

from gpudoctor.model.records import frozen

_TICK = float(os.sysconf("SC_CLK_TCK"))
_PAGE = int(os.sysconf("SC_PAGE_SIZE"))
_LONGEST = 1 << 20


@frozen(kw_only=False)
class ProcessUsage:
    """What a process uses."""

    pid: int
    ppid: int
    group: int
    name: str
    """The kernel's name of the process, at most 15 characters; what `prctl(PR_SET_NAME)` set."""
    state: str
    """One letter, as `ps` has it: R running, S asleep, D waiting for a disk, T stopped, Z dead."""
    cpu: float
    """Seconds of CPU time so far, without children."""
    rss: int
    threads: int
    ticks: int
    """When it started, in clock ticks since boot: a pid used anew has another."""


def usage(pid: int) -> ProcessUsage | None:
    """What a process uses now."""
    data = _read(f"/proc/{pid}/stat")
    # The name in brackets may hold anything, brackets and spaces too: fields count from the last bracket.
    end = data.rfind(b")")
    fields = data[end + 2 :].split()
    if len(fields) < 22:
        return None
    return ProcessUsage(
        pid,
        int(fields[1]),
        int(fields[2]),
        data[data.find(b"(") + 1 : end].decode(errors="replace"),
        fields[0].decode("ascii", "replace"),
        (int(fields[11]) + int(fields[12])) / _TICK,
        max(0, int(fields[21])) * _PAGE,
        int(fields[17]),
        int(fields[19]),
    )


def started(item: ProcessUsage) -> float:
    """Epoch seconds at which it started."""
    boot = boot_time()
    return boot + item.ticks / _TICK if boot is not None else 0.0


def boot_time() -> float | None:
    """Epoch seconds of this boot; None where the kernel does not say."""
    return _number("/proc/stat", rb"^btime (\d+)")


def command(pid: int) -> tuple[str, ...]:
    """Its command line; empty for a kernel thread and for what may not be read."""
    return tuple(word.decode(errors="replace") for word in _read(f"/proc/{pid}/cmdline").split(b"\0")[:-1])


def executable(pid: int) -> str:
    """Path of its program."""
    return _link(f"/proc/{pid}/exe").removesuffix(" (deleted)")


def working_folder(pid: int) -> str:
    """Its working folder."""
    return _link(f"/proc/{pid}/cwd")


def user(pid: int) -> str:
    """Its owner's name, or number."""
    import pwd

    try:
        number = os.stat(f"/proc/{pid}").st_uid
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
    except OSError:
        return ""


def thread_group(pid: int) -> int | None:
    """The process that a thread belongs to; the process itself for a process."""
    return _number(f"/proc/{pid}/status", rb"^Tgid:\s*(\d+)")


def innermost_pid(pid: int) -> int | None:
    """Its pid as it sees itself: another number where it lives in a pid namespace of its own."""
    return _number(f"/proc/{pid}/status", rb"^NSpid:.*?(\d+)\s*$")


def wait_channel(pid: int) -> str:
    """The kernel function that it sleeps in; "" when it runs or the kernel does not tell."""
    text = _read(f"/proc/{pid}/wchan").decode("ascii", "replace").strip()
    return "" if text in ("0", "") else text


def disk_bytes(pid: int) -> int | None:
    """Bytes that it caused to be read from storage so far."""
    return _number(f"/proc/{pid}/io", rb"^read_bytes: (\d+)$")


@frozen(kw_only=False)
class ThreadWork:
    """What the main thread of a process has done so far."""

    cpu: float
    """Seconds of CPU time, to the microsecond."""
    bytes: int
    """That it has read and written; 0 where that may not be read."""


def main_thread(pid: int) -> ThreadWork | None:
    """The work of the main thread; None where the kernel does not tell it so finely."""
    fields = _read(f"/proc/{pid}/task/{pid}/schedstat").split()
    if not fields:
        return None
    moved = re.findall(rb"^[rw]char: (\d+)$", _read(f"/proc/{pid}/task/{pid}/io"), re.MULTILINE)
    return ThreadWork(int(fields[0]) / 1e9, sum(map(int, moved)))


def signal_name(number: int) -> str:
    """`SIGKILL` of 9; "" for a number without a name."""
    return next((known.name for known in signal.Signals if known == number), "")


def takes(pid: int, number: int) -> bool:
    """Whether a process does something on a signal: it has a handler, or the signal ends it."""
    found = re.search(rb"^SigIgn:\s*([0-9a-fA-F]+)", _read(f"/proc/{pid}/status"), re.MULTILINE)
    return found is None or not int(found[1], 16) >> (number - 1) & 1


def maps(pid: int, *names: str) -> set[str]:
    """Which of these are in the names of files that it has mapped: `libtorch`, `libcuda.so`."""
    text = _read(f"/proc/{pid}/maps", 16 << 20)
    return {name for name in names if name.encode() in text}


def parents() -> dict[int, int]:
    """Every process with its parent."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            data = _read(f"/proc/{name}/stat", 1024)
            with suppress(ValueError, IndexError):
                found[int(name)] = int(data[data.rfind(b")") + 2 :].split(None, 2)[1])
    return found


def tree(root: int) -> list[int]:
    """A process and all that descend from it, parents first."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:  # it grows while it is walked
        found += sorted(child for child in children.get(pid, ()) if child != root)
    return found


def _read(path: str, limit: int = _LONGEST) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return b""


def _number(path: str, line: bytes) -> int | None:
    """The number in the first line of a file that has this form."""
    found = re.search(line, _read(path), re.MULTILINE)
    return int(found[1]) if found else None


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
