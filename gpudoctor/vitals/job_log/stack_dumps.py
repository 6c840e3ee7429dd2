"""Reads stack dumps out of lines: Python's faulthandler and `py-spy dump`, of one process or of many at once.

Each source (rank, actor, node: `PrefixedLine.source`) may have its own dump open between the lines of others.
Of several dumps of one thread the last counts.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpudoctor.lang import say
from gpudoctor.model.signs.job_log import DumpedThread, RankStack
from gpudoctor.model.signs.process import Frame
from gpudoctor.vitals.job_log.lines import PrefixedLine
from gpudoctor.vitals.process.classify_stack import classify, is_worker, last_part

_FAULT = re.compile(
    r"^(?:Current thread|Thread|Stack)\b ?(0x[0-9a-fA-F]+)?(?: \[([^\]]{1,60})\])?.{0,40}"
    r"\(most recent call first\):"
)
_PYSPY = re.compile(r'^Thread (0x[0-9a-fA-F]+|\d{1,12}) \((?:active|idle)[\w+]*\)(?:: "(.{0,80})")?\s*$')
_PROCESS = re.compile(r"^Process (\d{1,10}): (.{1,2000})$")
_FAULT_FRAME = re.compile(r'^\s*File "(.{1,1000})", line (\d{1,9}) in (.+)$')
_PYSPY_FRAME = re.compile(r"^\s{2,}(\S.{0,200}?) \((.{1,1000}):(\d{1,9})\)$")
_BESIDE = re.compile(r"^\s+(?:Arguments|Locals):|^\s{8,}\w+: |^\s+\.\.\.$")
_RANK_ARGUMENT = re.compile(r"(?:--(?:local[-_])?rank[= ]|\(rank )(\d{1,6})\b")
_ENTRIES = ("<module>", "_run_module_as_main")
_MOST_FRAMES = 200
_MOST_NOISE = 500
"""Lines of other sources without a frame, after which no dump goes on."""
_MOST_THREADS = 100_000
_PACKAGES = frozenset({
    "PIL", "accelerate", "apex", "bitsandbytes", "datasets", "deepspeed", "lightning", "lightning_fabric",
    "megatron", "mlflow", "numpy", "pandas", "peft", "pytorch_lightning", "ray", "safetensors", "sklearn",
    "tokenizers", "torch", "torchaudio", "torchdata", "torchvision", "tqdm", "transformers", "triton", "trl",
    "wandb", "xformers",
})  # fmt: skip
"""Packages whose files py-spy names without the folder that they are installed in."""


@dataclass(slots=True)
class _Open:
    """A thread while its frames are still to come."""

    thread: DumpedThread
    frames: list[Frame] = field(default_factory=list)


class StackDumps:
    """Takes lines in order; `stacks` gives the main threads that they held."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._open: dict[str, _Open] = {}
        self._process: dict[str, tuple[str, int | None]] = {}
        """By source: the process whose heading came last, and its rank."""
        self._threads: dict[tuple[str, str], DumpedThread] = {}
        self._noise = 0
        self.last_line = 0
        """Where the last dump ended."""

    @property
    def waiting(self) -> bool:
        """Whether a dump is open: every line may belong to it."""
        return bool(self._open)

    def take(self, line: PrefixedLine, number: int) -> bool:
        """Whether a line is of a dump."""
        text, key = line.text.rstrip(), line.source
        if heading := self._heading(text, line, number):
            self._close(key)
            self._open[key] = _Open(heading)
            self._noise = 0
            return True
        if found := _PROCESS.match(text):
            self._close(key)
            rank = _RANK_ARGUMENT.search(found[2])
            self._process[key] = (say("process {found}", found=found[1]), int(rank[1]) if rank else line.rank)
            return False  # other programs begin lines so
        opened = self._open.get(key)
        if opened is not None and ((frame := _frame(text)) or _BESIDE.match(text)):
            if frame and len(opened.frames) < _MOST_FRAMES:
                opened.frames.append(frame)
            self._noise, self.last_line = 0, number
            return True
        self._noise += bool(self._open)
        for each in list(self._open) if self._noise > _MOST_NOISE else [key]:
            self._close(each)
        return False

    def _heading(self, text: str, line: PrefixedLine, number: int) -> DumpedThread | None:
        found = _FAULT.match(text) or _PYSPY.match(text)
        if found is None:
            return None
        name = found[2] or ""
        process, rank = self._process.get(line.source, (line.source, line.rank))
        return DumpedThread(
            path=self._path,
            line=number,
            rank=rank if rank is not None else line.rank,
            process=process,
            thread=found[1] or name or "the thread",
            main=name == "MainThread",
            frames=(),
        )

    def _close(self, key: str) -> None:
        opened = self._open.pop(key, None)
        if opened is None or not opened.frames or len(self._threads) >= _MOST_THREADS:
            return
        thread = opened.thread
        main = thread.main or last_part(opened.frames[-1].name) in _ENTRIES
        place = (thread.process, thread.thread)
        self._threads.pop(place, None)  # a thread that is dumped again stands where its last dump does
        self._threads[place] = replace(thread, main=main, frames=tuple(opened.frames))

    def stacks(self) -> list[RankStack]:
        """The main thread of each process, in the order of their last dumps."""
        for key in list(self._open):
            self._close(key)
        return judged(self._threads.values())


def judged(threads: Iterable[DumpedThread]) -> list[RankStack]:
    """The main thread of each process with what it does; processes of loaders left out."""
    by_process: dict[str, list[DumpedThread]] = {}
    for thread in threads:
        by_process.setdefault(thread.process, []).append(thread)
    found: list[RankStack] = []
    for each in by_process.values():
        mains = [thread for thread in each if thread.main] or _last_resort(each)
        if mains and mains[0].rank is not None:
            mains = mains[-1:]
        named = len(mains) == 1
        for number, thread in enumerate(mains):
            if is_worker(thread.frames):
                continue
            process = (
                thread.process
                if named and thread.process
                else say("process {number} of {path}", number=number + 1, path=thread.path)
            )
            what = classify(thread.frames, lambda _path, _line: "", device=True)
            found.append(
                RankStack(thread=replace(thread, process=process), phase=what.phase, via=what.via, user=what.user)
            )
    return found


def _last_resort(threads: list[DumpedThread]) -> list[DumpedThread]:
    """The thread that may be the main one: the fault handler shows it last, and cuts long stacks."""
    last = threads[-1]
    begun = last_part(last.frames[-1].name)
    return [] if begun.startswith("_bootstrap") or begun == "run" else [last]


def _frame(text: str) -> Frame | None:
    found = _FAULT_FRAME.match(text)
    if found is not None:
        return Frame(name=found[3].strip(), path=_whole(found[1]), line=int(found[2]))
    found = _PYSPY_FRAME.match(text)
    return Frame(name=found[1], path=_whole(found[2]), line=int(found[3])) if found else None


def _whole(path: str) -> str:
    """A path with the folder that py-spy leaves out of a library's: `torch/cuda/graphs.py`."""
    path = path.replace("\\", "/")
    first = path.split("/", 1)[0].removesuffix(".py")
    if path.startswith(("/", "<", ".")) or ":" in first:
        return path
    if first in _PACKAGES:
        return f"/site-packages/{path}"
    return f"/lib/python3/{path}" if first in sys.stdlib_module_names else path


def with_ranks(stacks: Sequence[RankStack]) -> tuple[RankStack, ...]:
    """All stacks by rank, the last of each; files whose names count from 0 are ranks where nothing says so."""
    if stacks and all(item.thread.rank is None for item in stacks):
        numbers = _counted([item.thread.path for item in stacks])
        stacks = [
            replace(item, thread=replace(item.thread, rank=number))
            for item, number in zip(stacks, numbers, strict=True)
        ]
    by_title = {item.title: item for item in stacks}
    return tuple(sorted(by_title.values(), key=lambda item: (item.thread.rank is None, item.thread.rank or 0)))


def _counted(paths: Sequence[str]) -> Sequence[int | None]:
    """The numbers of the files where their names differ in nothing else and count from 0."""
    names = [path.replace("\\", "/").rpartition("/")[2] for path in paths]
    numbers = [re.findall(r"\d+", name) for name in names]
    alike = len({re.sub(r"\d+", "0", name) for name in names}) == 1
    for place in range(len(numbers[0]) if alike else 0):
        counted = [int(each[place]) for each in numbers]
        if len(names) > 1 and sorted(counted) == list(range(len(names))):
            return counted
    return [None] * len(paths)
