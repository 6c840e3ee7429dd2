"""The probe of one process: what the hooks share, and how it is written down."""

from __future__ import annotations

import os
import sys
from typing import Any

from .call_sites import Places, Sites
from .clock import PROBE, Clock
from .compiling import Compiling
from .deaths import Deaths, Faults
from .device_clock import DeviceClock
from .guard import Guard
from .identity import Identity
from .importlib_bootstrap import nothing
from .memory import Memory
from .models import Evaluation, Models
from .numerics import Numerics
from .recording_file import FrameFile
from .sampler import Sampler
from .sampling_policy import Pace
from .steps import Steps
from .table import StepTable
from .warned import Warned
from .wire.masking import mask_cut
from .wire.steps import COLUMNS

_BACKLOG = 256
"""Records that wait for the file of a process that has not shown that it trains."""


class Probe:
    """One process's recorder.

    A process that was started for a script has its file at once. One that serves others until it trains (a
    launcher, a spawned or forked child) has it from its first backward pass on, under the rank that it has
    by then.
    """

    def __init__(self, torch: Any, waiting: Any) -> None:
        self.torch = torch
        self.waiting = waiting
        self.identity = Identity()
        self.settings = self.identity.settings
        self.clock = Clock()
        self.table = StepTable()
        self.places = Places()
        self.sites = Sites(self)
        self.guard = Guard(torch, self.clock, self._lost, self.settings)
        self.steps = Steps(self)
        self.evaluation = Evaluation(self)
        self.models = Models(self)
        self.numerics = Numerics(self)
        self.device_clock = DeviceClock(self)
        self.pace = Pace(self)
        self.memory = Memory(self)
        self.known = KnownByNow(self)
        self.compiling = Compiling(self)
        self.sampler = Sampler(self)
        self.deaths = Deaths(self)
        self.faults = Faults(self)
        self.warned = Warned(self)
        self.loaders: Any = None
        self.drawn: Any = nothing
        """Is given the batches of steps that are looked at, and of evaluations (training/batches.py)."""
        self.calling = self.called = self.rooted = nothing
        """Are given the calls of models, their ends and the losses in the same steps (training/arguments.py)."""
        self.weighed = self.clips = self.logs = self.saves = nothing
        """Called after their backward passes; given the arguments of clips by norm, of calls that log and that save."""
        self.windows: Any = None
        self.facts: Any = None
        self.training: dict[str, Any] = {}
        """What looks at the training (`training/`), by its hook: `tell()` writes what is known, `again()` forgets."""
        self.worker: Any = None
        """Of a loader's worker: its counts."""
        self.recent: list[list[float]] = []
        """The block of steps that was written last."""
        self.late: dict[str, list[Any]] = {}
        self.file: FrameFile | None = None
        self._backlog: list[tuple[str, float, dict[str, Any]]] = []
        self._ended = False
        if not self.identity.spawned and not self.identity.launcher:
            self.show()

    def show(self) -> None:
        """This process is one to be recorded: its file is made, its thread started."""
        if self.file is not None or self._ended:
            return
        self.identity.find_rank(self.torch)
        self.file = FrameFile(self.identity.path())
        self._begin_file({})
        self.sampler.start()
        if self.guard.wanted("ends"):
            self.guard.safely("ends", self.faults.watch)()

    def _begin_file(self, more: dict[str, Any]) -> None:
        assert self.file is not None
        self.file.record("start", 0.0, {**self.identity.facts(), **more})
        for type, t, fields in self._backlog:
            self.file.record(type, t, fields)
        self._backlog = []

    def record(self, type: str, fields: dict[str, Any]) -> None:
        """Write a JSON record, or keep it until this process has shown that it trains."""
        t = self.clock.now()
        if self.file is not None:
            self.file.record(type, t, fields)
        elif len(self._backlog) < _BACKLOG:
            self._backlog.append((type, t, fields))

    def _lost(self, hook: str, error: BaseException) -> None:
        self.record("lost", {"hook": hook, "error": mask_cut(f"{type(error).__name__}: {error}", 300)})

    # -- modules that are imported later

    def when_imported(self, module: str, install: Any) -> None:
        """Call `install(module)` when a module has been imported, now if it is; not where torch comes in its midst."""
        install = self.guard.safely(module, install)
        found = sys.modules.get(module)
        # Of torch itself all is there by now.
        if found is not None and (module == "torch" or not getattr(found.__spec__, "_initializing", False)):
            install(found)
            return
        self.late.setdefault(module, []).append(install)
        self.waiting.wanted.add(module)

    def imported(self, name: str) -> None:
        """A module that a hook waits for is there."""
        for install in self.late.pop(name, ()):
            install(sys.modules[name])

    # -- forks, workers

    def forked(self) -> None:
        """In a forked child: a process of its own, which may yet train."""
        if self.file is not None:
            self.file.close()
            self.file = None
        self._backlog = []
        self._ended = False
        kept: tuple[Any, ...] = self.faults, self.identity, self.clock, self.device_clock, self.steps
        for part in kept:
            part.renew()
        self.table.take(everything=True)
        # Hooks know these by their objects, so they begin anew as they are.
        anew: tuple[Any, ...] = (
            self.deaths, self.warned, self.numerics, self.pace, self.memory, self.known, self.sites, self.sampler,
        )  # fmt: skip
        for part in anew:
            part.__init__(self)
        for part in self.training.values():
            part.again()

    def become_worker(self, worker: Any, facts: dict[str, Any] | None) -> None:
        """This process is a loader's worker; `facts` go into its `start`, without them it has no file."""
        self.worker = worker
        self.clock.ident = 0  # whatever happens here is no phase of a training
        if self.file is None and not self._ended and facts is not None:
            self.file = FrameFile(self.identity.path("worker"))
            self._begin_file(facts)
            self.sampler.start()

    # -- writing

    def flush(self, everything: bool = False) -> None:
        """Write the rows that are complete and the places that have grown (or everything)."""
        if self.file is None:
            return
        columns = self.table.take(everything, self.clock.now() - self.numerics.delay)
        if columns:
            self.recent = columns
            self.file.columns("steps", COLUMNS, columns)
        for site in self.sites.grown(everything):
            self.record("site", site.record())

    def tell_all(self) -> None:
        """Write down what is known by now."""
        self.guard.reading("numerics", self.numerics.end)()
        self.guard.reading("modes", self.models.tell_modes, subclasses=True)()
        self.guard.reading("memory", self.memory.end)()
        self.guard.safely("compile", self.compiling.look)()
        self.guard.safely("warnings", self.warned.tell)()
        if self.windows is not None:
            self.guard.safely("windows", self.windows.end)()
        for hook, part in self.training.items():
            self.guard.reading(hook, part.tell)()

    def end(self) -> None:
        """The interpreter ends in order."""
        self.sampler.stop()
        if self.file is None and self.identity.launcher and self.deaths.died:
            # Its last words say how its children died; no thread can be started any more.
            self.file = FrameFile(self.identity.path())
            self._begin_file({})
        if self.file is None or os.getpid() != self.identity.pid:
            return
        self.sampler.last()
        self.guard.safely("ends", self.deaths.tell_exit)()
        self.clock.take()
        self.faults.close()
        self.tell_all()
        self.steps.finish()
        self.flush(everything=True)
        self.record("end", {"clean": True, "steps": self.steps.index, "dropped": self.file.dropped})
        self.file.close()
        self.file = None
        self._ended = True


# What is known by now, written down when gpudoctor is about to end the command. A signal that kills leaves no time
# for an orderly end. So a file in the recording's folder announces it: our thread sees the file, and the training
# thread writes between two steps.

ENDING = "ending"
"""Name of that file."""


class KnownByNow:
    """Writes it once."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._path = os.path.join(probe.identity.folder, ENDING)
        self._asked = self._answered = False

    def look(self) -> None:
        """From our thread: is the command about to be ended?"""
        self._asked = self._asked or os.path.exists(self._path)

    def ended(self) -> None:
        """A step has ended."""
        if self._asked and not self._answered:
            self._answered = True
            before = self._probe.clock.switch(PROBE)
            self._probe.tell_all()
            self._probe.clock.switch(before)
