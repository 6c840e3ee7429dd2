"""Reads the records of NCCL Inspector: a JSON object a line, one file a process.

The format is that of plugins/profiler/inspector/inspector_json.cc in NVIDIA/nccl at 5067397c2676 (v4.0).
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from gpudoctor.lang import say
from gpudoctor.model.external_files import is_packed, open_unpacked
from gpudoctor.model.read_limits import INSPECTOR_ALL, INSPECTOR_COMMUNICATORS, INSPECTOR_FILE, INSPECTOR_LINE, RANKS
from gpudoctor.model.signs.nccl_inspector import CommunicatorRank, InspectorRecords

_MOST_TIMES = 1 << 19
"""Times of all files together; 80 MB."""
_TIMES_OF_FILE = (256, 1 << 14)
_LEAST_BYTES = 4 << 20
"""Of each file, however many there are."""
_MOST_PROBLEMS = 8
_LARGEST = 1 << 63
_MIX = 0x9E3779B97F4A7C15
"""Fibonacci hashing: neighbouring numbers fall far apart, so no layer of a model is preferred."""
_BY_GPU = ("kernel_gpu", None)
"""Timing sources whose times may be compared; releases without the field prefer the GPU's clock, too."""


def is_inspector(head: bytes) -> bool:
    """Whether a file begins with a record of NCCL Inspector."""
    first = head.lstrip()[:4096]
    return first[:1] == b"{" and b'"header"' in first and b'"inspector_output_format_version"' in first


def read_inspector(paths: Sequence[str]) -> InspectorRecords:
    """The records of these files. What cannot be read is in `problems`."""
    times = min(max(_MOST_TIMES // max(1, len(paths)), _TIMES_OF_FILE[0]), _TIMES_OF_FILE[1])
    most = min(max(INSPECTOR_ALL.most // max(1, len(paths)), _LEAST_BYTES), INSPECTOR_FILE.most)
    ranks: dict[tuple[str, int], CommunicatorRank] = {}
    problems: list[str] = []
    remarks: list[str] = []
    for path in paths:
        file = _File(path=path, most_times=times)
        try:
            file.read(most)
        except OSError as error:
            problems.append(
                say("{path}: cannot be read to its end: {reason}", path=path, reason=error.strerror or error)
            )
        if not file.parts:
            problems.append(say("{path}: it holds no record of NCCL Inspector", path=path))
            continue
        if file.bad:
            lines = say("line is") if file.bad == 1 else say("lines are")
            problems.append(
                say("{path}: {bad:,} {lines} not a record of NCCL Inspector", path=path, bad=file.bad, lines=lines)
            )
        remarks += file.remarks
        for key, part in file.parts.items():
            found = part.rank(path, key)
            other = ranks.get(key)
            if other is None or other.written[1] < found.written[1]:
                ranks[key] = found
    return InspectorRecords(
        ranks=tuple(ranks[key] for key in sorted(ranks)), problems=_few(problems), remarks=_few(remarks)
    )


def _few(sentences: list[str]) -> tuple[str, ...]:
    if len(sentences) <= _MOST_PROBLEMS:
        return tuple(sentences)
    more = say(
        "{sentences:,} more files of NCCL Inspector have such problems", sentences=len(sentences) - _MOST_PROBLEMS
    )
    return (*sentences[:_MOST_PROBLEMS], more)


@dataclass(slots=True)
class _Part:
    """One rank of one communicator, while it is read."""

    header: dict[str, Any]
    host: str
    process: int
    first: int
    latest: int
    collectives: int = 0
    sends: int = 0
    last: dict[str, int] = field(default_factory=dict)
    times: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    twice: set[tuple[str, int]] = field(default_factory=set)
    """Numbers that occur more than once, as those of a replayed graph: they cannot be paired."""

    def rank(self, path: str, key: tuple[str, int]) -> CommunicatorRank:
        return CommunicatorRank(
            communicator=key[0],
            name=self.header["comm_name"],
            rank=key[1],
            ranks=self.header["n_ranks"],
            nodes=self.header["nnodes"],
            host=self.host,
            process=self.process,
            path=path,
            collectives=self.collectives,
            sends=self.sends,
            last=self.last,
            times={number: value for number, value in self.times.items() if number not in self.twice},
            written=(self.first, self.latest),
        )


@dataclass(slots=True)
class _File:
    path: str
    most_times: int
    parts: dict[tuple[str, int], _Part] = field(default_factory=dict)
    kept: int = 0
    shift: int = 64
    """A number is kept if its hash is below 2 to this power."""
    bad: int = 0
    remarks: list[str] = field(default_factory=list)
    full: bool = False

    def read(self, most: int) -> None:
        """Read so many bytes: the last ones of a plain file, the first ones of a packed one."""
        packed = is_packed(self.path)
        with open_unpacked(self.path) as stream:
            size = 0 if packed else os.fstat(stream.fileno()).st_size
            if size > most:
                stream.seek(size - most)
                stream.readline(INSPECTOR_LINE.most)
                self.remarks.append(
                    say("{path}: gpudoctor read only its last {most} MiB", path=self.path, most=most >> 20)
                )
            for line in self._lines(stream, most):
                self._take(line)

    def _lines(self, stream: IO[bytes], most: int) -> Iterator[bytes]:
        """Whole lines; a last one without its end is what a killed process leaves."""
        left = most
        while line := stream.readline(INSPECTOR_LINE.most):
            left -= len(line)
            if line.endswith(b"\n"):
                yield line
            elif len(line) == INSPECTOR_LINE.most:
                self.bad += 1
                while (rest := stream.readline(INSPECTOR_LINE.most)) and not rest.endswith(b"\n") and left > 0:
                    left -= len(rest)
            if left <= 0:
                if stream.read(1):
                    self.remarks.append(
                        say("{path}: gpudoctor read only its first {most} MiB", path=self.path, most=most >> 20)
                    )
                return

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            record = json.loads(line)  # only fields of it are taken: its depth is no danger
            header, metadata = _header(record["header"]), record["metadata"]
            stamp = _integer(metadata["dump_timestamp_us"])
            host, process = _word(metadata["hostname"], 255), _integer(metadata["pid"])
            sent = "p2p_perf" in record
            operation = None if sent else _operation(record["coll_perf"])
        except (ValueError, KeyError, TypeError, RecursionError):
            self.bad += 1
            return
        key = (header["id"], header["rank"])
        part = self.parts.get(key)
        if part is None:
            if len(self.parts) >= INSPECTOR_COMMUNICATORS.most:
                if not self.full:
                    self.remarks.append(
                        say(
                            "{path}: it has {beyond}; the others were not read",
                            path=self.path,
                            beyond=INSPECTOR_COMMUNICATORS.beyond,
                        )
                    )
                self.full = True
                return
            part = self.parts[key] = _Part(header, host, process, stamp, stamp)
        part.first, part.latest = min(part.first, stamp), max(part.latest, stamp)
        if operation is None:
            part.sends += 1
        else:
            self._count(part, *operation)

    def _count(self, part: _Part, name: str, number: int, size: int, micros: int, by_gpu: bool) -> None:
        if name not in part.last and len(part.last) >= 32:  # NCCL has eight
            self.bad += 1
            return
        part.collectives += 1
        part.last[name] = max(part.last.get(name, 0), number)
        if not by_gpu or not micros or not self._chosen(number):
            return
        key = (name, number)
        if key in part.times:
            part.twice.add(key)
            return
        part.times[key] = (size, micros)
        self.kept += 1
        while self.kept > self.most_times:
            self._halve()

    def _chosen(self, number: int) -> bool:
        return (number * _MIX) & (_LARGEST * 2 - 1) < 1 << self.shift

    def _halve(self) -> None:
        """Keep every second number."""
        self.shift -= 1
        for part in self.parts.values():
            part.times = {key: value for key, value in part.times.items() if self._chosen(key[1])}
            part.twice &= part.times.keys()
        self.kept = sum(len(part.times) for part in self.parts.values()) if self.shift else 0


def _header(value: dict[str, Any]) -> dict[str, Any]:
    """The communicator of a record. Raises `ValueError`, `KeyError` or `TypeError`."""
    identity = _word(value["id"], 18)
    ranks, rank = _integer(value["n_ranks"]), _integer(value["rank"])
    if not rank < ranks <= RANKS.most:
        raise ValueError
    name = value.get("comm_name", "unknown")
    return {
        "id": identity,
        "rank": rank,
        "n_ranks": ranks,
        "nnodes": _integer(value.get("nnodes", 0)),
        "comm_name": "" if name == "unknown" else _word(name, 128),
    }


def _operation(value: dict[str, Any]) -> tuple[str, int, int, int, bool]:
    return (
        _word(value["coll"], 32),
        _integer(value["coll_sn"]),
        _integer(value["coll_msg_size_bytes"]),
        _integer(value["coll_exec_time_us"]),
        value.get("coll_timing_source") in _BY_GPU,
    )


def _integer(value: object) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError
    return value


def _word(value: object, longest: int) -> str:
    """Text of one line that is printed as it is."""
    if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
        raise ValueError
    return value
