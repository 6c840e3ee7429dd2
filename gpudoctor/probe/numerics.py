"""Loss, gradients and weights, read at a price that is kept small and never by waiting for a device.

Every step: the loss, and a canary (the sum of one early, small gradient: what goes bad later in the network
comes through it). At a cadence that its own cost sets: the norms of all gradients, and whether weights
move. When loss or canary go bad, all gradients are looked at in that very step.
"""

from __future__ import annotations

import functools
import math
import sys
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .call_sites import Place, where
from .clock import PROBE
from .losses import Graphs, Losses
from .optimizer_gradients import Gradients
from .readings import Parameters, Readings
from .table import AT
from .tensor_reads import PATIENCE, Budget, Late, capturing, keep

if TYPE_CHECKING:
    from .probe import Probe

_GROUPS = 64
"""Parameter groups of which the rate is read in a step."""
_LOSS, _LR, _NORM, _SCALE = (AT[name] for name in ("loss", "lr", "grad_norm", "scale"))
_FIRST = 8
"""Parameters of a group among which one is sought that may be asked."""
_SMALL = 1 << 16
"""Elements of a gradient that is summed every step."""
_TIMES = 8
"""Records of one kind of badness; it may come and go."""
_UNUSED = 20
"""Backward passes whose gradients no optimizer has used, although there is one."""
_FORCED = 16
"""Readings that badness may ask for."""
SHARE = 0.0015
"""Share of the time for readings of all gradients."""
BURST, DEAREST = 26, 0.25
"""The first readings are by steps, so many and so many seconds of them."""


class Numerics:
    """Reads numbers of the training around its backward passes and steps."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._steps = probe.steps
        self._torch = probe.torch
        self._tensor = probe.torch.Tensor
        self._item = probe.torch._C.TensorBase.item
        self._seen = probe.guard.outside.needed
        self._always_late = bool(probe.settings.get("late"))
        keep(self.__dict__.get("_late"))  # of the process that forked this one
        self.budget = Budget(SHARE)
        self.parameters = Parameters(self._probe)
        self.readings = Readings(self._probe, self)
        self.gradients = Gradients(self._probe, self.parameters.plain)
        self.graphs = Graphs()
        self.losses = Losses(self._probe, self.read_all, self._tell)
        self.delay = 0.0
        """Seconds that rows wait for their numbers."""
        self._late: dict[Any, Late] = {}
        self._ours = False
        """Whether the time that passes is charged to us when it is over."""
        self._bad = {"nan-loss": 0, "nan-gradients": 0}
        self._worse: set[str] = set()
        self._suspicious = False
        self._forced = 0
        self._bad_step = 0
        self._scaled = [-1, 0]
        """A step, and its losses that were scaled, and were read before that: their backward passes are to come."""
        self._place: Place = (None, None, None)
        self._canaries: dict[int, Any] = {}
        self._skipped = 0
        self._clips = False
        self.known_scale = 0.0
        """The loss scale that was read last; 0 where none was."""
        self.carries_scale = False  # a loss was scaled, and nothing has unscaled its gradients since

    def read(self, number: Any, note: Callable[[float], None]) -> None:
        """`note` the value of a tensor of one element: at once on the CPU, else when it has arrived."""
        if number.is_cpu and not self._always_late:
            note(self._item(number))
        elif not capturing(self._torch, number.device):
            self._as_ours(self._of(number.device).put, number, note)

    def read_all(self, vector: Any, note: Callable[[list[float]], None]) -> None:
        """The same of a vector."""
        if vector.is_cpu and not self._always_late:
            note(vector.tolist())
        elif not capturing(self._torch, vector.device):
            self._as_ours(self._of(vector.device).send, vector, note)

    def _as_ours(self, work: Callable[..., None], *args: Any) -> None:
        """Do what launches work on a device: where its queue is full that blocks, and the time is ours."""
        if self._ours:
            work(*args)
            return
        self._ours = True
        began = perf_counter()
        try:
            work(*args)
        finally:
            self._ours = False
            self._clock.charge(PROBE, perf_counter() - began)

    def _of(self, device: Any) -> Late:
        late = self._late.get(device)
        if late is None:
            late = self._late[device] = Late(self._torch, device)
            self._probe.device_clock.on(device)
            self.delay = 3 * PATIENCE
        return late

    def _set(self, column: int, step: int, value: float) -> None:
        """A number of a step, which may be over."""
        if step == self._steps.index or not self._probe.table.patch(step, column, value):
            self._clock.row[column] = value

    # -- the loss

    def scaled(self, loss: Any) -> None:
        """`GradScaler.scale` was called on a loss, which may be gone when the backward pass begins."""
        if type(loss) is self._tensor:
            self._clock.quick = False
            self._look_at_loss(loss)
            step, before = self._steps.index, self._scaled
            self._scaled = [step, 1 + before[1] * (before[0] == step)]

    def backward_begins(self, roots: Any) -> None:
        """A backward pass starts from these tensors: a single number is the loss."""
        if not self._clock.light:
            self.gradients.backward_begins()
        if self._scaled[1] and self._scaled[0] == self._steps.index:
            self._scaled[1] -= 1
        else:
            self._look_at_loss(roots[0] if isinstance(roots, (tuple, list)) and roots else roots)

    def usual(self) -> bool:
        """Whether losses may be read by `usual_loss`."""
        return not (self._always_late or self._worse or self._scaled[1])

    def usual_loss(self, args: Any) -> bool:
        """Whether a backward pass of a light step starts from one finite number on the host, which is read then."""
        root: Any = args[0] if args else None
        if type(root) is not self._tensor or self._clock.compiled is not None or self._probe.evaluation.streak:
            return False
        if self._seen() or not root.is_cpu or root.numel() != 1:
            return False
        value = self._item(root)
        self._clock.row[_LOSS] = value
        return bool(value - value == 0.0)

    def _look_at_loss(self, root: Any) -> None:
        if type(root) is self._tensor and root.numel() == 1:
            step = self._steps.index
            if not self._clock.light:
                self._look_behind(root, step)
            self.read(root, functools.partial(self._loss, step))

    def _look_behind(self, root: Any, step: int) -> None:
        graphs, look = self.graphs, self.losses.look
        if graphs.look(root):
            made_by = [list(item) for item in graphs.found.items()]
            self._tell("normalised", {"step": step, "losses": graphs.losses, "made_by": made_by})
        look(root) if root.is_cpu else self._as_ours(look, root)
        self._probe.rooted(root)

    def _loss(self, step: int, value: float) -> None:
        self._set(_LOSS, step, value)
        if value - value == 0.0:  # finite
            if self._worse:
                self._worse.discard("nan-loss")
            return
        self._suspicious = True
        self._probe.pace.leave()
        if self._first("nan-loss"):
            self._find_place()
            self._tell("nan-loss", {"value": word(value), "step": step})

    def backward_ended(self) -> None:
        """A backward pass is over."""
        self.gradients.backward_ended()
        self._probe.weighed()
        if self._steps.index < 2:
            self._find_place()

    def _find_place(self) -> None:
        frame = self._probe.places.user_frame(sys._getframe(1))
        if frame is not None:
            self._place = where(frame)

    # -- the step

    def before_step(self, optimizer: Any) -> None:
        """An outermost optimizer is about to make its step."""
        if self._clock.light:
            return
        groups = optimizer.param_groups
        rate = groups[0].get("lr") if groups else None
        if len(groups) > 1:  # the greatest: the first group may be a frozen part's
            for group in groups[1:_GROUPS]:
                other = group.get("lr")
                if type(other) is float and (type(rate) is not float or other > rate):
                    rate = other
        if type(rate) is float:
            self._clock.row[_LR] = rate
        self.gradients.before_step(optimizer)
        if self._captured(optimizer):
            return
        self._canary(optimizer)
        bad, self._suspicious = self._suspicious, False
        forced = bad and "nan-gradients" not in self._worse and self._forced < _FORCED
        if not bad:
            self._worse.discard("nan-gradients")
        if forced or self._due():
            self._forced += forced
            before = self._clock.switch(PROBE)
            start = self._clock.mark
            self.parameters.refresh()
            self.readings.before(optimizer)
            self._clock.switch(before)
            self.readings.cost = self._clock.mark - start

    def _captured(self, optimizer: Any) -> bool:
        """Whether the step becomes part of a graph: then our questions would, too."""
        for group in optimizer.param_groups:
            for parameter in group["params"][:_FIRST]:
                if self.parameters.plain(parameter):
                    return capturing(self._torch, parameter.device)
        return False

    def _due(self) -> bool:
        """Whether a reading is due: at first every other step, for short runs; then by its price."""
        budget = self.budget
        if budget.count < BURST and budget.spent < DEAREST:
            return self._steps.index < 2 or not self._steps.index & 1
        return budget.due()

    def after_step(self, optimizer: Any) -> None:
        """It has made it."""
        self.gradients.after_step(optimizer)
        if self._steps.index < 2:
            self.gradients.place = where(self._probe.places.user_frame(sys._getframe(1)))
        if self.readings.open:
            before = self._clock.switch(PROBE)
            start = self._clock.mark
            self.readings.after()
            self._clock.switch(before)
            self.budget.charge(self.readings.cost + self._clock.mark - start)

    def ended(self) -> None:
        """A step has ended."""
        for device, late in self._late.items():
            if not capturing(self._torch, device):  # an event that is asked then breaks the capture
                self._as_ours(late.poll)

    def _canary(self, optimizer: Any) -> None:
        """Look at one early gradient."""
        reference = self._canaries.get(id(optimizer))
        parameter = reference() if reference is not None else None
        if parameter is None:
            parameter = self._choose(optimizer)
            if parameter is not None:
                self._canaries[id(optimizer)] = weakref.ref(parameter)
        gradient = parameter.grad if parameter is not None else None
        if gradient is None or type(gradient) is not self._tensor:
            self._canaries.pop(id(optimizer), None)
            return
        self._sing(gradient) if gradient.is_cpu else self._as_ours(self._sing, gradient)

    def _sing(self, gradient: Any) -> None:
        step = self._steps.index
        self.read(gradient.detach().sum(), lambda value: self._sung(value, step))

    def _choose(self, optimizer: Any) -> Any:
        """The first small parameter of an optimizer with a plain gradient."""
        torch = self._torch
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient: Any = parameter.grad if self.parameters.plain(parameter) else None
                strided = type(gradient) is self._tensor and gradient.layout is torch.strided
                if strided and gradient.numel() <= _SMALL and gradient.dtype is not torch.float16:
                    return parameter
        return None

    def _sung(self, value: float, step: int) -> None:
        if value - value == 0.0:
            return
        self._suspicious = True
        if step == self._steps.index:
            return  # all gradients are read now
        # Known late: its gradients are gone, and a reading of a later step may have come before it.
        if self._first("nan-gradients") or step < self._bad_step:
            self._bad_step = step
            self._tell("nan-gradients", {"value": word(value), "step": step, "parameters": [], "all": None})

    def bad_gradients(self, step: int, names: list[str], value: float, everything: bool) -> None:
        """A reading found gradients that are not finite."""
        if self._first("nan-gradients"):
            fields = {"value": word(value), "parameters": names[:16], "count": len(names), "all": everything}
            self._bad_step = step
            self._tell("nan-gradients", {**fields, "step": step})

    def _first(self, kind: str) -> bool:
        """Whether this badness is new."""
        if kind in self._worse or self._bad[kind] >= _TIMES:
            return False
        self._worse.add(kind)
        self._bad[kind] += 1
        return True

    def _tell(self, kind: str, fields: dict[str, Any]) -> None:
        path, line, _ = self._place
        self._probe.record("numeric", {"kind": kind, **fields, "path": path, "line": line})

    # -- norms and scale

    def clipped(self, norm: Any) -> None:
        """The program clips: once told. `clip_grad_norm_` has returned the norm before clipping."""
        if not self._clips:
            self._clips = True
            self._tell("clips", {"step": self._steps.index})
        if type(norm) is self._tensor and norm.numel() == 1:
            step = self._steps.index
            self.read(norm, lambda value: self._set(_NORM, step, value))

    def normed(self, step: int, norm: float) -> None:
        """A reading of all gradients: their norm, if clipping has not told it."""
        row = self._clock.row
        if step != self._steps.index or row[_NORM] != row[_NORM]:
            self._set(_NORM, step, norm)

    def scaler_updated(self, scaler: Any, skipped: bool, begins: bool = False) -> None:
        """`GradScaler.update` ends, or begins for the first time: the scale, and whether this step was skipped."""
        if begins and self.known_scale:
            return
        scale = getattr(scaler, "_scale", None)
        if type(scale) is self._tensor:
            step = self._steps.index
            self.read(scale, lambda value: self._scale(value, step, skipped))
        else:
            self._skipped += skipped

    def _scale(self, value: float, step: int, skipped: bool) -> None:
        self._set(_SCALE, step, value)
        # A fused optimizer leaves the step out by itself, which nobody sees but by the scale that falls.
        self._skipped += skipped or value < self.known_scale
        if value != self.known_scale:
            self.known_scale = value
            fields = {"kind": "scaler", "step": step, "scale": value, "skipped": self._skipped}
            self._probe.record("numeric", fields)

    def end(self) -> None:
        """The process ends: what is known by now is told. (Nothing is waited for.)"""
        self.ended()
        self.readings.tell()
        self.gradients.tell_uncleared()
        self.losses.tell()
        self.gradients.tell_idle()
        steps = self._steps
        if steps.optimizers and not steps.optimizer_calls and steps.backwards >= _UNUSED:
            self._tell("unstepped", {"step": steps.index, "backwards": steps.backwards})


def word(value: float) -> str:
    """`nan` or `inf`."""
    return "nan" if math.isnan(value) else "inf"
