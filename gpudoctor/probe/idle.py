"""Optimizers whose steps find no gradient (it was cleared, or cut off by `detach()`), while another one learns.

Such a step does nothing and says nothing. Only a program with another optimizer that finds gradients is told
of: where all find none, they are kept elsewhere (sharded optimizers, engines).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .models import class_name, parameters

if TYPE_CHECKING:
    from .probe import Probe

_MANY = 512
"""Parameters of an optimizer that are asked; one with a gradient among the first ends the search."""
FEW = 20
"""Steps that must have been looked at."""
_TOLD = frozenset({FEW, 50, 200, 1000})
"""Steps without a gradient after which that is told: a run may be killed before its end."""
_MOST = 16
"""Optimizers that are followed."""


class _Followed:
    """The steps of one optimizer."""

    __slots__ = ("empty", "optimizer", "steps", "told")

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.steps = 0
        """Steps that were looked at."""
        self.empty = 0
        """Those without any gradient."""
        self.told = 0
        """Steps that the recording says to be without; 0 where it says nothing."""

    @property
    def found(self) -> bool:
        """Whether a step has found a gradient."""
        return self.steps > self.empty


class Idle:
    """Counts the steps of each optimizer, and those without any gradient."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._seen: dict[int, _Followed] = {}

    def look(self, optimizer: Any) -> None:
        """An outermost optimizer is about to make its step."""
        known = self._seen.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            if len(self._seen) >= _MOST:
                return
            known = self._seen[id(optimizer)] = _Followed(optimizer)
        if known.found and known.steps >= FEW:
            return  # it has found some: believed
        given, asked = self._gradient(optimizer)
        if not asked:
            return
        known.steps += 1
        known.empty += not given
        if given and known.told:  # it was told too soon
            known.told = 0
            self._record(optimizer, 0)
        elif not known.found and known.steps in _TOLD:
            self.tell()

    def tell(self) -> None:
        """Write down the optimizers that never found a gradient, where another one has."""
        if not any(known.found for known in self._seen.values()):
            return
        for known in self._seen.values():
            optimizer = known.optimizer()
            if optimizer is not None and not known.found and known.steps >= FEW and known.steps > known.told:
                known.told = known.steps
                self._record(optimizer, known.steps)

    def _record(self, optimizer: Any, steps: int) -> None:
        """So many steps without a gradient; 0: it has found one after all."""
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"][:_MANY]}
        models = self._probe.models
        found = [
            (module, model)
            for module, model in models.all()
            if held & {id(parameter) for parameter in parameters(module).values()}
        ]
        path, line, function = models.made.get(id(optimizer), (None, None, None))
        fields = {
            "kind": "idle", "step": self._probe.steps.index, "steps": steps,
            "model": class_name(found[0][0]) if found else "",
            "called": any(model.grad_calls for _, model in found),
            "path": path, "line": line, "function": function,
        }  # fmt: skip
        self._probe.record("numeric", fields)

    def _gradient(self, optimizer: Any) -> tuple[bool, bool]:
        """Whether a parameter of an optimizer has a gradient, and whether one asks for it.

        One of a class of the program's own is not asked: that would run the program's code.
        """
        asked, plain = False, self._probe.numerics.parameters.plain
        for group in optimizer.param_groups:
            for parameter in group["params"][:_MANY]:
                if not plain(parameter) or parameter.grad is not None:
                    return True, True
                asked = asked or parameter.requires_grad
        return False, asked
