"""From the words of a command to the launch of a training: launchers and wrappers peeled off one by one."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from gpudoctor.model.records import frozen, replace
from gpudoctor.vitals.job.options import Options, is_python, whole


@frozen
class FoundLaunch:
    """A launch as far as its words tell; the fields are those of the sign `Launch`."""

    launcher: str
    script: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    ranks: int | None = None
    nodes: int | None = None
    total_ranks: int | None = None
    """Processes on all nodes together (`mpirun -np 16`, `srun -n 16`)."""
    every_gpu: bool = False
    """One process a GPU, whatever their number is (`--nproc_per_node=gpu`)."""
    shell: str | None = None
    """Shell text that it runs instead (`bash -c`), or None."""
    shell_script: str | None = None
    """Another shell script that it runs instead (`srun bash run.sh`), or None."""


_NOT_TRAINING_NAMES = """
    pip venv ensurepip virtualenv site http.server json.tool compileall py_compile zipfile tarfile timeit pytest
    unittest doctest build twine ruff black mypy gpudoctor torch.utils.collect_env ipykernel nltk.downloader
    spacy conda wandb huggingface_hub
"""
_NOT_TRAINING = frozenset(_NOT_TRAINING_NAMES.split())
"""Modules of `python -m` that set something up and train nothing."""


def find_launch(words: Sequence[str]) -> FoundLaunch | None:
    """The launch that these words start, or None when they start none."""
    return _find(list(words), 0)


def _find(words: list[str], depth: int) -> FoundLaunch | None:
    if not words or depth > 12:
        return None
    name = PurePosixPath(words[0]).name
    if name in {"$PYTHON", "${PYTHON}", "$PYTHON_BIN", "${PYTHON_BIN}", "$PY"}:
        name = "python"
    if is_python(name):
        return _python(words[1:], depth)
    if name in {"bash", "sh", "zsh", "dash", "ksh"}:
        return _shell(words[1:])
    if name in _LAUNCHERS:
        return _LAUNCHERS[name](words[1:], depth)
    if name in _WRAPPERS:
        return _find(_WRAPPERS[name](words[1:]), depth + 1)
    if name.endswith(".py") and (depth or "/" in words[0]):
        return FoundLaunch(launcher="python", script=words[0], arguments=tuple(words[1:]))
    if name.endswith((".sh", ".bash", ".sbatch")) and "/" in words[0]:
        return FoundLaunch(launcher="bash", shell_script=words[0], arguments=tuple(words[1:]))
    return None


def _python(words: list[str], depth: int) -> FoundLaunch | None:
    options = Options(words, "X W m c check-hash-based-pycs", "u O OO B E I S s v b d i q x P")
    if options.given("m"):
        module = options.get("m") or ""
        if module in _MODULE_LAUNCHERS:
            return _MODULE_LAUNCHERS[module](options.rest, depth)
        if module in {"cProfile", "profile", "trace", "pdb", "kernprof", "scalene", "memray", "coverage"}:
            inner = Options(options.rest, "o s m", "")
            return _target("python", inner, inner.rest)
        if not module or module.split(".")[0] in _NOT_TRAINING or module in _NOT_TRAINING:
            return None
        return FoundLaunch(launcher="python", module=module, arguments=tuple(options.rest))
    if options.given("c") or not options.rest:
        return None
    script = options.rest[0]
    if PurePosixPath(script).name in {"setup.py", "manage.py"} or script == "-":
        return None
    return FoundLaunch(launcher="python", script=script, arguments=tuple(options.rest[1:]))


def _target(launcher: str, options: Options, rest: Sequence[str], **facts: object) -> FoundLaunch | None:
    """What a launcher starts: `-m module`, a script, or a command of its own."""
    found: FoundLaunch | None
    module = options.get("m", "module")
    if module is not None and (module or rest):
        name, words = (module, rest) if module else (rest[0], rest[1:])
        found = FoundLaunch(launcher=launcher, module=name, arguments=tuple(words))
    elif not rest:
        return None
    elif is_python(PurePosixPath(rest[0]).name):
        found = _python(list(rest[1:]), 9)
        found = replace(found, launcher=launcher) if found else None
    else:
        found = FoundLaunch(launcher=launcher, script=rest[0], arguments=tuple(rest[1:]))
    return replace(found, **facts) if found else None  # type: ignore[arg-type]  # fields of Found by name


def _torchrun(words: list[str], _depth: int) -> FoundLaunch | None:
    options = Options(words, "m r t")
    asked = options.get("nproc-per-node")
    every = asked in {"gpu", "auto", "cuda"}
    ranks = 1 if asked is None else whole(asked)
    nodes = 1 if options.given("standalone") and not options.given("nnodes") else options.number("nnodes")
    return _target("torchrun", options, options.rest, ranks=None if every else ranks, nodes=nodes, every_gpu=every)


def _accelerate(words: list[str], _depth: int) -> FoundLaunch | None:
    if not words or words[0] != "launch":
        return None
    return _accelerate_launch(words[1:], _depth)


def _accelerate_launch(words: list[str], _depth: int) -> FoundLaunch | None:
    options = Options(words, "config_file num_processes num_machines mixed_precision", "m")
    total, nodes = options.number("num-processes"), options.number("num-machines")
    ranks = {"ranks": total} if total is not None and (nodes or 1) == 1 else {"total_ranks": total}
    return _target("accelerate", options, options.rest, nodes=nodes, **ranks)


def _deepspeed(words: list[str], _depth: int) -> FoundLaunch | None:
    options = Options(words, "H hostfile i include e exclude num_nodes num_gpus module_off", "module")
    ranks, nodes = options.number("num-gpus"), options.number("num-nodes")
    include = options.get("i", "include")
    if ranks is None and include:
        slots = include.split("@")[0].partition(":")[2]
        ranks = len([item for item in slots.split(",") if item]) or None
        nodes = nodes or len(include.split("@"))
    every = ranks is None and not options.given("H", "hostfile")
    return _target("deepspeed", options, options.rest, ranks=ranks, nodes=nodes, every_gpu=every)


def _srun(words: list[str], depth: int) -> FoundLaunch | None:
    options = Options(words, "A c C d D e E G i J K L m M n N o p q r t T u w W x", "l u v Q k O s X")
    found = _find(options.rest, depth + 1)
    if found is None:
        return None
    per_node = options.number("ntasks-per-node", "tasks-per-node")
    total, nodes = options.number("n", "ntasks"), options.number("N", "nodes")
    if per_node is None and total is not None and nodes:
        per_node = max(1, total // nodes)
    if found.launcher != "python":
        return replace(found, nodes=found.nodes or nodes)
    return replace(found, launcher="srun", ranks=per_node, nodes=nodes, total_ranks=total)


def _mpirun(words: list[str], depth: int) -> FoundLaunch | None:
    plain: list[str] = []
    rest = list(words)
    while rest:  # `--mca key value` takes two words, which a plain option does not
        if rest[0] in {"--mca", "-mca", "--gmca", "-gmca"}:
            rest = rest[3:]
        else:
            plain.append(rest.pop(0))
    options = Options(
        plain,
        "np n c N npernode ppn H host hosts hostfile machinefile f x wdir map-by bind-to rank-by genv env p "
        "ssh-port network-interface timeline-filename cycle-time-ms fusion-threshold-mb num-proc "
        "envlist start-timeout min-np max-np slots-per-host",
        "genvall",
    )
    found = _find(options.rest, depth + 1)
    if found is None or found.launcher != "python":
        return found
    mapped = re.match(r"ppr:(\d+):node", options.get("map-by") or "")
    per_node = options.number("npernode", "ppn", "N") or (int(mapped[1]) if mapped else None)
    hosts = (options.get("H", "host", "hosts") or "").split(",")
    slots = [whole(host.partition(":")[2]) for host in hosts if host]
    if per_node is None and slots and slots[0]:
        per_node = slots[0]
    total = options.number("np", "n", "num-proc")
    nodes = len(slots) or None
    if per_node is None and total is not None and nodes:
        per_node = max(1, total // nodes)
    return replace(found, launcher="mpirun", ranks=per_node, nodes=nodes, total_ranks=total)


def _shell(words: list[str]) -> FoundLaunch | None:
    """`bash -lc "..."` or `bash run.sh`."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if re.fullmatch(r"-[a-zA-Z]*c", words[at]):
            return FoundLaunch(launcher="bash", shell=words[at + 1]) if at + 1 < len(words) else None
        at += 2 if words[at] in {"-o", "-O"} else 1
    if at < len(words):
        return FoundLaunch(launcher="bash", shell_script=words[at], arguments=tuple(words[at + 1 :]))
    return None


def _skip(valued: str = "", operands: int = 0) -> Callable[[list[str]], list[str]]:
    """A wrapper with options, then so many operands, then the command."""

    def peel(words: list[str]) -> list[str]:
        return Options(words, valued, stop=False).rest[operands:]

    return peel


def _env(words: list[str]) -> list[str]:
    rest = Options(words, "u unset C chdir", stop=False).rest
    while rest and re.match(r"[A-Za-z_]\w*=", rest[0]):
        rest = rest[1:]
    return rest


def _after(*verbs: str, valued: str = "", operands: int = 0) -> Callable[[list[str]], list[str]]:
    """A wrapper with a verb: `uv run`, `docker exec CONTAINER`, `singularity exec IMAGE`."""

    def peel(words: list[str]) -> list[str]:
        start = next((at for at, word in enumerate(words) if word in verbs), None)
        return [] if start is None else Options(words[start + 1 :], valued, stop=False).rest[operands:]

    return peel


_DOCKER = (
    "v volume e env env-file w workdir u user h hostname l label p publish c cpus m memory n name gpus "
    "shm-size ipc network net ulimit mount device entrypoint runtime cap-add security-opt pid cpuset-cpus"
)
_SINGULARITY = "B bind H home W workdir w pwd env env-file overlay S app network security hostname scratch mount"

_LAUNCHERS: Mapping[str, Callable[[list[str], int], FoundLaunch | None]] = {
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "accelerate-launch": _accelerate_launch,
    "deepspeed": _deepspeed,
    "srun": _srun,
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "orterun"), _mpirun),
}
_MODULE_LAUNCHERS: Mapping[str, Callable[[list[str], int], FoundLaunch | None]] = {
    **dict.fromkeys(("torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher"), _torchrun),
    "accelerate.commands.launch": _accelerate_launch,
    "accelerate.commands.accelerate_cli": _accelerate,
    "deepspeed.launcher.runner": _deepspeed,
}
_WRAPPERS: Mapping[str, Callable[[list[str]], list[str]]] = {
    **dict.fromkeys(("nohup", "command", "builtin", "setsid", "unbuffer", "catchsegv"), _skip()),
    "exec": _skip("a"),
    "time": _skip("f o"),
    "env": _env,
    "nice": _skip("n adjustment"),
    "ionice": _skip("c n"),
    "stdbuf": _skip("i o e"),
    "sudo": _skip("u g"),
    "numactl": _skip("m N C p cpunodebind membind physcpubind interleave"),
    "taskset": _skip("", 1),
    "timeout": _skip("k s signal kill-after", 1),
    "nsys": _after("profile", "launch", valued="t o s w f c d y b trace output sample"),
    "ncu": _skip("o k s c set section"),
    **dict.fromkeys(("py-spy", "gpudoctor"), _after("--")),
    "uv": _after("run", valued="with p python group extra env-file project directory with-requirements"),
    "uvx": _skip("from with"),
    **dict.fromkeys(("poetry", "pdm", "pipenv", "hatch", "rye", "wandb"), _after("run")),
    "pixi": _after("run", valued="e environment"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _after("run", valued="n name p prefix cwd")),
    **dict.fromkeys(("singularity", "apptainer"), _after("exec", "run", valued=_SINGULARITY, operands=1)),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _after("run", "exec", valued=_DOCKER, operands=1)),
    "enroot": _after("start", valued="c m e r root conf mount env", operands=1),
    "ssh": _skip("p i l o F J", 1),
    "shifter": _skip("image volume entrypoint"),
    "aprun": _skip("n N d cc S"),
    "jsrun": _skip("n r a g c b smpiargs"),
    "ibrun": _skip("n o"),
}
