"""Calls that are a phase by themselves: trackers, prints, saves, waits, profilers; files opened for writing."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from ..call_sites import PROBE
from ..clock import CHECKPOINT, COLLECTIVE, EVALUATION, LOGGING, NAMES, OWNS
from ..guard import CALLER, interrupts
from ..table import AT, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from ..probe import Probe

# One table, one wrapper: a call switches the phase, counts in its column, and its cost is kept by place.


class PhaseCall(NamedTuple):
    """Functions of one owner that are one kind of call."""

    module: str
    """Waited for until it is imported."""
    owner: str
    """Path inside it, empty for the module itself."""
    names: tuple[str, ...]
    phase: int
    column: str = ""
    what: str = ""
    """What their places are called; the owner's name where it is empty."""


def _table() -> Iterator[PhaseCall]:
    """The rows of `calls.json`. What DDP broadcasts before a forward pass is one: there the punctual ranks wait."""
    with open(os.path.join(os.path.dirname(__file__), "calls.json"), encoding="utf-8") as stream:
        rows = json.load(stream)
    for row in rows:
        names = tuple(row["names"].split())
        yield PhaseCall(**{"owner": "", **row, "names": names, "phase": AT[row["phase"]]})


def install(probe: Probe) -> None:
    """Put the table's calls under the wrapper, each when its module is there."""
    version = probe.torch.version
    several = probe.torch.distributed.is_available()
    for call in _table():
        if call.owner.startswith("cuda") and not (version.cuda or getattr(version, "hip", None)):
            continue
        if several or call.module != "torch.distributed":
            probe.when_imported(call.module, functools.partial(_replace, probe, call))


def _replace(probe: Probe, call: PhaseCall, module: Any) -> None:
    owner = module
    for part in call.owner.split(".") if call.owner else ():
        owner = getattr(owner, part, None)
        if owner is None:
            return
    for name in call.names:
        _time(probe, call, owner, name)


def _time(probe: Probe, call: PhaseCall, owner: Any, name: str) -> None:
    """Make an attribute of `owner` a call that is a phase."""
    clock, sites, steps, evaluation = probe.clock, probe.sites, probe.steps, probe.evaluation
    column = AT[call.column] if call.column else -1
    group = call.what or call.owner
    what = group if name in (group, "handle", "run") else f"{group}.{name}"
    phase, label = call.phase, NAMES[call.phase]
    told = probe.logs if call.column == "logs" else probe.saves if what == "torch.save" else None

    def work(args: Any, kwargs: Any) -> Any:
        before = clock.phase
        if told is not None and before != LOGGING:  # what is called inside of a log says the same again
            told(what, args, kwargs)
        if before == phase or (OWNS[before] and (phase != CHECKPOINT or not evaluation.undeclared())):
            return
        if name == "handle" and args[1].name.startswith(_COMPILERS):
            return  # torch's own words
        named, caller = what, sys._getframe(CALLER)
        if call.column == "flushes" and _within(caller, _COMPILERS):
            return
        if phase == COLLECTIVE and _within(caller, PARALLELISM):
            named = f"parallelism.{name}"
        elif column >= 0:
            clock.row[column] += 1.0
        evaluation.declared += phase == EVALUATION
        clock.switch(phase)
        start = clock.mark
        yield
        evaluation.declared -= phase == EVALUATION
        clock.switch(before)
        sites.at(label, named, sys._getframe(CALLER)).add(clock.mark - start, steps.index)

    probe.guard.surround(label, owner, name, work)


def _within(caller: FrameType, modules: tuple[str, ...]) -> bool:
    return str(caller.f_globals.get("__name__", "")).startswith(modules)


_COMPILERS = ("torch._", "torch.cuda.graphs", "torch.accelerator.graphs")
"""Modules that collect garbage, write files and log when they compile: their own work, and nobody's call."""
PARALLELISM = (
    "torch.distributed.fsdp", "torch.nn.parallel", "torch.nn.modules", "torch.distributed._",
    "torch.distributed.tensor", "torch.distributed.distributed_c10d", "torch.distributed.optim", "deepspeed",
)  # fmt: skip
"""Modules whose collectives belong to the parallelism itself: they are not counted."""


# Files that the program opens for writing: what writes on every step shows by the file, whatever its name.
#
# `save_image`, `savefig`, `to_csv` and `np.savez` all open a file in the end, and Python audits that.
# An audit hook cannot be taken back, so it does nothing but count, in the training thread alone.

FILES = "files"
OPEN = "open"
_WRITES = os.O_WRONLY | os.O_RDWR
_NO_FILES = ("/dev/", "/proc/", "/sys/")


def install_files(probe: Probe) -> None:
    """Count files that are opened for writing, by the user's line."""
    guard, clock, sites, steps = probe.guard, probe.clock, probe.sites, probe.steps
    if not guard.wanted(FILES):
        return

    def count(path: Any) -> None:
        if threading.get_ident() != clock.ident or probe.worker is not None or clock.phase != OTHER:
            return
        if not steps.index or (isinstance(path, str) and path.startswith(_NO_FILES) and path[:9] != "/dev/shm/"):
            return
        frame: FrameType | None = sys._getframe(3)  # count, safe, heard, and who opens the file
        opener = frame
        while frame is not None and not probe.places.is_user(frame.f_code):
            if frame.f_code.co_filename.startswith(PROBE) or _within(frame, _COMPILERS):
                return
            frame = frame.f_back
        sites.at("other", OPEN, opener).add(0.0, steps.index)

    safe = guard.safely(FILES, count)

    def heard(event: str, given: Any) -> None:
        if event == OPEN and isinstance(given[2], int) and given[2] & _WRITES:
            safe(given[0])

    try:
        sys.addaudithook(heard)
    except Exception as error:  # a hook of the program's forbids it
        if interrupts(error):
            raise
        guard.lose(FILES, error)
