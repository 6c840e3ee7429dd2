"""The end of a log by rank: its last line, and how the launcher says that its process ended."""

import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.job_log import RankExit, RankWords
from gpudoctor.vitals.job_log.envelopes import HEADER, Envelopes
from gpudoctor.vitals.job_log.line_prefix import plain, without_level
from gpudoctor.vitals.job_log.opening import text_of
from gpudoctor.vitals.job_log.progress import step_of

TAIL = 3_000
"""Lines at the end of a merged log that are read for this: 64 tracebacks have some 1,500."""
OWN_TAIL = 60
"""The same of a file that one rank wrote alone."""
_LONGEST = 200
_SPEAKER = re.compile(r"(?i)\b(?:rank|worker|process|task|trainer|replica)[ _:#-]?(\d{1,5})\b")
"""A rank that a line names within its text, as programs of one's own write it."""
_NEAR = 80
"""Characters at the beginning of a line in which such a name is that of the speaker."""
_OF_ALL = re.compile(r"\[(\d{1,5})/(\d{1,5})\]")
"""`[5/16]`: rank 5 of 16, where there are 16 ranks."""
_NOT_WORDS = re.compile(
    r"^\s*(?:srun|slurmstepd|mpirun|prterun):|"
    r"^\s*(?:File \"|Traceback|Exception ignored|[\^~|]+\s*$|$)|^\s{2,}\S"
)

ELASTIC_RANK = re.compile(r"^\s*rank\s+: (\d{1,6}) \(local_rank: \d+\)")
_ELASTIC_CODE = re.compile(r"^\s*exitcode\s+: (-?\d{1,4}) \(pid: \d+\)")
_ELASTIC_ROOT = "Root Cause (first observed failure)"
_SRUN = re.compile(r"srun: error: [\w.-]+: tasks? ([\d,-]{1,400}): (.{1,60}?)\s*$")
_SPAWNED = re.compile(
    r"\b[Pp]rocess (\d{1,5}) terminated with (?:signal (SIG[A-Z]+)|exit code (\d{1,3})|(the following error))"
)
_MPIRUN_SIGNAL = re.compile(r"process rank (\d{1,6}) with PID \S+ on node \S+ exited on signal (\d{1,3})")
_MPIRUN_NAME = re.compile(r"^\s*Process name: \[\[\d+,\d+\],(\d{1,6})\]")
_MPIRUN_CODE = re.compile(r"^\s*Exit code:\s+(\d{1,3})")
_SAID = {
    "Killed": signal.SIGKILL,
    "Out Of Memory": signal.SIGKILL,
    "Terminated": signal.SIGTERM,
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL,
    "Floating point exception": signal.SIGFPE,
}
_EXITED = re.compile(r"Exited with exit code (\d{1,3})")


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a file."""

    path: str
    rank: int | None
    """The one that its name says."""
    lines: Sequence[tuple[bytes, int]]
    """Each with its number."""
    envelopes: Envelopes


def last_words(tails: Iterable[Tail], world: int | None) -> tuple[RankWords, ...]:
    """The last line and the last step of each rank that some tail has lines of; `world`: how many there are."""
    found: dict[int, RankWords] = {}
    raising: set[int] = set()
    for tail in tails:
        for raw, number in tail.lines:
            line = tail.envelopes.lines(plain(text_of(raw[:4096])))[0][-1]
            text = without_level(line.text).strip()
            rank = line.rank if line.rank is not None else tail.rank
            if rank is None:
                rank = _named(line.text, world)
            if rank is None:
                continue
            if HEADER in line.text:
                raising.add(rank)
            step = step_of(text)
            if _NOT_WORDS.match(line.text) or (rank in raising and step is None and not line.stamp):
                continue
            raising.discard(rank)
            before = found.get(rank)
            found[rank] = RankWords(
                rank=rank,
                path=tail.path,
                line=number,
                text=mask_text(text[:_LONGEST]),
                step=step if step is not None else before.step if before is not None else None,
                stamp=line.stamp,
            )
    return tuple(found[rank] for rank in sorted(found))


def _named(text: str, world: int | None) -> int | None:
    head = text[:_NEAR]
    said = _SPEAKER.search(head)
    if said is not None:
        return int(said[1])
    counted = _OF_ALL.search(head) if world else None
    return int(counted[1]) if counted is not None and int(counted[2]) == world else None


def exits(tails: Iterable[Tail]) -> tuple[RankExit, ...]:
    """How ranks ended by the summaries of torchrun, srun, mpirun and `multiprocessing`, in their order.

    A task of srun is a rank, unless the task is a torchrun, which has a summary of its own.
    """
    found: list[RankExit] = []
    for tail in tails:
        own = list(_exits(tail))
        elastic = any(item.launcher == "torchrun" for item in own)
        found += [item for item in own if not (elastic and item.launcher == "srun")]
    return tuple(found)


def _exits(tail: Tail) -> Iterator[RankExit]:
    rank, first = None, False

    def made(number: int, code: int, launcher: str, line: int) -> RankExit:
        return RankExit(rank=number, code=code, launcher=launcher, path=tail.path, line=line, first=first)

    for raw, number in tail.lines:
        if b"ank" not in raw and b"xit" not in raw and b"task" not in raw and b"rocess" not in raw:
            first = first or _ELASTIC_ROOT.encode() in raw
            continue
        text = tail.envelopes.lines(plain(text_of(raw[:4096])))[0][-1].text
        if named := ELASTIC_RANK.match(text) or _MPIRUN_NAME.match(text):
            rank = int(named[1])
        elif (ended := _ELASTIC_CODE.match(text)) and rank is not None:
            yield made(rank, int(ended[1]), "torchrun", number)
            rank = None
        elif (ended := _MPIRUN_CODE.match(text)) and rank is not None:
            yield made(rank, int(ended[1]), "mpirun", number)
            rank = None
        elif ended := _MPIRUN_SIGNAL.search(text):
            yield made(int(ended[1]), -int(ended[2]), "mpirun", number)
        elif ended := _SPAWNED.search(text):
            by = getattr(signal, ended[2] or "", None)
            yield made(int(ended[1]), -by if by else int(ended[3] or 1), "spawn", number)
        elif ended := _SRUN.search(text):
            code = _srun_code(ended[2])
            for task in _listed(ended[1]) if code is not None else ():
                yield made(task, code or 0, "srun", number)


def _srun_code(text: str) -> int | None:
    for words, number in _SAID.items():
        if text.startswith(words):
            return -number
    found = _EXITED.match(text)
    return int(found[1]) if found else None


def _listed(text: str) -> Iterator[int]:
    """The numbers of `1-3,7`."""
    for part in text.split(","):
        begin, _, end = part.partition("-")
        if begin.isdigit() and (end.isdigit() or not end):
            yield from range(int(begin), min(int(end or begin), int(begin) + 65_535) + 1)
