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
from gpudoctor.model import Setting, SourceSpan
from gpudoctor.model.job_devices import VARIABLE
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.model.signs.source import Known, Source
from gpudoctor.text import count, duration

_LOCAL = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(:\d*)?")
_UNITS = {"h": 3600, "m": 60}
_OPTION = re.compile(r"(?<!\S)(--?[\w.-]+)[= ](\S+)")
_NAME = r"[\w-]*(?:out|save|run|(?:ckpt|checkpoint)s?[_-]?(?:dir|folder|root))[\w-]*"
_KEPT = re.compile(rf"(?<![\w-])(--?{_NAME}|(?=(?-i:[A-Z])){_NAME})[= ][\"']?([^\s\"']+)", re.IGNORECASE)
"""A variable or an option for what is kept, and where."""
_READ = re.compile("resume|load|init|from|pretrain|runtime", re.IGNORECASE)  # not kept
_COPIES = r"\b(?:cp|mv|rsync|scp|rclone|gsutil|aws|azcopy|tar +-?c\w*)\b"
_UPLOADS = re.compile(r"push_to_hub|boto3|s3fs|gcsfs|fsspec|upload|artifact|s3://|gs://")
_CHAINED = re.compile(r"\bsbatch\b|requeue|dependency|array=\S*%1\b")  # another job continues it
_DEFAULT_PORT = "29500"
_STARTS_CUDA = re.compile(
    r"torch\.cuda\.(init|set_device|current_device|is_available|get_device_\w+|mem_get_info|synchronize)|torch\.nn\.Module\.cuda"
)
_QUOTED_HOST = re.compile(r"-l?c\s+'[^']*\$\(hostname")
"""It stands in single quotes, so that each task asks for it."""
_SPLIT = re.compile(r"(?<![\w.])([\w.]*?)-{0,2}\b(?:tensor|pipeline)[_-](?:model[_-])?parallel[_-]size[= ]+(\d{1,4})\b")
"""The prefix names the part of a program that is split so."""
_ENGINES = {("Trainer", "lightning"), ("Trainer", "pytorch_lightning"), ("ScalingConfig", "ray")}
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
    place: Setting | SourceSpan
    gpus: int = 0
    """GPUs that a node of the launch has, 0 where nothing says so."""


def launch_faults(job: Job, source: Source | None, configs: Configs | None) -> Iterator[LaunchFault]:
    """All of a job, in the order of its lines."""
    path = job.script_path
    for line, text in job.ignored:
        place = Setting(key="#SBATCH", value=text, origin=path or "", path=path, line=line)
        kind = "no-gpu" if "gpu" in text else "ignored"
        yield _fault(kind, {"text": text}, place)
    for row in job.launches:
        if not row.path:
            continue
        launched = Setting(key="launch", value=row.text, origin=row.path, path=row.path, line=row.line)
        read = _Row(row, job, source, configs)
        for kind in read.kinds():
            yield _fault(kind, read.fields, read.place or launched, read.cards)
            read.place = None
    if job.launches:
        yield from _lost(job, source, configs)


def _lost(job: Job, source: Source | None, configs: Configs | None) -> Iterator[LaunchFault]:
    """Output in a folder that ends with the job, where nothing copies it elsewhere."""
    path = job.script_path
    lines = [(row.line, " ".join(row.arguments)) for row in job.launches]
    lines += enumerate(job.script_text.split("\n"), 1)
    written: list[tuple[str, str, Setting]] = []
    for number, line in lines:
        code = "" if line.lstrip().startswith("#") else line
        for name, value in _KEPT.findall(re.sub(r"\$\{(\w+)\}", r"$\1", code)):
            written.append((name, value, Setting(key=name, value=value, origin=path or "", path=path, line=number)))
    for meant in configs.canonical("output_dir") if configs is not None else ():
        written.append((meant.entry.key, str(meant.value), meant.setting))
    if source is not None and any(_UPLOADS.search(script.text) for script in source.scripts):
        return
    for name, value, place in written:
        folder = next((folder for folder in job.lost.split() if f"{value}/".startswith(f"{folder}/")), None)
        own = rf"\${{?{re.escape(name.lstrip('-'))}|{re.escape(folder or '')}"
        if folder and not _READ.search(name) and not re.search(rf"{_COPIES}[^\n]*({own})[^\n]* \S", job.script_text):
            yield _fault("tmp" if folder == "/tmp" else "local", {"option": f"{name}={value}"}, place)


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
            yield _fault("late", {"variable": VARIABLE, "line": item.span.line, "first": first}, item.span)


def _port(row: Launch, shared: bool) -> str:
    """Where the ranks of a launch meet on this host; "" where that is not known, or is no port of the host."""
    meets = row.told.get("meets", "")
    backend = row.told.get("backend", "static")
    last = meets.rpartition(":")[2]
    before, _, _ = row.text.partition(row.script or "\0")
    of_file = "config" in before and not last.isdigit()
    looks = row.launcher == "accelerate" and (row.nodes or 1) == 1  # for a free one
    own = "--standalone" in row.text or "docker" in row.text or of_file or looks
    elsewhere = row.starter and not shared
    free = backend != "static" and not meets
    if row.launcher not in _MEETING or own or elsewhere or free or "$" in meets:
        return ""
    port = last if last.isdigit() else row.variables.get("MASTER_PORT", _DEFAULT_PORT)
    return port if int(port or 0) else ""


def _listed(row: Launch) -> list[int]:
    """GPUs that the launch names."""
    return [int(word) for word in row.told.get("devices", "").split(",") if word.strip().isdigit()]


def _dropped(row: Launch) -> bool:
    """Whether deepspeed leaves CUDA_VISIBLE_DEVICES aside: it counts the GPUs itself, from 0."""
    listed = _listed(row)
    counts = row.launcher == "deepspeed" and "processes" in row.told
    return counts and VARIABLE in row.variables and listed != list(range(len(listed)))


def _taken(row: Launch, job: Job) -> set[int]:
    """GPUs that the processes of a launch take; none where that is not known."""
    hidden = VARIABLE in job.script_text and "devices" not in row.told
    computed = "$" in row.told.get("devices", "")
    elsewhere = row.starter or "docker" in row.text
    if hidden or computed or elsewhere:
        return set()
    if row.trains and row.launcher not in _MEETING:
        return set()
    number = row.here or 0
    listed = [] if _dropped(row) else _listed(row)
    return set(listed[:number] or range(number))


def _seconds(name: str, value: str) -> float:
    """The time that a setting plans: `--max-hours 70`, Lightning's `max_time: 02:00:00:00`; 0 for another."""
    unit = re.search(r"(?:^|[._-])(hours?|minutes|mins)$", name)
    if unit and re.fullmatch(r"\d{1,6}(\.\d{1,3})?", value):
        return float(value) * _UNITS[unit[1][0]]
    clock = re.fullmatch(r"(\d{1,4}):(\d\d):(\d\d):(\d\d)", value)
    if clock is None or not name.endswith("max_time"):
        return 0.0
    days, hours, minutes, seconds = map(int, clock.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _fault(kind: str, fields: dict[str, object], place: Setting | SourceSpan, gpus: int = 0) -> LaunchFault:
    row = fault_rows()[kind]
    named = {name: fields[name] for _, name, _, _ in Formatter().parse(row["say"]) if name}
    return LaunchFault(kind, say(row["say"], **named), term(row["breaks"]) if row["breaks"] else "", place, gpus)


class _Row:
    """A launch, and what does not fit in it."""

    def __init__(self, row: Launch, job: Job, source: Source | None, configs: Configs | None) -> None:
        self.row = row
        self.place: Setting | SourceSpan | None = None
        """Of the fault that is told, where that is not the launch line."""
        self.configs = configs
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
            "node_rank": row.told.get("node_rank", "0" if row.launcher == "torchrun" and "nodes" in row.told else ""),
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
        yield from self._beside()
        yield from self._time()
        if self.here > 1 and self.row.grants.gpus_per_task != 1 and self._program("one-card"):
            yield "one-card"
        if self.here > 1 and self.row.grants.gpus_per_task == 1 and self._program("one-gpu"):
            yield "one-gpu"
        restarts = self.row.told.get("restarts", "")
        if (restarts.strip("0").isdigit() or self.job.preemptible) and self._program("restart"):
            yield "restart" if restarts.strip("0") else "requeue"
        yield from self._meeting()
        yield from self._parallel()
        yield from self._engines()
        yield from self._world()

    def _meeting(self) -> Iterator[str]:
        """The place where the ranks of several nodes meet, and their order."""
        told = self.row.told
        meets = told.get("meets", "")
        on_each = self.row.starter == "srun" and self.nodes > 1
        other_file = self.row.path != self.job.script_path
        if told.get("nodes") and self.nodes > 1 and "--standalone" in self.row.text:
            yield "standalone"
        elif self.nodes > 1 and _LOCAL.fullmatch(meets):
            yield "meets"
        elif on_each and "$(hostname" in meets and (other_file or _QUOTED_HOST.search(self.job.script_text)):
            yield "own-host"
        elif on_each and str(self.fields["node_rank"]).isdigit() and told.get("backend", "static") == "static":
            yield "same-rank"

    def _parallel(self) -> Iterator[str]:
        """Parts of a model, against the processes or the GPUs that there are for them."""
        words = " ".join((*self.row.arguments, *(self.texts if self._is_given() else ())))
        parts: dict[str, int] = {}
        for group, size in _SPLIT.findall(words):
            parts[group] = parts.get(group, 1) * int(size)
        ranked = self.row.launcher not in {"python", "srun", "mpirun"} and self.row.trains
        world = self.row.world if ranked else self.cards * self.nodes
        for split in parts.values():
            self.fields |= {"split": split, "world": world}
            if world and split > 1 and (world % split if ranked else world < split):
                yield "parallel" if ranked else "parallel-cards"
                return

    def _engines(self) -> Iterator[str]:
        """What the program tells Lightning or Ray, against what the job has."""
        calls = [call for call in self.calls if (call.method, call.name.split(".")[0]) in _ENGINES]
        for call in calls if len(calls) == 1 and not calls[0].open_ended else ():
            engine = call.name.split(".")[0]
            name = "use_gpu" if engine == "ray" else "accelerator"
            usual = Known(value=engine != "ray")
            asked = call.keywords.get(name, usual)
            if isinstance(asked, Known) and asked.value in (False, "cpu") and self.cards:
                self.place = call.span
                self.fields |= {"call": call.method, "gpus": count(self.cards, "GPU")}
                yield "cpu"
            devices = call.keywords.get("devices", Known(value=1))
            nodes = call.keywords.get("num_nodes", Known(value=1))
            slurm = engine != "ray" and self.row.launcher == "srun" and self.job.profile is Profile.SLURM
            if not slurm or not isinstance(devices, Known) or not isinstance(nodes, Known):
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

    def _beside(self) -> Iterator[str]:
        """Another launch, which has not ended when this one starts, or this one again."""
        row, job = self.row, self.job
        before = [one for one in job.launches if one.path == row.path and (one.line or 0) < (row.line or 0)]
        beside = [one for one in before if "background" in one.told and one.told["waits"] == row.told["waits"]]
        port = _port(row, bool(job.shared))
        same = row.told.get("background") == "loop" or any(_port(one, False) == port for one in beside)
        taken = _taken(row, job)
        overlapping = [one for one in beside if taken & _taken(one, job)]
        sharing = [one for one in overlapping if max(one.here or 0, self.here) > 1]
        self.fields |= {"port": port, "ours": row.variables.get(VARIABLE), "variable": VARIABLE}
        if port and same and not row.starter:
            yield "port"
        elif port and job.shared:
            yield "array"
        elif _dropped(row):
            self.fields["last"] = self.here - 1
            yield "dropped"
        elif sharing:
            self.fields |= {"other": sharing[0].line, "line": row.line}
            yield "sharing"

    def _time(self) -> Iterator[str]:
        """What arguments and configs plan, beside the scheduler's limit."""
        limit = self.job.time_limit
        planned: list[tuple[str, str, Setting | SourceSpan | None]] = [
            (name, value, None) for name, value in _OPTION.findall(" ".join(self.row.arguments))
        ]
        for file in self.configs.files if self.configs is not None else ():
            planned += [(entry.key, str(entry.value), file.setting(entry)) for entry in file.find("max_time")]
        for call in self.calls:
            given = call.keywords.get("max_time")
            if isinstance(given, Known):
                planned.append(("max_time", str(given.value), call.span))
        goes_on = self.job.preemptible or self.job.signal or _CHAINED.search(self.job.script_text)
        for name, value, place in planned:
            if limit and not goes_on and _seconds(name, value) > limit:
                self.fields |= {"option": f"{name} {value}", "limit": duration(limit)}
                self.place = place
                yield "time"
                return

    def _gpus(self) -> Iterator[str]:
        told = self.row.told
        listed = _listed(self.row)
        highest = max(listed, default=0)
        gpus = int(told.get("gpus", 0))
        self.fields |= {"devices": told.get("devices"), "highest": highest, "gpus": count(gpus, "GPU")}
        programs = {launch.script or launch.module for launch in self.job.launches}
        if "split" in told:
            self.fields["split"] = told["split"]
            yield "split"
        elif listed and gpus and highest >= gpus:
            yield "index"
        elif self.cards and self.here > self.cards:
            yield "ranks"
        elif 0 < self.here < self.cards and self.row.launcher in _MEETING and len(programs) == 1:
            yield "idle"

    def _world(self) -> Iterator[str]:
        """Processes that are started, beside those that the launcher is told of."""
        row, told = self.row, self.row.told
        waits, told_nodes = row.launcher in _RENDEZVOUS, told.get("nodes", "")
        fixed = re.fullmatch(r"\d*", told_nodes)  # not elastic: `--nnodes=1:4`
        once = not row.starter and row.path == self.job.script_path
        self.fields |= {"of": self.job.nodes, "slots": told.get("slots"), "signal": self.job.signal}
        if waits and fixed and 0 < self.total < (row.world or 0):
            yield "missing"
        elif waits and once and "$" in told_nodes and (self.job.nodes or 1) > 1:
            yield "alone"
        elif self.total > int(told.get("slots") or self.total):
            yield "slots"
        steps = row.starter == "srun" or row.launcher == "srun"
        if self.job.profile is Profile.SLURM and not steps and not (self.job.signal or "B:").startswith("B:"):
            yield "unsignalled"
