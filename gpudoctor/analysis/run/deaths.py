"""How a run died: the root among what all ranks said, its class, and the user's line.

A rank that dies takes the others with it: their exceptions speak of closed connections and lost peers. The root
is what came first and does not speak so.
"""

import re
import signal
from collections.abc import Mapping, Sequence
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import EARLY_DEATH_FILE, Process, Record, Recording


class Death(Enum):
    """What a run died of."""

    EXCEPTION = "exception"
    MEMORY = "out of device memory"
    ASSERT = "device assert"
    COLLECTIVE = "collective"
    BUS = "bus error"
    WORKER = "loader worker"
    KILLED = "killed"
    NATIVE = "native crash"
    SILENT = "without a word"


@frozen
class DeathMessage:
    """The death of a run as it was told."""

    death: Death
    process: Process | None
    """The rank that it began with; None where no rank said anything."""
    record: Record | None
    """Its `exception` or `signal`."""
    kind: str
    """Type of the exception, name of the signal; "" where neither is known."""
    message: str
    cascade: tuple[int, ...]
    """Ranks that died of the death of another."""
    step: int | None
    phase: str


_CASCADE = re.compile(
    r"Connection (closed|reset)|closed by peer|remote process exited|ChildFailedError|Broken pipe|"
    r"NCCL communicator was aborted|Some NCCL operations have failed|SIGTERM|SignalException|"
    r"Socket (closed|Timeout)|store.*(closed|timeout)|another rank|peer (has )?(died|disconnected)",
    re.IGNORECASE,
)
_CLASSES: tuple[tuple[Death, str], ...] = (
    (Death.BUS, r"Bus error|SIGBUS|unable to (open|resize|mmap) shared memory|/dev/shm|"
                r"insufficient shared memory|shm_open"),
    (Death.WORKER, r"DataLoader worker \(pid|DataLoader worker .*exited unexpectedly|worker.*killed by signal"),
    (Death.MEMORY, r"CUDA out of memory|HIP out of memory|OutOfMemoryError|CUDNN_STATUS_ALLOC_FAILED|"
                   r"CUBLAS_STATUS_ALLOC_FAILED|MPS backend out of memory"),
    (Death.ASSERT, r"device-side assert|illegal memory access|misaligned address|CUDA error: (?!out of "
        "memory)"),
    (Death.COLLECTIVE, r"collective operation timeout|Watchdog caught|wait timeout|Timed out waiting|"
                       r"monitoredBarrier|DistBackendError|ProcessGroup\w* .*(timeout|mismatch)|NCCL error|"
                       r"gloo.*(timed? ?out|EnforceNotMet)|collective.*mismatch"),
)  # fmt: skip
_PEER = re.compile(r"gloo|nccl|ProcessGroup|collective", re.IGNORECASE)
_MISMATCH = (
    "rank {} was aborted by a thread of the communication library: what it received was not what it waited "
    "for, as when ranks call different operations, or the same with other shapes"
)
"""An abort in the training's own code has a Python stack."""
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (\S+)$\n?(    .+)?', re.MULTILINE)
_HANDED = re.compile(
    r"^(ConnectionResetError|ConnectionRefusedError|ConnectionAbortedError|BrokenPipeError|EOFError|"
    r"FileNotFoundError)$"
)
"""What taking a batch over from a process that is gone raises."""
EXIT = "SystemExit"
"""The exception of a program that ended itself: `sys.exit(3)`."""
_NATIVE = {"SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP"}
_EXITCODES = re.compile(
    r"rank\s{0,8}:\s{0,8}(\d{1,9}).{0,2000}?exitcode\s{0,8}:\s{0,8}(-?\d{1,9})|exitcode:?\s{0,8}(-\d{1,9})", re.DOTALL
)
_OF_STORE = ("DistStoreError", "DistNetworkError")
"""Exceptions of a rank that waits for the others at the rendezvous."""
_KERNEL = ((Death.KILLED, r"oom-kill|Out of memory|Killed process|Memory cgroup out of memory"),
           (Death.NATIVE, r"segfault|general protection|trap (invalid|divide)"))  # fmt: skip


@once
def death(recording: Recording) -> DeathMessage | None:
    """What the run died of; None for one that ended well, that somebody stopped, or of which nobody told."""
    end = recording.end
    if end is None:
        return _first_exception(recording)  # the recorder was killed too
    if not end.failed or died_before_torch(recording):
        return None
    told = _first_exception(recording) or _signal(recording)
    if told is not None:
        return told
    rank, code = _by_launcher(recording)
    name = _signal_name(end.signal, end.exit_code) or _signal_name(None, code)
    which = _of_signal(name) if name else _of_kernel(end.kernel, end.oom_kills)
    lost = silent(recording)
    process = next((item for item in recording.ranks if item.rank == rank), lost[0] if lost else None)
    others = {item.rank for item in recording.ranks if item.of("exception", "signal")}
    return _told(which, process, None, name or "", "", tuple(sorted(others)))


@once
def died_before_torch(recording: Recording) -> Mapping[str, bytes]:
    """Tracebacks of ranks that died before they imported torch, by path, while others reported.

    Empty where a rank that reported tells of a failure of its own, not only of one that it lost or waits for.
    """
    reported = {process.rank for process in recording.ranks}
    found = {
        path: data
        for path, data in recording.early_deaths.items()
        if reported and (name := EARLY_DEATH_FILE.search(path))
        if name[1] != "x" and int(name[1]) not in reported
    }
    told = _first_exception(recording) if found else None
    if told is None or told.record is None:
        return found
    waited = told.death is Death.COLLECTIVE or told.kind in _OF_STORE or _echoes(told.record)
    return found if waited else {}


def silent(recording: Recording) -> tuple[Process, ...]:
    """Ranks that ended without a word: no exception, no signal that could be caught, no orderly end."""
    return tuple(item for item in recording.ranks if not item.clean and not item.of("exception", "signal", "end"))


def user_place(told: DeathMessage) -> tuple[LinePlace, str] | None:
    """The innermost line of the user's at the root, and its text ("" where it is not known)."""
    record = told.record
    if record is None:
        return None
    if record.type == "exception":
        remote = _remote(str(record.get("message") or ""))
        if remote is not None:
            return remote
        frames = list(record.get("frames") or ())
        index = record.get("user")
        frame = frames[index] if isinstance(index, int) and 0 <= index < len(frames) else None
        if frame is None:
            return None
        return _place(frame), str(frame[3]) if len(frame) > 3 and frame[3] else ""
    stack = list(record.get("stack") or ())
    own = [frame for frame in stack if not library(str(frame[0]))]
    return (_place(own[-1]), "") if own else None


def _remote(message: str) -> tuple[LinePlace, str] | None:
    """The innermost line of the user's in a loader worker, whose traceback is the message's text."""
    if "Original Traceback" not in message:
        return None
    own = [frame for frame in _FRAME.findall(message) if not library(frame[0])]
    if not own:
        return None
    path, line, function, text = own[-1]
    return LinePlace(path=path, line=int(line), function=function), text.strip()


def _place(frame: Sequence[object]) -> LinePlace:
    line = frame[1]
    return LinePlace(path=str(frame[0]), line=line if isinstance(line, int) else 1, function=str(frame[2]))


def library(path: str) -> bool:
    """Whether a file is an installed package's or Python's own."""
    return bool(re.search(r"/(site|dist)-packages/|/lib/python\d|^<", path))


def _first_exception(recording: Recording) -> DeathMessage | None:
    """The root among the ranks' exceptions: the first that is not the echo of another's death."""
    found = [
        item
        for item in _by_time(recording, "exception")
        if item[2].get("exception") not in ("KeyboardInterrupt", "GeneratorExit")
    ]
    if not found:
        return None
    found.sort(key=lambda item: (item[2].get("exception") == EXIT, item[0]))
    roots = [item for item in found if not _echoes(item[2])]
    echoes = tuple(sorted({process.rank for _, process, record in found if _echoes(record)}))
    lost = len(recording.ranks) > 1 and (silent(recording) or _fatal(recording))
    if not roots and lost:
        return None  # all that spoke were echoes; the root went without a word, or by a fault
    _, process, record = (roots or found)[0]
    which = classify(record) or Death.EXCEPTION
    if which is Death.COLLECTIVE and lost:
        return None
    return _told(which, process, record, str(record.get("exception") or ""), str(record.get("message") or ""), echoes)


def launched_only(process: Process) -> bool:
    """Whether a process started ranks, trained nothing itself, and died of their deaths: torchrun's own."""
    died = process.of("exception")
    return bool(died) and not len(process.steps) and all(map(_of_children, died))


def _of_children(record: Record) -> bool:
    kind = str(record.get("exception"))
    if kind.endswith("CalledProcessError"):  # `accelerate launch` of one process
        return any("/accelerate/commands/" in str(frame[0]) for frame in record.get("frames") or ())
    return kind.endswith("ChildFailedError")


def first_failed(recording: Recording) -> str:
    """Which rank failed first and how, a clause in the launcher's words; "" if no launcher wrote it down."""
    rank, code = _by_launcher(recording)
    if code is None:
        return ""
    who = say("rank {rank}", rank=rank) if rank is not None else say("a rank")
    name = _signal_name(None, code)
    how = say("by {name}", name=name) if name else say("with exit code {code}", code=code)
    return say("{who} failed first, {name}", who=who, name=how)


def _words(record: Record) -> str:
    return f"{record.get('exception')}: {record.get('message')}"


def classify(record: Record) -> Death | None:
    """The class of an exception by its type and message; None for one that is only itself."""
    if record.get("oom"):
        return Death.MEMORY
    if _worker_gone(record):
        return Death.WORKER
    words = _words(record)
    return next((which for which, pattern in _CLASSES if re.search(pattern, words, re.IGNORECASE)), None)


def _worker_gone(record: Record) -> bool:
    """Whether a batch could not be taken over from a loader worker: its end of the connection is gone."""
    if not _HANDED.match(str(record.get("exception") or "")):
        return False
    paths = [str(frame[0]) for frame in record.get("frames") or ()]
    taking = any("/torch/utils/data/" in path for path in paths)
    return taking and any("/multiprocessing/" in path for path in paths[-8:])


def _echoes(record: Record) -> bool:
    """Whether an exception speaks of the death of another rank."""
    return not _worker_gone(record) and bool(_CASCADE.search(_words(record)))


def _fatal(recording: Recording) -> list[tuple[float, Process, Record]]:
    """Ranks that wrote down a fault of their own: a segmentation fault, an abort."""
    return [item for item in _by_time(recording, "signal") if str(item[2].get("signal")) in _NATIVE | {"SIGBUS"}]


def _by_time(recording: Recording, type: str) -> list[tuple[float, Process, Record]]:
    """The records of a type on all ranks, with their epoch seconds."""
    return [(process.wall + record.t, process, record) for process in recording.ranks for record in process.of(type)]


def _signal(recording: Recording) -> DeathMessage | None:
    """A rank that wrote down the signal it died of; the name is the command's where the handler knew none.

    A launcher that has lost one rank ends the others by a signal: theirs is none where a rank went silently.
    """
    lost = len(recording.ranks) > 1 and bool(silent(recording))
    # A watchdog aborts the ranks that wait for one that is gone.
    found = [item for item in _fatal(recording) if not lost or item[2].get("signal") != "SIGABRT"]
    if not found and not lost:
        found = [item for item in _by_time(recording, "signal") if not item[1].clean]
    if not found:
        return None
    _, process, record = min(found, key=lambda item: item[0])
    end = recording.end
    own = _signal_name(end.signal, end.exit_code) if end is not None else None
    name = str(record.get("signal") or "") or own or _signal_name(None, _by_launcher(recording)[1]) or ""
    others = tuple(sorted(item.rank for item in recording.ranks if item.of("exception", "signal")))
    told = (_words(item) for process in recording.ranks for item in process.of("exception"))
    # another rank's connection of a collective was cut
    if name == "SIGABRT" and not record.get("stack") and any(map(_PEER.search, told)):
        return _told(Death.COLLECTIVE, process, record, name, _MISMATCH.format(process.rank), others)
    return _told(_of_signal(name), process, record, name, "", others)


def _signal_name(given: str | None, code: int | None) -> str | None:
    """The signal that ended the command itself, by its name or by an exit code above 128."""
    if given:
        return given
    if code is not None and 128 < code <= 192:
        code = 128 - code
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return None


def _by_launcher(recording: Recording) -> tuple[int | None, int | None]:
    """The rank that failed first and its exit code, by the words of the launcher; None where they say none."""
    for process in recording.launchers:
        for record in process.of("exception"):
            message = str(record.get("message") or "")
            # torchrun lists other failures before the one that came first
            found = _EXITCODES.search(message, max(0, message.find("Root Cause")))
            if found is not None:
                rank, code, alone = found.groups()
                return (int(rank) if rank else None), int(code or alone)
    return None, None


def _of_signal(name: str) -> Death:
    if name in _NATIVE:
        return Death.NATIVE
    return Death.BUS if name == "SIGBUS" else Death.KILLED


def _of_kernel(lines: tuple[str, ...], oom_kills: int) -> Death:
    if oom_kills:
        return Death.KILLED
    words = "\n".join(lines)
    return next((which for which, pattern in _KERNEL if re.search(pattern, words)), Death.SILENT)


def _told(
    which: Death, process: Process | None, record: Record | None, kind: str, message: str, echoes: tuple[int, ...]
) -> DeathMessage:
    step, phase = _where(process, record)
    return DeathMessage(
        death=which, process=process, record=record, kind=kind, message=message,
        cascade=tuple(rank for rank in echoes if process is None or rank != process.rank),
        step=step, phase=phase,
    )  # fmt: skip


def _where(process: Process | None, record: Record | None) -> tuple[int | None, str]:
    fields: Mapping[str, object] = record.fields if record is not None else {}
    step = fields.get("step")
    if not isinstance(step, int) and process is not None and len(process.steps):
        step = int(process.steps.column("index")[-1]) + 1
    return (step if isinstance(step, int) else None), str(fields.get("phase") or "")
