"""What does not fit in the launch table: processes, GPUs, ranks and nodes of a launch line, by the job's own words."""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import NamedTuple

from gpudoctor.analysis.workload import launch_words
from gpudoctor.lang import say, term
from gpudoctor.model import Setting
from gpudoctor.model.signs.job import Job, Launch
from gpudoctor.model.signs.source import Source
from gpudoctor.text import count

_LOCAL = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(:\d*)?")
_RENDEZVOUS = frozenset({"torchrun", "accelerate"})
"""Launchers that are told the number of all processes, and wait for them."""


@cache
def fault_rows() -> dict[str, dict[str, str]]:
    """What is said of each kind of fault, and what it breaks; one that breaks nothing is a warning."""
    rows: dict[str, dict[str, str]] = json.loads(files(__package__).joinpath("launch_faults.json").read_text("utf-8"))
    return rows


class LaunchFault(NamedTuple):
    """One thing that does not fit."""

    kind: str
    text: str
    breaks: str
    place: Setting
    gpus: int = 0
    """GPUs that a node of the launch has, 0 where nothing says so."""


def launch_faults(job: Job, source: Source | None) -> Iterator[LaunchFault]:
    """All of a job, in the order of its lines."""
    path = job.script_path
    for line, text in job.ignored:
        place = Setting(key="#SBATCH", value=text, origin=path or "", path=path, line=line)
        kind = "no-gpu" if "gpu" in text or "gres" in text else "ignored"
        yield _fault(kind, {"text": text}, place)
    for row in job.launches:
        if not row.path:
            continue
        place = Setting(key="launch", value=row.text, origin=row.path, path=row.path, line=row.line)
        read = _Row(row, job, source)
        for kind in read.kinds():
            yield _fault(kind, read.fields, place, read.cards)


def _fault(kind: str, fields: dict[str, object], place: Setting, gpus: int = 0) -> LaunchFault:
    row = fault_rows()[kind]
    named = {name: fields[name] for _, name, _, _ in Formatter().parse(row["say"]) if name}
    breaks = term(row["breaks"]) if row["breaks"] else ""
    return LaunchFault(kind, say(row["say"], **named), breaks, place, gpus)


class _Row:
    """A launch, and what does not fit in it."""

    def __init__(self, row: Launch, job: Job, source: Source | None) -> None:
        self.row = row
        self.job = job
        scripts = source.scripts if source is not None else ()
        self.texts = [script.text for script in scripts]
        self.cards = row.grants.gpus_granted or 0
        """GPUs on a node."""
        self.here = row.here or 0
        """Processes on a node."""
        self.nodes = row.nodes or 1
        self.total = self.here * self.nodes
        both = say("{starter} and {launcher}", starter=row.starter, launcher=row.launcher)
        self.fields: dict[str, object] = {
            "row": launch_words(row),
            "who": both if row.starter else row.launcher,
            "launcher": row.launcher,
            "world": row.world,
            "nodes": row.nodes,
            "total": self.total,
            "idle": count(self.cards - self.here, "GPU"),
            "meets": row.told.get("meets"),
        }
        """What the sentences name."""

    def kinds(self) -> Iterator[str]:
        """Of its faults, each with its `fields`."""
        yield from self._gpus()
        yield from self._world()
        yield from self._task_gpu()
        if self.nodes > 1 and _LOCAL.fullmatch(self.row.told.get("meets", "")):
            yield "meets"

    def _gpus(self) -> Iterator[str]:
        told = self.row.told
        words = told.get("devices", "").split(",")
        listed = [int(word) for word in words if word.strip().isdigit()]
        highest = max(listed, default=0)
        gpus = int(told.get("gpus", 0))
        self.fields |= {"devices": told.get("devices"), "highest": highest, "gpus": count(gpus, "GPU")}
        programs = {launch.script or launch.module for launch in self.job.launches}
        if listed and gpus and highest >= gpus:
            yield "index"
        elif self.cards and self.here > self.cards:
            yield "ranks"
        elif 0 < self.here < self.cards and self._takes_one_gpu() and len(programs) == 1:
            yield "idle"

    def _takes_one_gpu(self) -> bool:
        """Whether each process takes one GPU, so that others stay idle; a plain python may use several."""
        launcher = self.row.launcher
        if launcher in {"torchrun", "accelerate", "deepspeed"}:
            return True
        own = any("set_device(" in text and "DistributedDataParallel" in text for text in self.texts)
        return own and launcher != "python"

    def _world(self) -> Iterator[str]:
        """Processes that are started, beside those that the launcher is told of."""
        fixed = re.fullmatch(r"\d*", self.row.told.get("nodes", ""))  # not elastic: `--nnodes=1:4`
        if self.row.launcher not in _RENDEZVOUS or not self.here or not fixed:
            return
        if self.total < (self.row.world or 0):
            yield "missing"

    def _task_gpu(self) -> Iterator[str]:
        """A program that takes the GPU of its local rank, where each task sees one, number 0."""
        if self.row.grants.gpus_per_task != 1 or self.here <= 1:
            return
        by_place = [text for text in self.texts if "SLURM_LOCALID" in text and "set_device(" in text]
        if by_place and not any("device_count" in text for text in by_place):
            yield "one-gpu"
