"""What optimizers find in the gradients: some left over from the step before, or none at all."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .call_sites import Place
from .models import class_name, held_by, parameters
from .readings import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .probe import Probe

# Whether gradients are cleared between the steps of an optimizer.
#
# Asked of one gradient of each: between its optimizer's last step and the first backward pass of the next it
# must have gone away, or been written to (zeroed). Backward passes of other optimizers in between (a GAN's)
# add to it and clear nothing, so its version is noted at the end of each.

MANY_STEPS = 60
"""Cycles after which one that was always cleared is believed."""
FEW_STEPS = 3
"""Cycles that must have been looked at before anything is told."""


class _Watched:
    """One gradient."""

    __slots__ = ("cleared", "counted", "found", "gradient", "looked", "parameter", "passed", "version")

    def __init__(self, parameter: Any) -> None:
        self.parameter = weakref.ref(parameter)
        self.gradient = 0
        self.version = -1
        self.cleared = True
        self.passed = False
        """Whether a backward pass began since its optimizer's last step, or in it (a closure's)."""
        self.counted = False
        """Whether the cycle is counted, or not to be: a closure may run several backward passes in one step."""
        self.looked = 0
        self.found = 0

    def count(self) -> None:
        """One cycle is over: a backward pass, and the step that used it."""
        if self.passed and not self.counted:
            self.counted = True
            self.looked += 1
            self.found += not self.cleared

    def note(self) -> None:
        """Remember the gradient as it is."""
        parameter = self.parameter()
        gradient = parameter.grad if parameter is not None else None
        if gradient is None:
            self.cleared = True
        else:
            self.gradient = id(gradient)
            self.version = gradient._version

    def look(self) -> None:
        """Whether it has been cleared since it was noted."""
        parameter = self.parameter()
        gradient = parameter.grad if parameter is not None else None
        if gradient is None or id(gradient) != self.gradient or gradient._version != self.version:
            self.cleared = True


class Clearing:
    """One gradient of every optimizer."""

    def __init__(self, plain: Callable[[Any], bool]) -> None:
        self._plain = plain
        self._watched: dict[int, _Watched] = {}
        self._open: list[_Watched] = []
        """Those that have not been seen cleared since their optimizer's last step."""
        self.place: Place = (None, None, None)
        """Where the optimizer's step is called."""

    def after_step(self, optimizer: Any) -> None:
        """An optimizer has made its step."""
        watched = self._watched.get(id(optimizer))
        if watched is None or watched.parameter() is None:
            parameter = next(
                (
                    parameter
                    for group in optimizer.param_groups
                    for parameter in group["params"]
                    if self._plain(parameter) and parameter.grad is not None
                ),
                None,
            )
            if parameter is None:
                return
            watched = self._watched[id(optimizer)] = _Watched(parameter)
        watched.count()
        if watched.looked >= MANY_STEPS and not watched.found:
            watched.counted = True
            return
        watched.counted = watched.passed = watched.cleared = False
        watched.note()
        if not watched.cleared and watched not in self._open:
            self._open.append(watched)

    def backward_begins(self) -> None:
        """A backward pass begins."""
        for watched in self._watched.values():
            watched.passed = True
        if self._open:
            for watched in self._open:
                watched.look()
            self._open = [watched for watched in self._open if not watched.cleared]

    def backward_ended(self) -> None:
        """It has ended: what it added is no clearing."""
        for watched in self._open:
            watched.note()

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to make a step: one cycle of its is over."""
        watched = self._watched.get(id(optimizer))
        if watched is not None:
            watched.count()

    def pause(self) -> None:
        """Steps follow whose backward passes nobody sees."""
        for watched in self._watched.values():
            watched.counted = True
        self._open = []

    def tell(self, probe: Probe) -> None:
        """Write what was found."""
        for watched in self._watched.values():
            if watched.looked >= FEW_STEPS and watched.found:
                path, line, _ = self.place
                fields = {"kind": "uncleared", "step": probe.steps.index, "steps": watched.looked}
                probe.record("numeric", {**fields, "found": watched.found, "path": path, "line": line})


# Optimizers whose steps find no gradient: it was cleared, or cut off by `detach()`.
#
# Such a step does nothing and says nothing. Where all find none, they may be kept elsewhere (sharded ones,
# engines). Then only one is told of that had gradients after each backward pass and whose weights stay.

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

    __slots__ = ("began", "empty", "given", "lost", "optimizer", "parameter", "steps", "told")

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.steps = 0
        """Steps that were looked at."""
        self.empty = 0
        """Those without any gradient."""
        self.given = False
        """Whether a backward pass has left a gradient since its last step."""
        self.lost = 0
        """Steps that found none, although a backward pass had left one."""
        self.parameter: Any = None
        """The first one that had a gradient that no step found."""
        self.began: Any = None
        """Some of its elements then."""
        self.told = 0
        """Steps that the recording says to be without; 0 where it says nothing."""

    @property
    def found(self) -> bool:
        """Whether a step has found a gradient."""
        return self.steps > self.empty


def _parameters(optimizer: Any) -> Iterator[Any]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"][:_MANY])


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
        if known.began is None and not given:
            self._begin(known, next(filter(self._trains, _parameters(optimizer)), None))
        known.steps += 1
        known.empty += not given
        known.lost += known.given and not given
        known.given = False
        if given and known.told:  # it was told too soon
            known.told = 0
            self._record(optimizer, 0)
        elif not known.found and known.steps in _TOLD:
            self.tell()

    def backward_ended(self) -> None:
        """A backward pass has ended: whether it left gradients to those that have found none so far."""
        for known in self._seen.values():
            done = known.found or known.given or known.steps > max(_TOLD)
            optimizer = None if done else known.optimizer()
            held = _parameters(optimizer) if optimizer is not None else iter(())
            parameter = next((item for item in held if self._trains(item) and item.grad is not None), None)
            if parameter is not None:
                known.given = True
                if known.began is None:
                    self._begin(known, parameter)

    def _trains(self, parameter: Any) -> bool:
        return bool(self._probe.numerics.parameters.plain(parameter)) and parameter.requires_grad

    def _begin(self, known: _Followed, parameter: Any) -> None:
        """Keep some elements of a parameter, to see whether something else than its optimizer moves it."""
        if parameter is not None:
            known.parameter, known.began = weakref.ref(parameter), sample(parameter)

    def tell(self) -> None:
        """Write down the optimizers that never found a gradient, where another one has or it was cleared."""
        others = any(known.found for known in self._seen.values())
        for known in self._seen.values():
            optimizer = known.optimizer()
            if optimizer is None or known.found or known.steps < FEW or known.steps <= known.told:
                continue
            if others:
                known.told = known.steps
                self._record(optimizer, known.steps, known.lost)
            elif known.began is None:
                continue
            elif known.lost >= known.steps - 1 or (not known.lost and self._models_of(optimizer)):
                self._ask(known)  # of gradients that were cleared, the first pass was not seen

    def _ask(self, known: _Followed) -> None:
        """Write down the only optimizer, if its parameters are what they were: no engine applies gradients."""
        parameter, steps = known.parameter(), known.steps
        now = sample(parameter) if parameter is not None else None
        if now is None or now.shape != known.began.shape or now.device != known.began.device:
            return

        def note(values: list[float]) -> None:
            optimizer = known.optimizer()
            if values[0] == 0.0 and optimizer is not None and not known.found:
                known.told = steps
                self._record(optimizer, steps, known.lost)

        self._probe.numerics.read_all((now - known.began).abs().max().float().reshape(1), note)

    def _models_of(self, optimizer: Any) -> list[tuple[Any, Any]]:
        """The models whose parameters an optimizer has; none of one that steps copies of them."""
        held = held_by(optimizer)
        return [
            (module, model)
            for module, model in self._probe.models.all()
            if held & {id(parameter) for parameter in parameters(module).values()}
        ]

    def _record(self, optimizer: Any, steps: int, lost: int = 0) -> None:
        """So many steps without a gradient; 0: it has found one after all."""
        held = held_by(optimizer)
        others = [known.optimizer() for known in self._seen.values() if known.found]
        found = self._models_of(optimizer)
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
        asked, plain = False, self._probe.numerics.parameters.plain
        for parameter in _parameters(optimizer):
            if not plain(parameter) or parameter.grad is not None:
                return True, True
            asked = asked or parameter.requires_grad
        return False, asked
