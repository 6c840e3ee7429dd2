"""What does not fit in the launch table: processes, GPUs, ranks and nodes of a launch line, by the job's own words."""

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import NamedTuple

from gpudoctor.analysis.workload import launch_words
from gpudoctor.lang import say, term
from gpudoctor.model import Setting
from gpudoctor.model.job_devices import VARIABLE
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.model.signs.source import Known, Source
from gpudoctor.text import count, duration

_LOCAL = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(:\d*)?")
_PLANNED = re.compile(r"(--?[\w-]*[_-](?:in[_-])?(hours?|minutes|mins))[= ](\d{1,6}(?:\.\d{1,3})?)\b")
"""An option whose name ends with a unit of time."""
_SECONDS = {"h": 3600, "m": 60}
_OUTPUT = re.compile(
    r"(?P<name>--?\w*(?:out|save|ckpt|checkpoint|run)[\w-]*|\b\w*(?:OUT|SAVE|CKPT|CHECKPOINT|RUN)\w*)[= ]"
    r"(?P<value>[\"']?(?P<disk>\$\{?SLURM_TMPDIR|\$\{?TMPDIR|/dev/shm/|/tmp/)[^\s\"']*)"
)
"""A variable or an option for what is kept, on a disk of the node."""
_COPIES = r"\b(?:cp|mv|rsync|scp|rclone|gsutil|aws|azcopy|tar +-?c\w*)\b"
_DEFAULT_PORT = "29500"
_STARTS_CUDA = re.compile(
    r"torch\.cuda\.(init|set_device|current_device|is_available|get_device_\w+|mem_get_info|synchronize)|torch\.nn\.Module\.cuda"
)
_QUOTED_HOST = re.compile(r"-l?c\s+'[^']*\$\(hostname")
"""It stands in single quotes, so that each task asks for it."""
_SPLIT = re.compile(r"\b(tensor|pipeline)[_-](?:model[_-])?parallel[_-]size[= ]+(\d{1,4})\b")
_LIGHTNING = ("lightning", "pytorch_lightning")
_RENDEZVOUS = frozenset({"torchrun", "accelerate"})
"""Launchers that are told the number of all processes, and wait for them."""
_MEETING = _RENDEZVOUS | {"deepspeed"}


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
    if job.profile is Profile.SLURM and job.launches:
        yield from _lost(job)


def _lost(job: Job) -> Iterator[LaunchFault]:
    """Output on a disk that is emptied when the job ends."""
    path = job.script_path or ""
    for number, line in enumerate(job.script_text.split("\n"), 1):
        found = _OUTPUT.search(line)
        if found is None or line.lstrip().startswith("#"):
            continue
        name = re.escape(found["name"].lstrip("-"))
        if not re.search(rf"{_COPIES}[^\n]*(\${{?{name}|{re.escape(found['disk'])})[^\n]* \S", job.script_text):
            place = Setting(key=found["name"], value=found["value"], origin=path, path=path, line=number)
            kind = "tmp" if found["disk"] == "/tmp/" else "local"
            yield _fault(kind, {"option": f"{found['name']}={found['value']}"}, place)


def late_devices(source: Source) -> Iterator[LaunchFault]:
    """CUDA_VISIBLE_DEVICES, set by a program that has started CUDA before."""
    if not any(VARIABLE in script.text for script in source.scripts):
        return
    from gpudoctor.analysis.source.control_flow import function_of
    from gpudoctor.analysis.source.environment_assignments import assignments

    for item in assignments(source):
        if item.name != VARIABLE:
            continue
        script = next(script for script in source.scripts if script.path == item.span.path)
        homes = (None, function_of(script, item.node))
        starting = [call for call in script.calls if _STARTS_CUDA.fullmatch(call.name)]
        before = [call.span.line for call in starting if function_of(script, call.node) in homes]
        first = min(before, default=item.span.line)
        if first < item.span.line:
            line = item.span.line
            place = Setting(key=VARIABLE, value=item.value or "", origin=script.path, path=script.path, line=line)
            yield _fault("late", {"variable": VARIABLE, "line": line, "first": first}, place)


def _port(row: Launch) -> str:
    """Where the ranks of a launch meet on this host; "" where that is not known, or is no port of the host."""
    meets = row.told.get("meets", "")
    backend = row.told.get("backend", "static")
    own = "--standalone" in row.text or "docker" in row.text or "config" in row.text.partition(row.script or "\0")[0]
    if row.launcher not in _MEETING or row.starter or own or "$" in meets or (backend != "static" and not meets):
        return ""
    last = meets.rpartition(":")[2]
    port = last if last.isdigit() else row.variables.get("MASTER_PORT", _DEFAULT_PORT)
    return port if int(port or 0) else ""


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
        self.calls = [call for script in scripts for call in script.calls]
        self.names = {script.path.rpartition("/")[2] for script in scripts}
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
            "here": self.here,
            "node_rank": row.told.get("node_rank"),
            "restarts": row.told.get("restarts"),
            "nodes": row.nodes,
            "total": self.total,
            "idle": count(self.cards - self.here, "GPU"),
            "meets": row.told.get("meets"),
        }
        """What the sentences name."""

    def kinds(self) -> Iterator[str]:
        """Of its faults, each with its `fields`."""
        yield from self._gpus()
        yield from self._port()
        yield from self._time()
        if self.here > 1 and self.row.grants.gpus_per_task != 1 and self._program("one-card"):
            yield "one-card"
        restarts = self.row.told.get("restarts", "")
        if (restarts.strip("0").isdigit() or self.job.preemptible) and self._program("restart"):
            yield "restart" if restarts.strip("0") else "requeue"
        yield from self._meeting()
        yield from self._parallel()
        yield from self._lightning()
        yield from self._world()
        yield from self._task_gpu()

    def _meeting(self) -> Iterator[str]:
        """The place where the ranks of several nodes meet, and their order."""
        told = self.row.told
        meets = told.get("meets", "")
        on_each = self.row.starter == "srun" and self.nodes > 1
        other_file = self.row.path != self.job.script_path
        if self.nodes > 1 and _LOCAL.fullmatch(meets):
            yield "meets"
        elif on_each and "$(hostname" in meets and (other_file or _QUOTED_HOST.search(self.job.script_text)):
            yield "own-host"
        elif on_each and told.get("node_rank", "").isdigit() and told.get("backend", "static") == "static":
            yield "same-rank"

    def _parallel(self) -> Iterator[str]:
        """Parts of a model, against the processes or the GPUs that there are for them."""
        words = " ".join((*self.row.arguments, *(self.texts if self._is_given() else ())))
        parts = dict(_SPLIT.findall(words))
        split = math.prod(int(number) for number in parts.values())
        ranked = self.row.launcher in _MEETING
        world = self.row.world if ranked else self.cards * self.nodes
        self.fields |= {"split": split, "world": world}
        if world and split > 1 and (world % split if ranked else world < split):
            yield "parallel" if ranked else "parallel-cards"

    def _lightning(self) -> Iterator[str]:
        """Lightning's own numbers, against the tasks that Slurm starts."""
        given = self.calls if self.row.launcher == "srun" and self.job.profile is Profile.SLURM else []
        for call in given:
            if call.method != "Trainer" or call.name.split(".")[0] not in _LIGHTNING:
                continue
            devices, nodes = (call.keywords.get(name, Known(value=1)) for name in ("devices", "num_nodes"))
            if not isinstance(devices, Known) or not isinstance(nodes, Known):
                continue
            fits = str(devices.value) in {str(self.here), "-1", "auto"} and nodes.value == self.nodes
            if self.here and not fits:
                self.fields |= {"devices": devices.value, "num_nodes": nodes.value}
                yield "lightning"

    def _is_given(self) -> bool:
        return (self.row.script or "?").rpartition("/")[2] in self.names

    def _program(self, kind: str) -> bool:
        """Whether the launched program was given and has what the row asks for."""
        row = fault_rows()[kind]
        text = "\n".join(self.texts)
        if not self._is_given() or re.search(row["unless"], text, re.IGNORECASE):
            return False
        return bool(re.search(row["has"], text) and re.search(row["and"], text, re.DOTALL))

    def _port(self) -> Iterator[str]:
        """Another launch, which has not ended when this one starts, or this one again."""
        port = _port(self.row)
        self.fields["port"] = port
        before = [row for row in self.job.launches if (row.line or 0) < (self.row.line or 0)]
        same = [row for row in before if row.path == self.row.path and row.told["waits"] == self.row.told["waits"]]
        beside = [row for row in same if "background" in row.told and _port(row) == port]
        if port and (beside or self.row.told.get("background") == "loop"):
            yield "port"

    def _time(self) -> Iterator[str]:
        """Hours or minutes that an argument plans, beside the scheduler's limit."""
        limit = self.job.time_limit
        words = " ".join(self.row.arguments)
        for option, unit, number in _PLANNED.findall(words) if limit and not self.job.preemptible else ():
            if limit and float(number) * _SECONDS[unit[0]] > limit:
                self.fields |= {"option": f"{option} {number}", "limit": duration(limit)}
                yield "time"
                return

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
