"""Reads the dumps of all ranks in processes of their own, and puts them together by rank."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.child_process import child_code
from gpudoctor.model.signs.flight_recorder import CollectiveCall, FlightRecords, GroupPosition, RankDump, UnreadDump
from gpudoctor.vitals.job_log.lines import rank_of

_MOST_PROCESSES = 8
_BATCH = 64
"""Files that a process is given; it starts in the time of some dozens."""
_SECONDS = 60.0
"""For a batch: real dumps take hundredths of a second each."""
_CHILD = "gpudoctor.vitals.flight_recorder.child"
_LAST_NUMBER = re.compile(r"(\d{1,7})\D*\Z")


def read_flight_records(paths: Sequence[str]) -> FlightRecords:
    """The dumps of these files. What cannot be read is in `unread`."""
    batches = [paths[at : at + _BATCH] for at in range(0, len(paths), _BATCH)]
    with ThreadPoolExecutor(max(1, min(_MOST_PROCESSES, os.cpu_count() or 1))) as pool:
        answers = [answer for batch in pool.map(_answers, batches) for answer in batch]
    return records_of(paths, answers)


def _answers(paths: Sequence[str]) -> list[Any]:
    """What a process says of each file; one that it dies over is named, and another process goes on behind it."""
    found: list[Any] = []
    while len(found) < len(paths):
        asked = b"".join(json.dumps(path).encode() + b"\n" for path in paths[len(found) :])
        command, reason = [sys.executable, "-c", child_code(_CHILD)], say("the process that read it crashed")
        try:
            said = subprocess.run(
                command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_SECONDS, check=False
            ).stdout
        except subprocess.TimeoutExpired as error:
            said, reason = error.stdout or b"", say("reading it takes too long")
        found += map(json.loads, said.split(b"\n")[:-1])
        if len(found) < len(paths):
            found.append(reason)
    return found


def records_of(paths: Sequence[str], answers: Iterable[Any]) -> FlightRecords:
    """The dumps by rank; of two that claim one rank the later counts."""
    unread: list[UnreadDump] = []
    dumps: dict[int, RankDump] = {}
    for path, answer in zip(paths, answers, strict=True):
        if isinstance(answer, str):
            unread.append(UnreadDump(rank=rank_of_file(path), path=path, reason=answer))
            continue
        rank = answer["rank"] if answer["rank"] is not None else rank_of_file(path)
        if rank is None:
            unread.append(UnreadDump(rank=None, path=path, reason=say("neither it nor its name contains its rank")))
            continue
        latest = answer["latest"]
        dump = RankDump(
            rank=rank,
            path=path,
            wrapped=answer["wrapped"],
            groups=tuple(map(_position, answer["groups"])),
            latest=(latest[0], CollectiveCall(**latest[1])) if latest else None,
            written=os.stat(path).st_mtime_ns,
        )
        if rank in dumps:
            older, dump = sorted((dumps[rank], dump), key=lambda item: item.written)
            reason = say("{path} is a later dump of rank {rank}", path=dump.path, rank=rank)
            unread.append(UnreadDump(rank=None, path=older.path, reason=reason))
        dumps[rank] = dump
    return FlightRecords(ranks=tuple(dumps[rank] for rank in sorted(dumps)), unread=tuple(unread))


def rank_of_file(path: str) -> int | None:
    """The rank that a dump's name says: `nccl_trace_rank_12`, `dump-12.pkl`."""
    found = rank_of(path)
    last = _LAST_NUMBER.search(path.replace("\\", "/").rpartition("/")[2].removesuffix(".gz"))
    return found if found is not None or last is None else int(last[1])


def _position(group: dict[str, Any]) -> GroupPosition:
    return GroupPosition(
        name=group["name"],
        description=group["description"],
        members=tuple(group["members"]),
        newest=CollectiveCall(**group["newest"]),
        open=CollectiveCall(**group["open"]) if group["open"] else None,
    )
