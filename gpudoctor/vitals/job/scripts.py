"""Job scripts and manifests: what they ask for, export and launch, by their text; nothing is executed."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path

from gpudoctor.model import Unavailable
from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import JOB_FOLLOWED, JOB_SCRIPT
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.redaction import mask_arguments, mask_text, mask_value
from gpudoctor.model.signs.job import Environment, Launch, Profile
from gpudoctor.vitals.job.grants import Grants, byte_count
from gpudoctor.vitals.job.kubernetes import read_manifest
from gpudoctor.vitals.job.launch import FoundLaunch, find_launch
from gpudoctor.vitals.job.scheduler import slurm_grants, slurm_options
from gpudoctor.vitals.job.shell import ShellCommand, read_lines

_HERE = re.compile(r"^(?:`pwd`|\$\(pwd\)|\$\{?(?:PWD|SLURM_SUBMIT_DIR)\}?)/+")
"""Ways to write the folder that the job is submitted from, in front of a script."""
_AGAIN = 8
"""Times that one script is followed."""
_DEEPEST = 3
"""Shell scripts that call shell scripts, followed so far."""


@frozen
class JobScript:
    """What one job script says."""

    path: str
    text: str
    profile: Profile | None
    grants: Grants
    launches: tuple[Launch, ...]
    exports: tuple[tuple[str, str | None, int], ...]
    """Name, value (None when it is unset) and 1-based line."""


def job_environment(job_script: str | PathLike[str], base: Environment) -> Environment:
    """The variables that the job script gives its training, over those of `base`; secrets masked.

    An export under a condition is left out, nobody knows whether it will happen; so is a variable whose value
    the script computes, nobody knows what it will be.
    """
    read = read_script(Path(fspath(job_script)), base.variables)
    variables = dict(base.variables)
    exports = dict(base.exports)
    for name, value, line in read.exports:
        if value is None or (value := _known(name, value)) is None:
            variables.pop(name, None)
            exports.pop(name, None)
            continue
        variables[name] = mask_value(name, value)
        exports[name] = (read.path, line)
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


def read_script(path: Path, environment: Mapping[str, str]) -> JobScript:
    """Raises `Unavailable` with a sentence for one that cannot be read."""
    text = _text(path)
    if path.suffix.lower() in {".yaml", ".yml"}:
        return _read_manifest(path, text)
    options = slurm_options(text)
    grants = slurm_grants(options, str(path))
    try:
        lines = list(read_lines(text, {**environment, **_scheduler_variables(grants)}))
        return _read_script(path, text, options, grants, lines)
    except Unavailable as reason:
        raise Unavailable("{path} is not followed: {reason}", path=path, reason=reason) from reason


def _read_script(
    path: Path, text: str, options: Mapping[str, str], grants: Grants, lines: Sequence[ShellCommand]
) -> JobScript:
    shm = next((size for line in lines if (size := _container_shm(line.words)) is not None), None)
    grants = replace(grants, shared_memory=shm)
    followed = _Launches(grants, path)
    launches = [launch for line in lines for launch in followed.of(line)]
    slurm = bool(options) or any(launch.launcher == "srun" for launch in launches)
    return JobScript(
        path=str(path),
        text=text,
        profile=Profile.SLURM if slurm else None,
        grants=grants,
        launches=tuple(launches),
        exports=tuple(_exports(lines)),
    )


def _read_manifest(path: Path, text: str) -> JobScript:
    grants = Grants()
    launches: list[Launch] = []
    exports: list[tuple[str, str | None, int]] = []
    for container in read_manifest(text, str(path)):
        grants = grants.over(container.grants)
        exports += container.variables
        line = ShellCommand(
            words=container.words,
            line=container.line,
            text=" ".join(container.words),
            inherited={name: value for name, value, _ in container.variables},
        )
        launches += _Launches(grants, path).of(line)
        exports += _exports([line])
    return JobScript(
        path=str(path),
        text=text,
        profile=Profile.KUBERNETES,
        grants=grants,
        launches=tuple(launches),
        exports=tuple(exports),
    )


def _exports(lines: Iterable[ShellCommand]) -> list[tuple[str, str | None, int]]:
    """Variables that the training will have: exports, and assignments before a launch."""
    found: list[tuple[str, str | None, int]] = []
    for line in lines:
        if line.conditional:
            continue
        found += [(name, value, line.line) for name, value in line.exported.items()]
        found += [(name, None, line.line) for name in line.unset]
        launch = find_launch(line.words)
        if launch is None:
            continue
        given = dict(line.assigned)
        if "env" in line.words[:3]:
            given |= dict(word.split("=", 1) for word in line.words if re.match(r"[A-Z_][A-Z0-9_]*=", word))
        found += [(name, value, line.line) for name, value in given.items()]
        if launch.shell is not None:
            found += [(name, value, line.line) for name, value, _ in _exports(read_lines(launch.shell, line.inherited))]
    return found


class _Launches:
    """Launches of the commands of one script; `bash -c` and the shell scripts that it calls are followed.

    Raises `Unavailable` where they are too many.
    """

    def __init__(self, grants: Grants, path: Path | None = None) -> None:
        self._grants = grants
        self._path = str(path) if path else None
        self._folder = path.parent if path else Path()
        self._scripts: Counter[str] = Counter()

    def of(self, line: ShellCommand, path: str | None = None, depth: int = 0) -> list[Launch]:
        """Those of one command, which stands in this script or in the one at `path`."""
        found = find_launch(line.words)
        if found is None:
            return []
        path = path or self._path
        if found.shell is not None or found.shell_script is not None:
            follow = depth < _DEEPEST and self._follow(found.shell_script or "")
            return self._inside(found, line, path, depth + 1) if follow else []
        stepped = found.launcher == "srun"
        ranks = found.ranks
        if ranks is None and found.every_gpu:
            ranks = self._grants.gpus
        if ranks is None and stepped:
            ranks = self._grants.ranks_per_node
        nodes = found.nodes or (self._grants.nodes if stepped else None)
        if ranks is None and found.total_ranks is not None:
            ranks = max(1, found.total_ranks // (nodes or 1))
        return [
            Launch(
                launcher=found.launcher,
                script=_HERE.sub("", found.script) if found.script else None,
                module=found.module,
                arguments=mask_arguments(found.arguments),
                ranks_per_node=ranks,
                nodes=nodes,
                path=path,
                line=line.line or None,
                text=mask_text(" ".join(line.text.split())),
            )
        ]

    def _follow(self, script: str) -> bool:
        """Whether one more is followed: the same script again and again, with other arguments, launches the same."""
        if script and self._scripts[script] >= _AGAIN:
            return False
        self._scripts[script] += 1
        if self._scripts.total() > JOB_FOLLOWED.most:
            raise Unavailable("it has {words}", words=JOB_FOLLOWED.words)
        return True

    def _inside(self, found: FoundLaunch, line: ShellCommand, path: str | None, depth: int) -> list[Launch]:
        """Launches inside `bash -c "..."` (told at the line that holds it) or in a shell script beside this one."""
        known = _scheduler_variables(self._grants) | dict(line.inherited)
        launches: list[Launch] = []
        if found.shell is not None:
            for inner in read_lines(found.shell, known):
                launches += self.of(replace(inner, line=line.line), path, depth)
        else:
            places = (self._folder / str(found.shell_script), Path(str(found.shell_script)))
            script = next((place for place in places if os.path.isfile(place)), None)
            try:
                text = _text(script) if script else ""
            except Unavailable:
                return []
            for inner in read_lines(text, known):
                launches += self.of(inner, str(script), depth)
        if Path(line.words[0]).name != "srun":
            return launches
        # srun runs the shell once a task: a plain python in it is a rank
        ranks, nodes = self._grants.ranks_per_node, self._grants.nodes
        return [
            replace(item, launcher="srun", ranks_per_node=ranks, nodes=item.nodes or nodes)
            if item.launcher == "python"
            else item
            for item in launches
        ]


def launches_of(command: Sequence[str], grants: Grants) -> list[Launch]:
    """Launches of a command that was given word by word."""
    return _Launches(grants).of(ShellCommand(words=tuple(command), line=0, text=" ".join(command)))


def _scheduler_variables(grants: Grants) -> dict[str, str]:
    """Variables that Slurm will set for what the script asks for, so that `$SLURM_NNODES` can be resolved."""
    values = {
        "SLURM_NNODES": grants.nodes,
        "SLURM_JOB_NUM_NODES": grants.nodes,
        "SLURM_GPUS_ON_NODE": grants.gpus,
        "SLURM_GPUS_PER_NODE": grants.gpus,
        "SLURM_NTASKS_PER_NODE": grants.ranks_per_node,
        "SLURM_TASKS_PER_NODE": grants.ranks_per_node,
        "SLURM_CPUS_PER_TASK": grants.cpus_per_task,
    }
    found = {name: str(value) for name, value in values.items() if value is not None}
    if grants.ranks_per_node is not None:
        found["SLURM_NTASKS"] = str(grants.ranks_per_node * (grants.nodes or 1))
    return found


def _container_shm(words: Sequence[str]) -> int | None:
    """`--shm-size` of a container in bytes."""
    for at, word in enumerate(words):
        if word == "--shm-size" and at + 1 < len(words):
            return byte_count(words[at + 1], binary=True)
        if word.startswith("--shm-size="):
            return byte_count(word.partition("=")[2], binary=True)
    return None
