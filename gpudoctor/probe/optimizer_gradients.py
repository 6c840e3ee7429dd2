"""What optimizers find in the gradients: some left over from the step before, or none at all.

Whether they are cleared is asked of one gradient of each optimizer: between its last step and the first backward
pass of the next it must have gone away, or been written to (zeroed). Backward passes of other optimizers in between
(a GAN's) add to it and clear nothing, so its version is noted at the end of each.

A step that finds no gradient does nothing and says nothing: they were cleared, or cut off by `detach()`. Where all
find none, they may be kept elsewhere (sharded ones, engines). Then only one is told of that had gradients after each
backward pass, or that has the parameters of a model.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .call_sites import Place
from .models import class_name, held_by, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .probe import Probe

MANY_STEPS, FEW_STEPS = 60, 3
"""Cycles after which one that was always cleared is believed, and those that must have been looked at."""
_MANY = 512
"""Parameters of an optimizer that are asked; one with a gradient among the first ends the search."""
FEW = 20
"""Steps without a gradient that must have been looked at."""
_TOLD = frozenset({FEW, 50, 200, 1000})
"""Steps without a gradient after which that is told: a run may be killed before its end."""
_MOST = 16
"""Optimizers that are followed."""


class _Followed:
    """The steps of one optimizer."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.watched: Any = None
        """Weak reference to the parameter whose gradient is to be cleared."""
        self.noted = 0, -1
        """That gradient by its id, and its version."""
        self.cleared = True
        self.passed = False
        """Whether a backward pass began since its optimizer's last step, or in it (a closure's)."""
        self.counted = True
        """Whether the cycle is counted, or not to be: a closure may run several backward passes in one step."""
        self.looked = self.left = 0
        """Cycles, and those that began with what the one before had left."""
        self.steps = self.empty = 0
        """Steps that were looked at, and those without any gradient."""
        self.given = False
        """Whether a backward pass has left a gradient since its last step."""
        self.lost = 0
        """Steps that found none, although a backward pass had left one."""
        self.told = 0
        """Steps that the recording says to be without; 0 where it says nothing."""

    @property
    def found(self) -> bool:
        """Whether a step has found a gradient."""
        return self.steps > self.empty

    def count(self) -> None:
        """One cycle is over: a backward pass, and the step that used it."""
        if self.passed and not self.counted:
            self.counted = True
            self.looked += 1
            self.left += not self.cleared

    def look(self, note: bool) -> None:
        """Whether the gradient has been cleared since it was noted; or note it as it is."""
        parameter = self.watched() if self.watched is not None else None
        gradient = parameter.grad if parameter is not None else None
        now = (id(gradient), gradient._version) if gradient is not None else None
        if now is None or (not note and now != self.noted):
            self.cleared = True
        else:
            self.noted = now


class Gradients:
    """Follows the optimizers."""

    def __init__(self, probe: Probe, plain: Callable[[Any], bool]) -> None:
        self._probe = probe
        self._plain = plain
        self._seen: dict[int, _Followed] = {}
        self.place: Place = (None, None, None)
        """Where the optimizer's step is called."""

    def _of(self, optimizer: Any) -> _Followed | None:
        known = self._seen.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            if len(self._seen) >= _MOST:
                return None
            known = self._seen[id(optimizer)] = _Followed(optimizer)
        return known

    def backward_begins(self) -> None:
        """A backward pass begins."""
        for known in self._seen.values():
            known.passed = True
            if not known.cleared:
                known.look(note=False)

    def backward_ended(self) -> None:
        """It has ended: what it added is no clearing. Did it leave gradients to those that have found none so far?"""
        for known in self._seen.values():
            if not known.cleared:
                known.look(note=True)
            optimizer = known.optimizer()
            if known.found or known.given or known.steps > max(_TOLD) or optimizer is None:
                continue
            known.given = any(self._plain(item) and item.grad is not None for item in _parameters(optimizer))

    def before_step(self, optimizer: Any) -> None:
        """An outermost optimizer is about to make its step: one cycle of its is over."""
        known = self._of(optimizer)
        if known is None:
            return
        parameter = known.watched() if known.watched is not None else None
        if parameter is not None and id(parameter.grad) != known.noted[0]:
            known.cleared = True  # the program has put another one in its place
        known.count()
        if known.found and known.steps >= FEW:
            return  # it has found some: believed
        given, asked = self._gradient(optimizer)
        if not asked:
            return
        known.steps += 1
        known.empty += not given
        known.lost += known.given and not given
        known.given = False
        if given and known.told:  # it was told too soon
            known.told = 0
            self._record(optimizer, 0)
        elif not known.found and known.steps in _TOLD:
            self.tell_idle()

    def after_step(self, optimizer: Any) -> None:
        """An optimizer has made its step."""
        known = self._of(optimizer)
        if known is None:
            return
        if known.watched is None or known.watched() is None:
            with_one = (p for p in _parameters(optimizer) if self._plain(p) and p.grad is not None)
            parameter = next(with_one, None)
            if parameter is None:
                return
            known.watched = weakref.ref(parameter)
        known.count()
        if known.looked >= MANY_STEPS and not known.left:
            known.counted = True
            return
        known.counted = known.passed = known.cleared = False
        known.look(note=True)

    def pause(self) -> None:
        """Steps follow whose backward passes nobody sees."""
        for known in self._seen.values():
            known.counted = known.cleared = True

    def tell_uncleared(self) -> None:
        """Write down gradients that were left over."""
        for known in self._seen.values():
            if known.looked >= FEW_STEPS and known.left:
                path, line, _ = self.place
                fields = {"kind": "uncleared", "step": self._probe.steps.index, "steps": known.looked}
                self._probe.record("numeric", {**fields, "found": known.left, "path": path, "line": line})

    def tell_idle(self) -> None:
        """Write down the optimizers that never found a gradient, where another one has or it was cleared."""
        others = any(known.found for known in self._seen.values())
        for known in self._seen.values():
            optimizer = known.optimizer()
            if optimizer is None or known.found or known.steps < FEW or known.steps <= known.told:
                continue
            cleared = known.lost >= known.steps - 1  # the first backward pass was not seen
            if others or cleared or (not known.lost and self._models_of(held_by(optimizer))):
                known.told = known.steps
                self._record(optimizer, known.steps, known.lost)

    def _models_of(self, held: set[int]) -> list[tuple[Any, Any]]:
        """The models whose parameters an optimizer has; none of one that steps copies of them."""
        return [
            (module, model)
            for module, model in self._probe.models.all()
            if held & {id(parameter) for parameter in parameters(module).values()}
        ]

    def _record(self, optimizer: Any, steps: int, lost: int = 0) -> None:
        """So many steps without a gradient; 0: it has found one after all."""
        held = held_by(optimizer)
        others = [known.optimizer() for known in self._seen.values() if known.found]
        found = self._models_of(held)
        path, line, function = self._probe.models.made.get(id(optimizer), (None, None, None))
        fields = {
            "kind": "idle", "step": self._probe.steps.index, "steps": steps, "cleared": lost,
            "model": class_name(found[0][0]) if found else "",
            "called": any(model.grad_calls for _, model in found),
            "shared": any(other is not None and held & held_by(other) for other in others),
            "alone": not others,
            "path": path, "line": line, "function": function,
        }  # fmt: skip
        self._probe.record("numeric", fields)

    def _gradient(self, optimizer: Any) -> tuple[bool, bool]:
        """Whether a parameter of an optimizer has a gradient, and whether one asks for it.

        One of a class of the program's own is not asked: that would run the program's code.
        """
        asked = False
        for parameter in _parameters(optimizer):
            if not self._plain(parameter) or parameter.grad is not None:
                return True, True
            asked = asked or parameter.requires_grad
        return False, asked


def _parameters(optimizer: Any) -> Iterator[Any]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"][:_MANY])
