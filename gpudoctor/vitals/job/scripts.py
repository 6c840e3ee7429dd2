"""Job scripts and manifests: what they ask for, export and launch, by their text; nothing is executed."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

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
_EACH_ALONE = frozenset({"", "srun", "mpirun", "sky", "Job"})
"""Starters under which a torchrun that is told no nodes is a group of its own on each node."""
_OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
"""0 in the batch script itself, whatever a task will have."""
_AGAIN = 8
"""Times that one shell script is followed: a loop over seeds or folds launches the same each time."""
_DEEPEST = 3
"""Shell scripts that call shell scripts, followed so far."""


def job_environment(job_script: str | PathLike[str], base: Environment) -> Environment:
    """The variables that the job script gives its training, over those of `base`; secrets masked.

    An export under a condition is left out, nobody knows whether it will happen; so is a variable whose value
    the script computes, nobody knows what it will be.
    """
    variables = dict(base.variables)
    exports = dict(base.exports)
    script = read_script(Path(fspath(job_script)), base.variables)
    for name, value, path, line in script.exports:
        known = None if value is None else _known(name, value)
        if known is None:
            variables.pop(name, None)
            exports.pop(name, None)
        else:
            variables[name] = mask_value(name, known)
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
        self.grants = grants
        self.text = text
        self.profile: Profile | None = None
        self.path = str(path) if path else ""
        self._folder = path.parent if path else Path()
        self._scripts: Counter[str] = Counter()
        """How often each shell script was followed, by its name."""
        self._variables: dict[str, str | None] = {}
        # name, value (None when it is unset), file and 1-based line
        self.exports: list[tuple[str, str | None, str, int]] = []
        self.ignored: list[tuple[int, str]] = []
        self.skipped: list[str] = []
        self.launches: list[Launch] = []
        self._waits = 0
        """Places where the script waits for what runs in the background, or ends it."""

    def shell(self, environment: Mapping[str, str]) -> None:
        """Read a shell script with its directives."""
        options, self.ignored = slurm_options(self.text)
        self.grants = slurm_grants(options, self.path).over(pbs_grants(self.text, self.path))
        self.profile = Profile.SLURM if options else None
        known = {**environment, **_scheduler_variables(self.grants)}
        if options:
            known |= dict.fromkeys(_OF_A_TASK, "0")
        for line in read_lines(self.text, known):
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
            self.export(container.variables, self.path)
            line = ShellCommand(
                words=container.words,
                line=container.line,
                text=" ".join(container.words),
                inherited={name: value for name, value, _ in container.variables},
            )
            own = container.grants
            pod = FoundLaunch(starter=container.starter, on_nodes=own.nodes, grants=own)
            self.take(line, outer=pod)

    def export(self, rows: Iterable[tuple[str, str | None, int]], path: str, *, lasting: bool = True) -> None:
        """Variables that the training will have, the `lasting` ones every later launch, too."""
        for name, value, line in rows:
            self.exports.append((name, value, path, line))
            if lasting:
                self._variables[name] = value

    def take(
        self, line: ShellCommand, path: str | None = None, depth: int = 0, outer: FoundLaunch | None = None
    ) -> None:
        """One command, which stands in this script or in the one at `path`, started by the command `outer`."""
        path = path or self.path
        if not line.conditional:
            exported = [(name, value, line.line) for name, value in line.exported.items()]
            unset = [(name, None, line.line) for name in line.unset]
            self.export(exported, path)
            self.export(unset, path)
        found = find_launch(line.words)
        if found is None:
            self._waits += line.words[:1] in {("wait",), ("kill",), ("pkill",), ("killall",)}
            name = unknown_launcher(line.words)
            if name and not line.conditional:
                text = "{path}, line {line}: gpudoctor does not know the launcher {name}, and skips it"
                self.skipped.append(say(text, path=path, line=line.line, name=name))
            return
        given = dict(line.assigned)
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
        name = found.shell_script or ""
        text = found.shell or ""
        if name and self._scripts[name] >= _AGAIN:
            return
        self._scripts[name] += 1
        if self._scripts.total() > JOB_FOLLOWED.most:
            raise Unavailable("it has {words}", words=JOB_FOLLOWED.words)
        script = _first_file(self._folder / name, Path(name)) if name else None
        if script is not None:
            path = str(script)
            with suppress(Unavailable):
                text = _text(script)
        known = _scheduler_variables(self.grants) | dict(line.inherited)
        if found.starter:  # each task has its own
            for variable in _OF_A_TASK:
                known.pop(variable, None)
        for inner in read_lines(text, known):
            if script is None:
                inner = replace(inner, line=line.line)
            self.take(inner, path, depth, found)

    def _row(self, found: FoundLaunch, line: ShellCommand, path: str, given: dict[str, str]) -> Launch:
        """The launch with what the scheduler and its container leave to it."""
        grants = found.grants.over(self.grants)
        variables = self._of_launch(given)
        size = _Size(found.nodes, found.ranks, grants.gpus_granted)
        if found.hosts:
            found, size = _hosts(found, self._folder, size.gpus)
        told = _told(found, variables)
        if line.background:
            told["background"] = "loop" if line.looped else "once"
        told["waits"] = str(self._waits)
        if size.gpus:
            told["gpus"] = str(size.gpus)
        visible = entries(told["devices"]) if "devices" in told else None
        cards = min((number for number in (size.gpus, visible) if number is not None), default=None)
        self.grants = self.grants.over(Grants(shared_memory_granted=grants.shared_memory_granted))

        launcher = found.launcher
        starter = found.starter
        nodes = self._nodes(found, size.nodes)
        tasks = self._tasks(found, nodes)
        cpus = grants.cpus_granted
        if starter == "srun" and grants.cpus_per_task:
            # Slurm 22.05 and later: srun does not take it over from sbatch
            handed = found.grants.cpus_per_task
            if not handed:
                handed = whole(variables.get("SRUN_CPUS_PER_TASK")) or 1
            cpus = float(handed * (tasks or 1))
        ranks = size.ranks
        total = found.total_ranks
        if launcher == "python" and starter not in _ELSEWHERE:  # a rank of its starter
            launcher = starter
            starter = ""
            ranks = tasks
            tasks = 1
            total = found.total_tasks
            told["processes"] = told.get("tasks", "")
        elif ranks is None and found.every_gpu:
            ranks = cards
        elif ranks is None and total is not None:
            ranks = max(1, total // (nodes or 1))

        alone = launcher == "torchrun" and starter in _EACH_ALONE and "nodes" not in told
        nodes_of_world = size.nodes or (1 if alone else nodes)
        world = total
        if not world and ranks and nodes_of_world and launcher != "python":
            world = ranks * nodes_of_world
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
            world=world or None,
            grants=replace(grants, gpus_granted=cards, cpus_granted=cpus),
            told=told,
            variables=variables,
            trains="serves" not in told,
        )

    def _of_launch(self, given: Mapping[str, str]) -> dict[str, str]:
        """Variables that a launch gets, as far as they are known; secrets masked."""
        variables: dict[str, str] = {}
        for name, value in (self._variables | dict(given)).items():
            known = None if value is None else _known(name, value)
            if known is not None:
                variables[name] = mask_value(name, known)
        return variables

    def _nodes(self, found: FoundLaunch, meant: int | None) -> int | None:
        """Nodes that the line is started on; `meant` are those that its launcher is told of."""
        in_batch_script = self.profile is Profile.SLURM and self.grants.nodes and not found.starter
        if in_batch_script and found.launcher in {"torchrun", "accelerate"}:
            return 1  # the batch script runs on the first node alone
        if found.on_nodes:
            return found.on_nodes
        if found.starter in {"srun", "mpirun"} and self.grants.nodes:
            return self.grants.nodes
        return meant

    def _tasks(self, found: FoundLaunch, nodes: int | None) -> int | None:
        """Times that the starter starts the line on a node."""
        if found.tasks is not None:
            return found.tasks
        if found.total_tasks:
            return max(1, found.total_tasks // (nodes or 1))
        if found.starter == "srun":
            return self.grants.ranks_per_node or (1 if self.grants.nodes else None)
        return None


def _told(found: FoundLaunch, variables: Mapping[str, str]) -> dict[str, str]:
    """What the line tells its launcher, with the variables that say the same."""
    told = dict(found.told)
    if told.get("devices") == "all":
        del told["devices"]
    if "CUDA_VISIBLE_DEVICES" in variables:
        told.setdefault("devices", variables["CUDA_VISIBLE_DEVICES"])
    address = told.pop("address", "")
    port = told.pop("port", "")
    meets = told.get("meets", ":".join(part for part in (address, port) if part))
    told["meets"] = meets or variables.get("MASTER_ADDR", "")
    return told


class _Size(NamedTuple):
    """How large a launch is."""

    nodes: int | None
    ranks: int | None
    """On a node, as are the GPUs."""
    gpus: int | None


def _first_file(*places: Path) -> Path | None:
    return next((place for place in places if os.path.isfile(place)), None)


def _hosts(found: FoundLaunch, folder: Path, gpus: int | None) -> tuple[FoundLaunch, _Size]:
    """The launch and its size with what accelerate's config or deepspeed's hostfile adds to the line."""
    path = _first_file(Path(found.hosts), folder / found.hosts)
    text = _text(path) if path else ""
    if found.launcher == "deepspeed":
        slots = re.findall(r"(?m)^[ \t]*[^#\s]\S*[ \t]+slots=(\d{1,4})", text)
        each = int(slots[0]) if slots else None
        return found, _Size(found.nodes or len(slots) or None, found.ranks or each, each or gpus)
    said = dict(re.findall(r"(?m)^(\w+):[ \t]*['\"]?([^\s'\"#]+)", text))
    nodes = found.nodes or whole(said.get("num_machines"))
    total = found.total_ranks or whole(said.get("num_processes"))
    ranks = max(1, total // (nodes or 1)) if total else None
    columns = launcher_tables()["columns"]["accelerate"].items()
    of_file = {column: said[key] for column, name in columns if (key := name.replace("-", "_")) in said}
    return replace(found, told=of_file | dict(found.told)), _Size(nodes, ranks, gpus)


def launches_of(command: Sequence[str], grants: Grants) -> list[Launch]:
    """Launches of a command that was given word by word."""
    read = JobScript(grants)
    read.take(ShellCommand(words=tuple(command), line=0, text=" ".join(command)))
    return read.launches


def _scheduler_variables(grants: Grants) -> dict[str, str]:
    """Variables that Slurm will set for what the script asks for, so that `$SLURM_NNODES` can be resolved."""
    found: dict[str, str] = {}
    for field, names in launcher_tables()["slurm"]["sets"].items():
        value = getattr(grants, field)
        if value is not None:
            found |= dict.fromkeys(names.split(), str(value))
    if grants.ranks_per_node is not None:
        found["SLURM_NTASKS"] = str(grants.ranks_per_node * (grants.nodes or 1))
    return found
