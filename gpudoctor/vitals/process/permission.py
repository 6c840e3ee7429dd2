"""Who may look into a process, and what to type when we may not: the ladder, first rung that fails."""

import os
from pathlib import Path

from gpudoctor.model.signs.process import Gap
from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.dump import Dump, DumpError

_CAP_SYS_PTRACE = 19
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


def blind_gap(pid: int, failed: Dump) -> Gap:
    """What stands in the place of the stacks of a process that cannot be dumped."""
    error = failed.error
    if error is DumpError.NO_PYSPY:
        return _gap("py-spy is not installed in gpudoctor's environment", "pip install py-spy")
    if error is DumpError.NOT_PYTHON:
        return _gap(f"py-spy finds no Python interpreter in process {pid}", "name the training process: --find")
    if error is DumpError.FORBIDDEN:
        return _forbidden(pid)
    if error is DumpError.SLOW:
        return _gap(f"py-spy did not answer ({failed.words})", "")
    return _gap(f"py-spy cannot read process {pid} ({_first_line(failed.words)})", "")


def _forbidden(pid: int) -> Gap:
    again = f"sudo gpudoctor watch {pid}"
    owner = procfs.user(pid)
    if not procfs.LINUX:
        return _gap("on this system only root may read another process", again)
    if _in_container():
        return _gap(
            "this container may not trace (no CAP_SYS_PTRACE)",
            "docker run --cap-add SYS_PTRACE, or in Kubernetes securityContext.capabilities.add: [SYS_PTRACE]",
        )
    if owner and owner != _own_name() and os.geteuid() != 0:
        return _gap(f"process {pid} belongs to {owner}", again)
    scope = _scope()
    if scope == 3:
        return _gap("kernel.yama.ptrace_scope=3 forbids tracing until the next boot", "")
    if scope == 2:
        return _gap("kernel.yama.ptrace_scope=2 lets only root trace", again)
    if scope == 1:
        return _gap(
            "kernel.yama.ptrace_scope=1 lets a process be traced by its parents only",
            f"{again}, or start the job with gpudoctor run --allow-watch",
        )
    return _gap(f"the system forbids reading the memory of process {pid}", again)


def _gap(reason: str, fix: str) -> Gap:
    return Gap(panel="stacks", reason=reason, fix=fix)


def _scope() -> int:
    try:
        return int(_SCOPE.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


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


def _own_name() -> str:
    return procfs.user(os.getpid())


def _first_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
