"""Reads the dumps of all ranks in processes of their own, and puts them together by rank."""

import json
import marshal
import os
import re
import subprocess
import sys
import threading
from array import array
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from gpudoctor.lang import say
from gpudoctor.model.child_process import child_code
from gpudoctor.model.signs.flight_recorder import (
    CallSite,
    CollectiveEntry,
    FlightRecords,
    GroupOperation,
    GroupTrace,
    RankDump,
    UnreadDump,
)
from gpudoctor.vitals.flight_recorder.child import LENGTH
from gpudoctor.vitals.job_log.reader import rank_of

_MOST_PROCESSES = 8
_ALONE = 16
"""Files that one process reads faster than a second one starts."""
_BATCH = 16
"""Files that a process is given at a time."""
_SECONDS = 60.0
"""For a batch: real dumps take hundredths of a second each."""
_CHILD = "gpudoctor.vitals.flight_recorder.child"
_PACKED = (".gz",)
_LAST_NUMBER = re.compile(r"(\d{1,7})\D*\Z")


def read_flight_records(paths: Sequence[str]) -> FlightRecords:
    """The dumps of these files. What cannot be read is in `unread`."""
    job = DumpsRead(deque(enumerate(paths)))
    count = max(1, min(_MOST_PROCESSES, _processors(), -(-len(paths) // _ALONE)))
    threads = [threading.Thread(target=_serve, args=(job,), daemon=True) for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    _serve(job)
    for thread in threads:
        thread.join()
    return job.records(paths)


@dataclass(slots=True)
class DumpsRead:
    """Files that are left, and what the others held."""

    left: "deque[tuple[int, str]]" = field(default_factory=deque)
    answers: dict[int, Any] = field(default_factory=dict)
    operations: dict[int, GroupOperation] = field(default_factory=dict)
    sites: dict[int, CallSite] = field(default_factory=dict)
    members: dict[int, tuple[int, ...]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def batch(self) -> list[tuple[int, str]]:
        """The next files."""
        with self.lock:
            return [self.left.popleft() for _ in range(min(_BATCH, len(self.left)))]

    def take(self, number: int, answer: Any) -> None:
        """What a file held, or a clause."""
        with self.lock:
            if not isinstance(answer, str):
                answer, operations, sites, members = answer
                self.operations.update((key, GroupOperation(*value)) for key, value in operations.items())
                self.sites.update((key, CallSite(*value)) for key, value in sites.items())
                self.members.update(members)
            self.answers[number] = answer

    def records(self, paths: Sequence[str]) -> FlightRecords:
        """The dumps by rank; of two that claim one rank the later counts."""
        unread: list[UnreadDump] = []
        dumps: dict[int, RankDump] = {}
        for number, path in enumerate(paths):
            answer = self.answers.get(number, "it was not read")
            if isinstance(answer, str):
                unread.append(UnreadDump(rank=rank_of_file(path), path=path, reason=answer))
                continue
            dump = _dump(path, answer, self)
            if dump is None:
                unread.append(UnreadDump(rank=None, path=path, reason=say("neither it nor its name contains its rank")))
            elif dump.rank in dumps:
                older, newer = sorted((dumps[dump.rank], dump), key=lambda item: item.written)
                dumps[dump.rank] = newer
                reason = say("{path} is a later dump of rank {rank}", path=newer.path, rank=dump.rank)
                unread.append(UnreadDump(rank=None, path=older.path, reason=reason))
            else:
                dumps[dump.rank] = dump
        return FlightRecords(
            ranks=tuple(dumps[rank] for rank in sorted(dumps)),
            unread=tuple(unread),
            operations=self.operations,
            sites=self.sites,
        )


def _serve(job: DumpsRead) -> None:
    """Read files through one process after another until none is left."""
    process: subprocess.Popen[bytes] | None = None
    waiting: list[tuple[int, str]] = []
    try:
        while waiting := waiting or job.batch():
            if process is None:
                process = subprocess.Popen(
                    [sys.executable, "-c", child_code(_CHILD)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            waiting, slow = _exchange(process, waiting, job)
            if waiting:  # it died over the first of these
                _end(process)
                process = None
                number, _ = waiting.pop(0)
                job.take(number, say("reading it takes too long") if slow else say("the process that read it crashed"))
    finally:
        if process is not None:
            _end(process)


def _exchange(
    process: "subprocess.Popen[bytes]", files: list[tuple[int, str]], job: DumpsRead
) -> tuple[list[tuple[int, str]], bool]:
    """Give a process its files and take the answers: the files without one, and whether time ran out."""
    assert process.stdin is not None and process.stdout is not None
    slow = threading.Event()

    def stop() -> None:
        slow.set()
        process.kill()

    timer = threading.Timer(_SECONDS, stop)
    timer.daemon = True
    timer.start()
    left = list(files)
    try:
        process.stdin.write(b"".join(json.dumps(path).encode() + b"\n" for _, path in files))
        process.stdin.flush()
        for number, _ in files:
            job.take(number, marshal.loads(_exactly(process.stdout, _length(process.stdout))))
            left.pop(0)
    except (OSError, EOFError):
        pass
    finally:
        timer.cancel()
    return left, slow.is_set()


def _length(stream: IO[bytes]) -> int:
    value: int = LENGTH.unpack(_exactly(stream, LENGTH.size))[0]
    return value


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            if stream is not None:
                stream.close()


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def rank_of_file(path: str) -> int | None:
    """The rank that a dump's name says: `nccl_trace_rank_12`, `dump-12.pkl`."""
    name = path.replace("\\", "/").rpartition("/")[2]
    for packed in _PACKED:
        name = name.removesuffix(packed)
    found = rank_of(path)
    if found is not None:
        return found
    last = _LAST_NUMBER.search(name)
    return int(last[1]) if last else None


def _dump(path: str, answer: tuple[Any, ...], job: DumpsRead) -> RankDump | None:
    version, entries, wrapped, groups, latest, rank = answer
    if rank < 0:
        named = rank_of_file(path)
        if named is None:
            return None
        rank = named
    try:
        written = os.stat(path).st_mtime_ns
    except OSError:
        written = 0
    return RankDump(
        rank=rank,
        path=path,
        version=version,
        entries=entries,
        wrapped=wrapped,
        groups=tuple(_group(group, job) for group in groups),
        latest=(latest[0], CollectiveEntry(*latest[1])) if latest else None,
        written=written,
    )


def _group(group: tuple[Any, ...], job: DumpsRead) -> GroupTrace:
    name, description, members, first, last, operations, sites, pending, newest, peers = group
    return GroupTrace(
        name=sys.intern(name),
        description=sys.intern(description),
        members=job.members.get(members, ()),
        first=first,
        last=last,
        operations=array("I", operations),
        sites=array("I", sites),
        pending=tuple(CollectiveEntry(*launch) for launch in pending),
        newest=CollectiveEntry(*newest) if newest else None,
        peers=tuple(CollectiveEntry(*launch) for launch in peers),
    )
