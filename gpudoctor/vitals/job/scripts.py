"""Job scripts and manifests: what they ask for, export and launch, by their text; nothing is executed."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import cast

from gpudoctor.lang import say
from gpudoctor.model import Unavailable
from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import JOB_FOLLOWED, JOB_SCRIPT
from gpudoctor.model.records import replace
from gpudoctor.model.redaction import mask_arguments, mask_text, mask_value
from gpudoctor.model.signs.job import Environment, Grants, Launch, Profile
from gpudoctor.model.visible_devices import entries
from gpudoctor.vitals.job.launch import FoundLaunch, find_launch, inside, unknown_launcher
from gpudoctor.vitals.job.manifests import read_manifest
from gpudoctor.vitals.job.options import launcher_tables, whole
from gpudoctor.vitals.job.scheduler import pbs_grants, slurm_grants, slurm_options
from gpudoctor.vitals.job.shell import ShellCommand, read_lines

_HERE = re.compile(r"^(?:`pwd`|\$\(pwd\)|\$\{?(?:PWD|SLURM_SUBMIT_DIR)\}?)/+")
"""Ways to write the folder that the job is submitted from, in front of a script."""
_ELSEWHERE = frozenset({"", "ssh", "ray", "sky", "Job"})
"""Starters whose plain python is no rank."""
_OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
"""0 in the batch script itself, whatever a task will have."""
_AGAIN = 8
_DEEPEST = 3
"""Shell scripts that call shell scripts, followed so far."""


def job_environment(job_script: str | PathLike[str], base: Environment) -> Environment:
    """The variables that the job script gives its training, over those of `base`; secrets masked.

    An export under a condition is left out, nobody knows whether it will happen; so is a variable whose value
    the script computes, nobody knows what it will be.
    """
    variables = dict(base.variables)
    exports = dict(base.exports)
    for name, value, path, line in read_script(Path(fspath(job_script)), base.variables).exports:
        if value is None or (value := _known(name, value)) is None:
            variables.pop(name, None)
            exports.pop(name, None)
            continue
        variables[name] = mask_value(name, value)
        exports[name] = (path, line)
    return replace(base, variables=variables, exports=exports)


def _known(name: str, value: str) -> str | None:
    """A value without open expansions; None when one is left. `X=/a:$X` of an unset X is `/a:`."""
    value = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", "", value)
    return None if re.search(r"\$[({\w]|`", value) else value


def _text(path: Path) -> str:
    try:
        data = read_file(path, JOB_SCRIPT)
    except OSError as error:
        raise Unavailable("{path} cannot be read: {reason}", path=path, reason=error.strerror or error) from error
    if b"\0" in data[:4096]:
        raise Unavailable("{path} is a binary file, not a job script", path=path)
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


def read_script(path: Path, environment: Mapping[str, str]) -> "JobScript":
    """Raises `Unavailable` with a sentence for one that cannot be read."""
    read = JobScript(Grants(), path, _text(path))
    try:
        if path.suffix.lower() in {".yaml", ".yml"}:
            read.manifest()
        else:
            read.shell(environment)
    except Unavailable as reason:
        raise Unavailable("{path} is not followed: {reason}", path=path, reason=reason) from reason
    return read


class JobScript:
    """What one job script says: launches and exports in its order, with the shell scripts that it calls.

    Raises `Unavailable` where they are too many.
    """

    def __init__(self, grants: Grants, path: Path | None = None, text: str = "") -> None:
        self.grants, self.text, self.profile = grants, text, cast("Profile | None", None)
        self.path = str(path) if path else ""
        self._folder = path.parent if path else Path()
        self._scripts: Counter[str] = Counter()
        self._variables: dict[str, str | None] = {}
        # name, value (None when it is unset), file and 1-based line
        self.exports: list[tuple[str, str | None, str, int]] = []
        self.ignored: list[tuple[int, str]] = []
        self.skipped: list[str] = []
        self.launches: list[Launch] = []

    def shell(self, environment: Mapping[str, str]) -> None:
        """Read a shell script with its directives."""
        options, self.ignored = slurm_options(self.text)
        self.grants = slurm_grants(options, self.path).over(pbs_grants(self.text, self.path))
        self.profile = Profile.SLURM if options else None
        batch = dict.fromkeys(_OF_A_TASK, "0") if options else {}
        for line in read_lines(self.text, {**environment, **_scheduler_variables(self.grants), **batch}):
            self.take(line)
        if any("srun" in (launch.launcher, launch.starter) for launch in self.launches):
            self.profile = Profile.SLURM

    def manifest(self) -> None:
        """Read the containers of a manifest."""
        self.profile = Profile.KUBERNETES if re.search(r"(?m)^ *\"?apiVersion", self.text) else None
        containers = read_manifest(self.text, self.path)
        for container in containers:
            self.grants = self.grants.over(container.grants)
        for container in containers:
            given = {name: value for name, value, _ in container.variables}
            line = ShellCommand(
                words=container.words, line=container.line, text=" ".join(container.words), inherited=given
            )
            self.export(container.variables, self.path)
            own = container.grants
            self.take(line, outer=FoundLaunch(starter=container.starter, on_nodes=own.nodes, grants=own))

    def export(self, rows: Iterable[tuple[str, str | None, int]], path: str, *, lasting: bool = True) -> None:
        """Variables that the training will have, the `lasting` ones every later launch, too."""
        for name, value, line in rows:
            self.exports.append((name, value, path, line))
            self._variables |= {name: value} if lasting else {}

    def take(
        self, line: ShellCommand, path: str | None = None, depth: int = 0, outer: FoundLaunch | None = None
    ) -> None:
        """One command, which stands in this script or in the one at `path`, started by the command `outer`."""
        path = path or self.path
        if not line.conditional:
            self.export([(name, value, line.line) for name, value in line.exported.items()], path)
            self.export([(name, None, line.line) for name in line.unset], path)
        found = find_launch(line.words)
        if found is None:
            name = "" if line.conditional else unknown_launcher(line.words)
            if name:
                text = "{path}, line {line}: gpudoctor does not know the launcher {name}, and skips it"
                self.skipped.append(say(text, path=path, line=line.line, name=name))
            return
        given = dict(line.assigned)
        if "env" in line.words[:3]:
            given |= dict(word.split("=", 1) for word in line.words if re.match(r"[A-Z_][A-Z0-9_]*=", word))
        if not line.conditional:
            self.export([(name, value, line.line) for name, value in given.items()], path, lasting=False)
        if outer is not None:
            found = inside(outer, found)
        if found.shell is None and found.shell_script is None:
            self.launches.append(self._row(found, line, path, given))
        elif depth < _DEEPEST:
            self._follow(found, line, path, depth + 1)

    def _follow(self, found: FoundLaunch, line: ShellCommand, path: str, depth: int) -> None:
        """What `bash -c "..."` starts (told at the line that holds it), or a shell script beside this one.

        The same script again and again, with other arguments, launches the same.
        """
        name, text = found.shell_script or "", found.shell or ""
        if name and self._scripts[name] >= _AGAIN:
            return
        self._scripts[name] += 1
        if self._scripts.total() > JOB_FOLLOWED.most:
            raise Unavailable("it has {words}", words=JOB_FOLLOWED.words)
        script = next((place for place in (self._folder / name, Path(name)) if name and os.path.isfile(place)), None)
        with suppress(Unavailable):
            text = _text(script) if script else text
        known = _scheduler_variables(self.grants) | dict(line.inherited)
        if found.starter:  # each task has its own
            known = {name: value for name, value in known.items() if name not in _OF_A_TASK}
        for inner in read_lines(text, known):
            inner = inner if script else replace(inner, line=line.line)
            self.take(inner, str(script) if script else path, depth, found)

    def _row(self, found: FoundLaunch, line: ShellCommand, path: str, given: dict[str, str]) -> Launch:
        """The launch with what the scheduler and its container leave to it."""
        grants, job = found.grants.over(self.grants), self.grants
        rows = [(name, _known(name, value)) for name, value in (self._variables | given).items() if value is not None]
        variables = {name: mask_value(name, value) for name, value in rows if value is not None}
        told = dict(found.told)
        if "CUDA_VISIBLE_DEVICES" in variables:
            told.setdefault("devices", variables["CUDA_VISIBLE_DEVICES"])
        told.setdefault("meets", ":".join(filter(None, (told.pop("address", ""), told.pop("port", "")))))
        told["meets"] = told["meets"] or variables.get("MASTER_ADDR", "")
        visible = entries(told["devices"]) if "devices" in told else None
        stepped = found.starter == "srun"
        meant, ranks, slots = found.nodes, found.ranks, grants.gpus_granted
        if found.hosts:
            meant, ranks, slots = _hosts(found, self._folder, slots)
        cards = min((one for one in (slots, visible) if one is not None), default=None)
        if slots:
            told["gpus"] = str(slots)
        self.grants = job.over(Grants(shared_memory_granted=grants.shared_memory_granted))
        launcher, starter, tasks = found.launcher, found.starter, found.tasks
        nodes = found.on_nodes or (job.nodes if starter in {"srun", "mpirun"} else None) or meant
        if not starter and job.nodes and self.profile is Profile.SLURM and launcher in {"torchrun", "accelerate"}:
            nodes = 1  # the batch script runs on the first node alone
        if tasks is None and found.total_tasks:
            tasks = max(1, found.total_tasks // (nodes or 1))
        if tasks is None and stepped:
            tasks = job.ranks_per_node or (1 if job.nodes else None)
        cpus, total = grants.cpus_granted, found.total_ranks
        if stepped and grants.cpus_per_task:
            # Slurm 22.05 and later: srun does not take it over from sbatch
            handed = found.grants.cpus_per_task or whole(variables.get("SRUN_CPUS_PER_TASK"))
            cpus = float((handed or 1) * (tasks or 1))
        if launcher == "python" and starter not in _ELSEWHERE:  # a rank of its starter
            launcher, starter, ranks, tasks, total = starter, "", tasks, 1, found.total_tasks
            told["processes"] = told.get("tasks", "")
        elif ranks is None and found.every_gpu:
            ranks = cards
        elif ranks is None and found.total_ranks is not None:
            ranks = max(1, found.total_ranks // (nodes or 1))
        alone = launcher == "torchrun" and starter in {"", "srun", "mpirun", "sky", "Job"} and "nodes" not in told
        size = meant or (1 if alone else nodes)
        return Launch(
            launcher=launcher,
            script=_HERE.sub("", found.script) if found.script else None,
            module=found.module,
            arguments=mask_arguments(found.arguments),
            ranks_per_node=ranks,
            nodes=nodes,
            path=path or None,
            line=line.line or None,
            text=mask_text(" ".join(line.text.split())),
            starter=starter,
            tasks=tasks,
            world=total or (ranks * size if ranks and size and launcher != "python" else None),
            grants=replace(grants, gpus_granted=cards, cpus_granted=cpus),
            told=told,
            variables=variables,
        )


def _hosts(found: FoundLaunch, folder: Path, cards: int | None) -> tuple[int | None, int | None, int | None]:
    """Nodes, processes and GPUs on a node, with what accelerate's config or deepspeed's hostfile adds to the line."""
    path = next((place for place in (Path(found.hosts), folder / found.hosts) if os.path.isfile(place)), None)
    text = _text(path) if path else ""
    if found.launcher == "deepspeed":
        slots = re.findall(r"(?m)^[ \t]*[^#\s]\S*[ \t]+slots=(\d{1,4})", text)
        each = int(slots[0]) if slots else None
        return found.nodes or len(slots) or None, found.ranks or each, each or cards
    said = dict(re.findall(r"(?m)^(num_machines|num_processes):[ \t]*['\"]?(\d{1,6})", text))
    nodes = found.nodes or whole(said.get("num_machines"))
    total = found.total_ranks or whole(said.get("num_processes"))
    return nodes, max(1, total // (nodes or 1)) if total else None, cards


def launches_of(command: Sequence[str], grants: Grants) -> list[Launch]:
    """Launches of a command that was given word by word."""
    read = JobScript(grants)
    read.take(ShellCommand(words=tuple(command), line=0, text=" ".join(command)))
    return read.launches


def _scheduler_variables(grants: Grants) -> dict[str, str]:
    """Variables that Slurm will set for what the script asks for, so that `$SLURM_NNODES` can be resolved."""
    sets = launcher_tables()["slurm"]["sets"].items()
    rows = [(name, getattr(grants, field)) for field, names in sets for name in names.split()]
    found = {name: str(value) for name, value in rows if value is not None}
    if grants.ranks_per_node is not None:
        found["SLURM_NTASKS"] = str(grants.ranks_per_node * (grants.nodes or 1))
    return found
