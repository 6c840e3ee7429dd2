"""Whose process is whose: launchers lead to their ranks, loader workers belong to theirs."""

import os
import re
from collections.abc import Iterable, Sequence

from gpudoctor.model.records import frozen
from gpudoctor.vitals.environment import parse_environ
from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.classify_stack import is_worker, last_part
from gpudoctor.vitals.process.dump import dump
from gpudoctor.vitals.process.stack_classes import WAITING_PARENTS

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_JOBS = ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID")
_HELPERS = re.compile(r"resource_tracker|resource_sharer|forkserver|compile_worker|wandb[-_](service|core)")
_WORKER_NAMES = ("pt_data_worker", "pt_data_pin")
_PYTHON = re.compile(r"(python|pypy)[\d.]*\w?")
_SPAWNED = re.compile(r"multiprocessing[.-](spawn|fork)|spawn_main")


@frozen
class Member:
    """A Python process of a job."""

    pid: int
    ppid: int
    name: str
    ticks: int
    command: tuple[str, ...]
    rank: int | None
    job: str
    """What its launcher calls the job; "" where none does."""
    torch: bool
    """Whether it has loaded torch; True also where we may not look."""


def member(pid: int) -> Member | None:
    """A Python process; None for any other, and for one that is gone."""
    item = procfs.usage(pid)
    if item is None or item.state == "Z":
        return None
    words = procfs.command(pid)
    if not is_python(words, item.name, pid):
        return None
    environment = variables(pid)
    return Member(
        pid=pid,
        ppid=item.ppid,
        name=item.name,
        ticks=item.ticks,
        command=words,
        rank=rank_of(environment),
        job=" ".join(environment.get(name, "") for name in _JOBS),
        torch=bool(procfs.maps(pid, "libtorch")) or not os.access(f"/proc/{pid}/maps", os.R_OK),
    )


def is_python(words: Sequence[str], name: str, pid: int) -> bool:
    """Whether a process runs Python, by its command line, its program, its name or its libraries."""
    heads = (os.path.basename(words[0]) if words else "", os.path.basename(procfs.executable(pid)), name)
    return any(_PYTHON.fullmatch(head) for head in heads) or bool(procfs.maps(pid, "libpython"))


def variables(pid: int) -> dict[str, str]:
    """The environment that it was started with; empty where that may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return parse_environ(file.read())
    except OSError:
        return {}


def rank_of(environment: dict[str, str]) -> int | None:
    """The global rank that a launcher gave it."""
    for name in _RANKS:
        value = environment.get(name, "")
        if value.isdigit() and not (name == "SLURM_PROCID" and environment.get("SLURM_NTASKS", "1") == "1"):
            return int(value)
    return None


def jobs_under(root: int, pyspy: str | None) -> list[list[Member]]:
    """The training jobs at and below a process, each by rank; empty where there is no Python."""
    pids = procfs.tree(root)
    if os.getpid() in pids:  # the shell that gpudoctor was typed into
        own = procfs.tree(os.getpid())
        pids = [pid for pid in pids if pid not in own]
    members = [one for one in map(member, pids) if one and not _HELPERS.search(" ".join(one.command))]
    trained = [one for one in members if one.torch] or members
    by_pid = {one.pid: one for one in trained}
    above = {one.pid: _over(one, by_pid) for one in trained}
    tops = [one for one in trained if (over := above[one.pid]) is None or over.rank != one.rank]
    jobs: dict[str, list[Member]] = {}
    for one in tops:
        if one.rank is not None:
            jobs.setdefault(one.job, []).append(one)
    launchers = {over.pid for one in tops if one.rank is not None and (over := above[one.pid])}
    # One process a rank: the first that has it (a wrapper's child has the same).
    leading = ({one.rank: one for one in reversed(job)}.values() for job in jobs.values())
    found = [sorted(job, key=lambda one: (one.rank or 0, one.pid)) for job in leading]
    alone = [one for one in tops if one.rank is None and one.pid not in launchers]
    return found + [_spawned_by(top, trained, pyspy) or [top] for top in alone]


def ranks_under(root: int, pyspy: str | None) -> list[Member]:
    """The processes of every job at and below a process."""
    return [one for job in jobs_under(root, pyspy) for one in job]


def _over(one: Member, members: dict[int, Member]) -> Member | None:
    """The nearest ancestor among the members."""
    pid = one.ppid
    for _ in range(16):
        if pid in members:
            return members[pid]
        item = procfs.usage(pid)
        if item is None:
            return None
        pid = item.ppid
    return None


def _spawned_by(top: Member, members: list[Member], pyspy: str | None) -> list[Member]:
    """Ranks that a process has started by itself (`mp.spawn`) while it waits for them; empty when it trains."""
    children = [one for one in members if one.ppid == top.pid and one.name not in _WORKER_NAMES]
    if not children:
        return []
    main = dump(top.pid, pyspy).main
    if main is None or not any(
        path in frame.path and last_part(frame.name) == name for frame in main.frames for path, name in WAITING_PARENTS
    ):
        return []
    return children


def workers_of(rank: int, ranks: Iterable[int]) -> list[int]:
    """Loader workers of a rank: Python processes below it that were forked or spawned from it."""
    others = set(ranks) - {rank}
    found = []
    own = procfs.command(rank)
    for pid in procfs.tree(rank)[1:]:
        item = procfs.usage(pid)
        if pid in others or item is None or item.state == "Z":
            continue
        words = procfs.command(pid)
        text = " ".join(words)
        if _HELPERS.search(text):
            continue
        if item.name in _WORKER_NAMES or words == own or _SPAWNED.search(text):
            found.append(pid)
    return found


def worker_owner(pid: int, pyspy: str | None) -> int | None:
    """The process that a loader worker loads for; None for a process that is no loader worker."""
    item = procfs.usage(pid)
    if item is None:
        return None
    if item.name in _WORKER_NAMES:
        return item.ppid
    words = procfs.command(pid)
    parent = procfs.command(item.ppid)
    if not (words and words == parent) and not _SPAWNED.search(" ".join(words)):
        return None
    main = dump(pid, pyspy).main
    return item.ppid if main is not None and is_worker(main.frames) else None
