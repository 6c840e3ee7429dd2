"""Whether the loop is training or evaluating: loops do not say so, it shows in what they do.

An evaluation begins with a second loader that no backward pass follows, or with a forward of the trained
model in eval mode without gradients, and lasts until training goes on. Frameworks that say so are believed.
With gradients it is known by its first time: no backward pass came before the model was back in training mode.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .clock import EVALUATION
from .models import parameters
from .table import OTHER

if TYPE_CHECKING:
    from .probe import Probe


class Evaluation:
    """Switches the clock between training and evaluation."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self.declared = 0
        """Depth of calls that say that they evaluate (`Trainer.evaluate`)."""
        self.by_loader = False
        self.trained: set[int] = set()
        """Ids of the parameters that optimizers hold."""
        self._streak = 0
        self._trains: dict[int, tuple[int, Any, bool]] = {}

    def begin(self, by_loader: bool = False) -> None:
        """The loop evaluates from now on, unless nothing at all is trained here."""
        steps = self._probe.steps
        if self._clock.phase == OTHER and (steps.backwards or steps.optimizers):
            self._clock.switch(EVALUATION)
            self.by_loader = by_loader
            if self._probe.loaders is not None:
                self._probe.loaders.disclaim()

    def finish(self) -> None:
        """The loop trains (again)."""
        self._streak = 0
        if self._clock.phase == EVALUATION and not self.declared:
            self._clock.switch(OTHER)

    def undeclared(self) -> bool:
        """Whether an evaluation is on that nobody declared, so that its end is not known."""
        return self._clock.phase == EVALUATION and not self.declared

    def forward(self, module: Any, grad: bool) -> None:
        """The outermost module is about to be called, with or without gradients."""
        if grad and not module.training and self._probe.models.evaluates(module):
            self.begin()
        elif self._clock.phase == EVALUATION:
            if grad and not self.by_loader:
                self.finish()
        elif not grad and not module.training and self._clock.phase == OTHER:
            self._streak += 1
            if self._streak > 1 or self.trains(module):
                self.begin()
        elif grad:
            self._streak = 0

    def trains(self, module: Any) -> bool:
        """Whether a module has parameters that are trained (a frozen teacher has none)."""
        known = self._trains.get(id(module))
        version = self._probe.models.version
        if known is None or known[0] != version or known[1]() is not module:
            trains = any(id(parameter) in self.trained for parameter in parameters(module).values())
            known = self._trains[id(module)] = version, weakref.ref(module), trains
        return known[2]
