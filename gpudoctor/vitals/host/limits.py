"""Resource limits of the examined process."""

import re
import sys
from dataclasses import dataclass

from gpudoctor.model.signs.host import Limit
from gpudoctor.vitals.host.proc_tree import Tree, number

_UNLIMITED = Limit(soft=None, hard=None)
_COLUMNS = re.compile(r" {2,}")
_LINES = {"Max open files": "open_files", "Max locked memory": "locked_memory", "Max processes": "processes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that training meets."""

    open_files: Limit = _UNLIMITED
    locked_memory: Limit = _UNLIMITED
    processes: Limit = _UNLIMITED


def read_limits(tree: Tree, processes_in_group: int | None) -> Limits:
    """From /proc/PID/limits, by getrlimit where there is none; unlimited where neither tells (Windows)."""
    found = parse_limits(tree.of_process("limits") or "")
    if not found and tree.live and tree.process == "self":
        found = _own()
    processes = found.get("processes", _UNLIMITED)
    return Limits(
        open_files=found.get("open_files", _UNLIMITED),
        locked_memory=found.get("locked_memory", _UNLIMITED),
        processes=Limit(
            soft=_smaller(processes.soft, processes_in_group),
            hard=_smaller(processes.hard, processes_in_group),
        ),
    )


def parse_limits(text: str) -> dict[str, Limit]:
    """The lines of /proc/PID/limits that matter here, by the name of the field."""
    found: dict[str, Limit] = {}
    for line in text.splitlines():
        columns = _COLUMNS.split(line.strip())
        name = _LINES.get(columns[0])
        if name is None or len(columns) < 3:
            continue
        values = [None if word == "unlimited" else number(word) for word in columns[1:3]]
        words = columns[1:3]
        if all(word == "unlimited" or value is not None for word, value in zip(words, values, strict=True)):
            found[name] = Limit(soft=values[0], hard=values[1])
    return found


def _own() -> dict[str, Limit]:
    if sys.platform == "win32":
        return {}
    import resource

    kinds = {"open_files": "RLIMIT_NOFILE", "locked_memory": "RLIMIT_MEMLOCK", "processes": "RLIMIT_NPROC"}
    found = {}
    for name, kind in kinds.items():
        if hasattr(resource, kind):
            soft, hard = resource.getrlimit(getattr(resource, kind))
            bounds = [None if value == resource.RLIM_INFINITY else value for value in (soft, hard)]
            found[name] = Limit(soft=bounds[0], hard=bounds[1])
    return found


def _smaller(first: int | None, second: int | None) -> int | None:
    known = [value for value in (first, second) if value is not None]
    return min(known, default=None)
