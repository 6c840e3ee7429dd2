"""From the words of a command to the launch of a training: launchers and wrappers peeled off one by one."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile
from pathlib import PurePosixPath
from typing import Any

from gpudoctor.model.records import field, frozen, replace
from gpudoctor.model.signs.job import Grants
from gpudoctor.vitals.job.grants import byte_count
from gpudoctor.vitals.job.options import Options, is_python, launcher_tables, whole


@frozen
class FoundLaunch:
    """A launch as far as its words tell; the fields are those of the sign `Launch`."""

    launcher: str = ""
    script: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    ranks: int | None = None
    nodes: int | None = None
    """Nodes that the launcher is told of."""
    total_ranks: int | None = None
    """Processes on all nodes together (`accelerate launch --num_processes 16`, `srun -n 16`)."""
    every_gpu: bool = False
    """One process a GPU, whatever their number is (`--nproc_per_node=gpu`)."""
    shell: str | None = None
    """Shell text that it runs instead (`bash -c`), or None."""
    shell_script: str | None = None
    """Another shell script that it runs instead (`srun bash run.sh`), or None."""
    starter: str = ""
    tasks: int | None = 1
    total_tasks: int | None = None
    on_nodes: int | None = None
    """Nodes that the starter starts it on."""
    grants: Grants = field(default_factory=Grants)
    """What a container or the starter leaves to it."""
    hosts: str = ""
    """The file that has the nodes: deepspeed's hostfile, accelerate's config."""
    told: Mapping[str, str] = field(default_factory=dict)


def inside(outer: FoundLaunch, found: FoundLaunch) -> FoundLaunch:
    """A launch in a shell, or in a pod, that `outer` starts."""
    grants = found.grants.over(outer.grants)
    if not outer.starter or found.starter:
        return replace(found, grants=grants)
    started = replace(found, starter=outer.starter, tasks=outer.tasks, total_tasks=outer.total_tasks)
    return replace(started, on_nodes=outer.on_nodes, grants=grants, told={**outer.told, **found.told})


_STARTING = re.compile(r"(?:run|sub|exec|launch|submit)$", re.MULTILINE)
"""How launchers, and the verbs after their names, end."""


def unknown_launcher(words: Sequence[str]) -> str:
    """The name of a launcher that nothing here knows and that is given a Python to start, else ""."""
    names = [PurePosixPath(word).name for word in words]
    if not names:
        return ""
    name, *rest = names
    if name in _LAUNCHERS or name in launcher_tables()["wrappers"] or is_python(name):
        return ""
    named_so = any(_STARTING.search(word) for word in names[:2])  # `flux run`, `bsub`
    starts = any(is_python(word) or word in _LAUNCHERS for word in rest)
    return name if named_so and starts else ""


_DEEPEST = 12
"""Wrappers in wrappers that are peeled off."""
_PYTHON_VARIABLES = frozenset({"$PYTHON", "${PYTHON}", "$PYTHON_BIN", "${PYTHON_BIN}", "$PY"})
"""Variables that scripts keep their Python in, where nothing sets them."""


def find_launch(words: Sequence[str], depth: int = 0) -> FoundLaunch | None:
    """The launch that these words start, or None when they start none."""
    if not words or depth > _DEEPEST:
        return None
    first, *rest = words
    name = PurePosixPath(first).name
    if is_python(name) or name in _PYTHON_VARIABLES:
        return _python(rest, depth)
    if name in {"bash", "sh", "zsh", "dash", "ksh"}:
        return _shell(rest)
    if name in _LAUNCHERS:
        return _LAUNCHERS[name](rest, depth)
    own = _program(" ".join((name, *rest[:1])), rest[1:])
    if own is not None:
        return own
    wrapper = launcher_tables()["wrappers"].get(name)
    if wrapper is not None:
        found = find_launch(_peeled(wrapper, rest), depth + 1)
        if found and wrapper.get("starts") and not found.starter:
            return replace(found, starter=name)
        return found
    if depth and not rest and " " in first:  # ssh hands its words to a shell
        return FoundLaunch(launcher="bash", shell=first)
    if name.endswith(".py") and (depth or "/" in first):
        return FoundLaunch(launcher="python", script=first, arguments=tuple(rest))
    if name.endswith((".sh", ".bash", ".sbatch")) and "/" in first:
        return FoundLaunch(launcher="bash", shell_script=first, arguments=tuple(rest))
    return None


def _python(words: list[str], depth: int) -> FoundLaunch | None:
    options = Options(words, "python", "u O OO B E I S s v b d i q x P")
    if options.given("m"):
        module = options.get("m") or ""
        if module in _MODULE_LAUNCHERS:
            return _MODULE_LAUNCHERS[module](options.rest, depth)
        other = launcher_tables()["not_training"].split()
        if not module or module in other or module.split(".")[0] in other:
            return None
        return _program(module, options.rest) or FoundLaunch(
            launcher="python", module=module, arguments=tuple(options.rest)
        )
    if options.given("c") or not options.rest:
        return None
    script = options.rest[0]
    if PurePosixPath(script).name in {"setup.py", "manage.py"} or script == "-":
        return None
    return FoundLaunch(launcher="python", script=script, arguments=tuple(options.rest[1:]))


def _program(name: str, words: Sequence[str]) -> FoundLaunch | None:
    """A program that starts its own processes, by the words that tell it how many."""
    programs = launcher_tables()["programs"]
    row = next((programs[start] for start in programs if f"{name}.".startswith(f"{start}.")), None)
    if row is None:
        return None
    given = re.findall(r"(?:^|\s)-{0,2}([\w.-]+)[= ](?=(\S+))", " ".join(words))
    said = {key.replace("_", "-"): whole(value) for key, value in given}

    def number(column: str) -> int | None:
        names = row.get(column, "").replace("_", "-").split()
        return next((said[key] for key in names if key in said), 1)

    return FoundLaunch(
        launcher=row.get("launcher", name.partition(".")[0]),
        module=name,
        arguments=tuple(words),
        ranks=number("processes"),
        nodes=number("nodes"),
        told={"serves": name} if "launcher" in row else {},
    )


def _target(launcher: str, options: Options, rest: Sequence[str], **facts: object) -> FoundLaunch | None:
    """What a launcher starts: `-m module`, a script, or a command of its own."""
    module = options.get("m", "module")
    if module:
        found = FoundLaunch(module=module, arguments=tuple(rest))
    elif not rest:
        return None
    elif module is not None:  # a flag, and the module's name is the first word
        found = FoundLaunch(module=rest[0], arguments=tuple(rest[1:]))
    else:
        found = FoundLaunch(script=rest[0], arguments=tuple(rest[1:]))
    return replace(found, launcher=launcher, **facts)  # type: ignore[arg-type]  # fields of Found by name


def _torchrun(words: list[str], _depth: int) -> FoundLaunch | None:
    options = Options(words, "torchrun")
    asked = options.get("nproc-per-node")
    every = asked in {"gpu", "auto", "cuda"}
    ranks = 1 if asked is None else whole(asked)
    nodes = 1 if options.given("standalone") and not options.given("nnodes") else options.number("nnodes")
    return _target(
        "torchrun",
        options,
        options.rest,
        ranks=None if every else ranks,
        nodes=nodes,
        every_gpu=every,
        told=options.told(),
    )


def _accelerate(words: list[str], _depth: int) -> FoundLaunch | None:
    if not words or words[0] != "launch":
        return None
    return _accelerate_launch(words[1:], _depth)


def _accelerate_launch(words: list[str], _depth: int) -> FoundLaunch | None:
    options = Options(words, "accelerate", "m")
    total = options.number("num-processes")
    nodes = options.number("num-machines")
    on_one_node = nodes in {None, 0, 1} and not options.given("config-file")
    return _target(
        "accelerate",
        options,
        options.rest,
        nodes=nodes,
        ranks=total if on_one_node else None,
        total_ranks=total,
        hosts=options.get("config-file") or "",
        told=options.told(),
    )


def _deepspeed(words: list[str], _depth: int) -> FoundLaunch | None:
    options = Options(words, "deepspeed", "module")
    ranks = options.number("num-gpus")
    nodes = options.number("num-nodes")
    hosts = options.get("H", "hostfile") or ""
    told = options.told()
    include = options.get("i", "include")
    if include:  # `worker-0:0,1@worker-1:0,1`
        each = include.split("@")
        _, _, slots = each[0].partition(":")
        told["devices"] = slots
        if ranks is None:
            ranks = len([slot for slot in slots.split(",") if slot]) or None
            nodes = nodes or len(each)
    return _target(
        "deepspeed",
        options,
        options.rest,
        ranks=ranks,
        nodes=nodes,
        every_gpu=ranks is None and not hosts,
        hosts=hosts,
        told=told,
    )


def _srun(words: list[str], depth: int) -> FoundLaunch | None:
    options = Options(words, "srun", "l u v Q k O s X")
    found = find_launch(options.rest, depth + 1)
    srun = FoundLaunch(
        launcher="srun",
        starter="srun",
        tasks=options.number("ntasks-per-node", "tasks-per-node"),
        total_tasks=options.number("n", "ntasks"),
        on_nodes=options.number("N", "nodes"),
        grants=Grants(
            cpus_per_task=options.number("c", "cpus-per-task"), gpus_per_task=options.number("gpus-per-task")
        ),
        told=options.told(),
    )
    return inside(srun, found) if found else None


def _mpirun(words: list[str], depth: int) -> FoundLaunch | None:
    mca = {"--mca", "-mca"}  # they take two words, which a plain option does not
    plain = [word for at, word in enumerate(words) if not mca.intersection(words[max(0, at - 2) : at + 1])]
    options = Options(plain, "mpirun", "genvall")
    found = find_launch(options.rest, depth + 1)
    hosts = [host.partition(":") for host in (options.get("H", "host") or "").split(",") if host]
    slots = sum(int(number) if number.isdigit() else 1 for _, _, number in hosts)  # one where none is named
    listed = {"slots": str(slots)} if slots else {}
    mpirun = FoundLaunch(
        launcher="mpirun",
        starter="mpirun",
        tasks=options.number("npernode", "ppn", "N"),
        total_tasks=options.number("np", "n"),
        on_nodes=len(hosts) or None,
        told=options.told() | listed,
    )
    return inside(mpirun, found) if found else None


def _docker(words: list[str], depth: int) -> FoundLaunch | None:
    """What runs in a container, with what the container is given; its /dev/shm has 64 MiB unless somebody says more."""
    verb = next((at for at, word in enumerate(words) if word in {"run", "exec"}), None)
    if verb is None:
        return None
    options = Options(words[verb + 1 :], "docker", stop=False)
    _image, *command = options.rest or [""]
    found = find_launch(command, depth + 1)
    if found is None or words[verb] == "exec":
        return found
    listed = re.fullmatch(r"\W*device=([\d,]+)\W*", options.get("gpus") or "")
    gpus = len(listed[1].split(",")) if listed else options.number("gpus")
    of_host = options.get("ipc") in {"host", "shareable"} or any("/dev/shm" in word for word in words)
    shared_memory = None if of_host else byte_count(options.get("shm-size") or "64m", binary=True)
    given = Grants(
        gpus_granted=gpus,
        cpus_granted=options.number("cpus"),
        memory_granted=byte_count(options.get("m", "memory") or "", binary=True),
        shared_memory_granted=shared_memory,
    )
    # Without quotes of its own docker reads `device=2,3` as two settings.
    bare = listed is not None and listed[0].startswith("device") and "," in listed[1]
    split = {"split": options.get("gpus") or ""} if bare else {}
    return replace(found, grants=found.grants.over(given), told={**found.told, **split})


def _shell(words: list[str]) -> FoundLaunch | None:
    """`bash -lc "..."` or `bash run.sh`."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if re.fullmatch(r"-[a-zA-Z]*c", words[at]):
            text = words[at + 1 :]
            return FoundLaunch(launcher="bash", shell=text[0]) if text else None
        at += 2 if words[at] in {"-o", "-O"} else 1
    if at < len(words):
        return FoundLaunch(launcher="bash", shell_script=words[at], arguments=tuple(words[at + 1 :]))
    return None


def _peeled(wrapper: Mapping[str, Any], words: list[str]) -> list[str]:
    """The command that a wrapper runs."""
    verbs = wrapper.get("after", "").split()
    if verbs:  # `uv run python`: the command stands behind the verb
        words = list(dropwhile(lambda word: word not in verbs, words))[1:]
    rest = Options(words, wrapper.get("valued", ""), stop=False).rest
    rest = rest[wrapper.get("operands", 0) :]
    return list(dropwhile(re.compile(r"[A-Za-z_]\w*=").match, rest))  # `env A=1 python`


_LAUNCHERS: Mapping[str, Callable[[list[str], int], FoundLaunch | None]] = {
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "accelerate-launch": _accelerate_launch,
    "deepspeed": _deepspeed,
    "srun": _srun,
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "orterun"), _mpirun),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _docker),
}
_MODULE_LAUNCHERS: Mapping[str, Callable[[list[str], int], FoundLaunch | None]] = {
    **dict.fromkeys(("torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher"), _torchrun),
    "accelerate.commands.launch": _accelerate_launch,
    "accelerate.commands.accelerate_cli": _accelerate,
    "deepspeed.launcher.runner": _deepspeed,
}
