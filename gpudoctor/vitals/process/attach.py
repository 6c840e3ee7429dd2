"""From what the user named to the processes to watch, or what to type when we may not look into them."""

import os
from collections.abc import Sequence
from pathlib import Path

from gpudoctor.errors import IncompleteError
from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.process import Gap
from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.dump import Dump, DumpError
from gpudoctor.vitals.process.process_tree import Member, jobs_under, member, worker_owner

# Who may look into a process, and what to type when we may not: the ladder, first rung that fails.

_CAP_SYS_PTRACE = 19


def blind_gap(pid: int, failed: Dump) -> Gap:
    """What stands in the place of the stacks of a process that cannot be dumped."""
    error = failed.error
    if error is DumpError.NO_PYSPY:
        return _gap(say("py-spy is not installed in gpudoctor's environment"), say("pip install py-spy"))
    if error is DumpError.NOT_PYTHON:
        return _gap(
            say("py-spy finds no Python interpreter in process {pid}", pid=pid),
            say("name the training process: --find"),
        )
    if error is DumpError.FORBIDDEN:
        return _forbidden(pid)
    if error is DumpError.SLOW:
        return _gap(say("py-spy did not answer ({words})", words=failed.words), "")
    lines = [line.strip() for line in failed.words.splitlines() if line.strip()] or [say("no reason given")]
    return _gap(say("py-spy cannot read process {pid} ({first_line})", pid=pid, first_line=lines[-1]), "")


def _forbidden(pid: int) -> Gap:
    again = f"sudo gpudoctor watch {pid}"
    owner = procfs.user(pid)
    if _in_container():
        return _gap(
            say("this container may not trace (no CAP_SYS_PTRACE)"),
            say("docker run --cap-add SYS_PTRACE, or in Kubernetes securityContext.capabilities.add: [SYS_PTRACE]"),
        )
    if owner and owner != procfs.user(os.getpid()) and os.geteuid() != 0:
        return _gap(say("process {pid} belongs to {owner}", pid=pid, owner=owner), again)
    return _gap(
        say("the system forbids reading the memory of process {pid}", pid=pid),
        say("{again}, or start the job with gpudoctor run --allow-watch", again=again),
    )


def _gap(reason: str, fix: str) -> Gap:
    return Gap(panel="stacks", reason=reason, fix=fix)


def _in_container() -> bool:
    """Whether we are root in a container without the right to trace."""
    if os.geteuid() != 0:
        return False
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return not int(mask, 16) >> _CAP_SYS_PTRACE & 1


_SHELLS = frozenset({"bash", "sh", "zsh", "fish", "dash", "ksh", "tcsh", "csh", "screen", "sshd"})


@frozen
class Attachment:
    """The processes to watch."""

    roots: tuple[int, ...]
    """What the user named, threads and workers replaced by their process."""
    ranks: tuple[Member, ...]
    notes: tuple[str, ...] = ()


def attach(pids: Sequence[int], pyspy: str | None) -> Attachment:
    """The training processes that these pids mean. Raises `IncompleteError` with a sentence."""
    roots: list[int] = []
    ranks: dict[int, Member] = {}
    notes: list[str] = []
    for pid in pids:
        root = _root(pid, pyspy, notes)
        jobs = jobs_under(root, pyspy)
        if not jobs:
            raise IncompleteError(_no_training(root))
        if len(jobs) > 1:
            raise IncompleteError(_several(root, jobs))
        found = jobs[0]
        if [one.pid for one in found] != [root]:
            names = ", ".join(str(one.pid) for one in found[:8]) + (", ..." if len(found) > 8 else "")
            notes.append(
                say(
                    "pid {root} leads to {found} training process{plural}: {names}",
                    root=root,
                    found=len(found),
                    plural=say("es") if len(found) > 1 else "",
                    names=names,
                )
            )
        roots.append(root)
        ranks |= {one.pid: one for one in found}
    ordered = sorted(ranks.values(), key=lambda one: (one.rank is None, one.rank or 0, one.pid))
    return Attachment(roots=tuple(roots), ranks=tuple(ordered), notes=tuple(notes))


def _root(pid: int, pyspy: str | None, notes: list[str]) -> int:
    """The process that a pid means: a thread's process, a loader worker's owner. Raises `IncompleteError`."""
    group = procfs.thread_group(pid)
    if group is None:
        raise IncompleteError("there is no process {pid}; see which ones train: gpudoctor watch --find", pid=pid)
    if group != pid:
        notes.append(say("pid {pid} is a thread of process {group}: watching that", pid=pid, group=group))
        pid = group
    item = procfs.usage(pid)
    if item is None or item.state == "Z":
        raise IncompleteError("process {pid} has ended", pid=pid)
    if pid == os.getpid():
        raise IncompleteError("{pid} is gpudoctor itself; name the training process: gpudoctor watch --find", pid=pid)
    owner = worker_owner(pid, pyspy)
    if owner is not None:
        notes.append(say("pid {pid} is a loader worker of process {owner}: watching that", pid=pid, owner=owner))
        return owner
    return pid


def _several(pid: int, jobs: Sequence[Sequence[Member]]) -> str:
    item = procfs.usage(pid)
    who = say("process {pid} ({name})", pid=pid, name=item.name if item else "?")
    first = ", ".join(str(job[0].pid) for job in jobs[:8]) + (", ..." if len(jobs) > 8 else "")
    return say("{who} has {jobs} child training jobs; name one: {first}", who=who, jobs=len(jobs), first=first)


def _no_training(pid: int) -> str:
    item = procfs.usage(pid)
    name = item.name if item else "?"
    parent = name in _SHELLS or len(procfs.tree(pid)) > 1
    what = say("has no Python process under it") if parent else say("is not a Python process")
    return say(
        "process {pid} ({name}) {what}; see which ones train: gpudoctor watch --find", pid=pid, name=name, what=what
    )


def training_processes() -> list[tuple[int, list[Member]]]:
    """Every job on this machine that has loaded torch: the process to name, and its ranks."""
    known = procfs.parents()
    pythons = {pid: one for pid in known if (one := member(pid)) and one.torch and pid != os.getpid()}
    tops = [pid for pid in pythons if known.get(pid) not in pythons]
    found = []
    for top in sorted(tops):
        jobs = jobs_under(top, None)
        found += [(top if len(jobs) == 1 else job[0].pid, job) for job in jobs]
    return found
