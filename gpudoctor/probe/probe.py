"""The probe of one process: what the hooks share, and how it is written down."""

from __future__ import annotations

import os
import sys
from typing import Any

from .clock import Clock
from .evaluation import Evaluation
from .frames import FrameFile
from .guard import Guard
from .identity import Identity
from .models import Models
from .numerics import Numerics
from .places import Places, Sites
from .steps import Steps
from .table import COLUMNS, StepTable

_BACKLOG = 256
"""Records that wait for the file of a process that has not shown that it trains."""


class Probe:
    """One process's recorder."""

    def __init__(self, torch: Any, waiting: Any) -> None:
        self.torch = torch
        self.waiting = waiting
        self.identity = Identity()
        self.settings = self.identity.settings
        self.clock = Clock()
        self.table = StepTable()
        self.places = Places()
        self.sites = Sites(self.places)
        self.guard = Guard(self.clock, self._lost, self.settings)
        self.guard.compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (
            lambda: False
        )
        self.steps = Steps(self)
        self.evaluation = Evaluation(self)
        self.models = Models(self)
        self.numerics = Numerics(self)
        self.backward_begins = self.guard.safely("loss", self.numerics.backward_begins)
        self.loaders: Any = None
        self.file = FrameFile(self.identity.path())
        self.recent: list[list[float]] = []
        """The block of steps that was written last."""
        self.late: dict[str, list[Any]] = {}
        self._waiting: list[tuple[str, float, dict[str, Any]]] | None = []
        self.record("start", self.identity.facts())
        if not self.identity.spawned and not self.identity.launcher:
            self.show()

    def record(self, type: str, fields: dict[str, Any]) -> None:
        """Write a JSON record, or keep it until this process has shown that it trains."""
        t = self.clock.now()
        if self._waiting is None:
            self.file.record(type, t, fields)
        elif len(self._waiting) < _BACKLOG:
            self._waiting.append((type, t, fields))

    def show(self) -> None:
        """This process is one to be recorded: its file is made."""
        waiting, self._waiting = self._waiting, None
        for type, t, fields in waiting or ():
            self.file.record(type, t, fields)

    @property
    def shown(self) -> bool:
        """Whether there is a file."""
        return self._waiting is None

    def _lost(self, hook: str, error: BaseException) -> None:
        self.record("lost", {"hook": hook, "error": f"{type(error).__name__}: {error}"[:300]})

    def when_imported(self, module: str, install: Any) -> None:
        """Call `install(module)` when a module has been imported, now if it already is."""
        install = self.guard.safely(module, install)
        if module in sys.modules:
            install(sys.modules[module])
            return
        self.late.setdefault(module, []).append(install)
        self.waiting.wanted.add(module)

    def imported(self, name: str) -> None:
        """A module that a hook waits for is there."""
        for install in self.late.pop(name, ()):
            install(sys.modules[name])

    def write_steps(self, everything: bool = False) -> None:
        """Write the rows that are complete."""
        if self._waiting is not None:
            return
        columns = self.table.take(everything)
        if columns:
            self.recent = columns
            self.file.columns("steps", COLUMNS, columns)

    def write_sites(self, everything: bool = False) -> None:
        """Write the places that have grown."""
        if self._waiting is not None:
            return
        for site in self.sites.grown(everything):
            self.record("site", site.fields())

    def flush(self, everything: bool = False) -> None:
        """Write all that waits."""
        self.write_steps(everything)
        self.write_sites(everything)

    def forked(self) -> None:
        """In a forked child: nothing of the parent's is ours, and every hook goes straight through."""
        self.file.forget()
        self._waiting = []
        self.clock.ident = 0

    def end(self) -> None:
        """The interpreter ends in order."""
        if os.getpid() != self.identity.pid or not self.shown:
            return
        self.flush(everything=True)
        self.record("end", {"clean": True, "steps": self.steps.index, "dropped": self.file.dropped})
