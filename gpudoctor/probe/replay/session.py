"""One replay: nothing but a light look up to the step before the bad one, then everything, then the verdict.

It may be made with more digits: every operation in float32 or float64, whatever the program asks for.
"""

from __future__ import annotations

import atexit
import math
import sys
from typing import TYPE_CHECKING, Any

from ..overrides.patching import wrap
from .nonfinite import Origin, badness, mapped, tensors_in
from .op_domains import base_name
from .watch import Batches, Watch

if TYPE_CHECKING:
    from ..overrides import Trial

# One step with more digits: every operation in float32 or float64, whatever the program asks for.
#
# A dispatch mode widens what goes into an operator and asks it for a wide result, so half precision (autocast's
# or the model's own) and single precision do not take part. Weights and data stay as they are between the
# operators. What has no such kernel runs as it would have.


class Wide:
    """Widens the operations of a step."""

    def __init__(self, torch: Any, precision: str) -> None:
        self.torch = torch
        self.dtype = getattr(torch, precision)
        self._size = torch.finfo(self.dtype).bits
        self.narrow = 0
        """Operations that ran as they would have."""
        self.all = 0
        self.passing = False
        """Whether a backward pass runs: its casts are autograd's, which wants each gradient in its own type."""
        self._mode = _mode(self)

    def begin(self) -> None:
        """From now on."""
        self._mode.__enter__()

    def end(self) -> None:
        """No longer."""
        self._mode.__exit__(None, None, None)

    def widened(self, tensor: Any) -> Any:
        """The tensor in the wide type, if it is a narrower number."""
        if tensor.is_floating_point() and torch_bits(self.torch, tensor.dtype) < self._size:
            return tensor.to(self.dtype)
        return tensor

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's result."""
        self.all += 1
        base = base_name(func)
        if base == "_local_scalar_dense" or (self.passing and base == "_to_copy"):
            return func(*args, **kwargs)
        try:
            return self._run(func, args, kwargs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            self.narrow += 1
            return self._as_it_was(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        torch = self.torch
        dtype = kwargs.get("dtype")
        if dtype is not None and dtype.is_floating_point and torch_bits(torch, dtype) < self._size:
            kwargs = {**kwargs, "dtype": self.dtype}
        if not func._schema.is_mutable:
            if any(item.alias_info is not None for item in func._schema.returns):
                return func(*args, **kwargs)  # a view stays one
            return func(*mapped(torch, args, self.widened), **mapped(torch, kwargs, self.widened))
        written = {
            id(tensor)
            for place, item in enumerate(func._schema.arguments)
            if item.alias_info is not None and item.alias_info.is_write
            for tensor in tensors_in(torch, args[place] if place < len(args) else kwargs.get(item.name))
        }
        change = lambda tensor: tensor if id(tensor) in written else self.widened(tensor)  # noqa: E731
        return func(*mapped(torch, args, change), **mapped(torch, kwargs, change))

    def _as_it_was(self, func: Any, args: Any, kwargs: Any) -> Any:
        """With arguments of one type, the narrowest among them: wide ones came from here."""
        torch = self.torch
        try:
            return func(*args, **kwargs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            if func._schema.is_mutable:
                raise
        kinds = [t.dtype for t in tensors_in(torch, (args, kwargs)) if t.is_floating_point()]
        least = min(kinds, key=lambda kind: torch_bits(torch, kind), default=torch.float32)
        least = torch.float32 if least is self.dtype else least
        narrowed = lambda tensor: tensor.to(least) if tensor.dtype is self.dtype else tensor  # noqa: E731
        return func(*mapped(torch, args, narrowed), **mapped(torch, kwargs, narrowed))


def torch_bits(torch: Any, dtype: Any) -> int:
    """Bits of a floating type."""
    return int(torch.finfo(dtype).bits)


def _mode(wide: Wide) -> Any:
    """The dispatch mode."""

    def dispatch(_mode: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return wide.run(func, args, kwargs or {})

    base = wide.torch.utils._python_dispatch.TorchDispatchMode
    return type("Widening", (base,), {"__torch_dispatch__": dispatch})()


_NAMES = 16


class Session:
    """Watches the steps `step - 1` and `step` (numbers from 0), or makes `step` with more digits."""

    def __init__(self, trial: Trial, step: int, precision: str) -> None:
        self._trial = trial
        self._probe = trial.probe
        self._torch = trial.torch
        self._step = step
        self._first = step if precision else max(0, step - 1)
        self._precision = precision
        self._watch: Watch | None = None
        self._wide: Wide | None = None
        self._batches = Batches(trial.torch)
        self._done = False
        self._eager = False
        self._poisoned: list[str] = []
        self._largest: list[float] = []
        """Size of the largest weight at the end of every step before the watch."""
        self._loss: float | None = None
        self._losses = True
        """Whether every loss of the widened step was finite."""
        self._gradients = True

    def install(self) -> None:
        """Hook what marks the watched steps."""
        self._probe.pace.watch_all()
        self._probe.steps.after.insert(0, self._probe.guard.safely("replay", self._stepped))
        wrap(self._torch.autograd, "backward", self._passing)
        optimizer: Any = sys.modules["torch.optim.optimizer"]
        optimizer.register_optimizer_step_pre_hook(self._before_step)
        self._batches.install()
        atexit.register(self._probe.guard.safely("replay", self._leave))
        if not self._first:
            self._begin()

    # -- on and off

    def _stepped(self) -> None:
        """A step has ended."""
        index = self._probe.steps.index
        if self._done:
            return
        if index > self._first:
            self._weights_written()
        if self._done:
            return
        if index > self._step:
            self._finish()
        elif index == self._first:
            self._bad_weights()
            self._begin()
        elif index > self._first and self._watch is not None:
            self._watch.renew_weights()
        elif self._bad_weights():
            self._tell("poisoned", None, names=self._poisoned, step=index - 1)

    def _begin(self) -> None:
        self._eager = _run_eagerly(self._torch)
        if self._precision:
            self._wide = Wide(self._torch, self._precision)
            self._wide.begin()
            return
        self._watch = self._batches.watch = Watch(self._probe)
        with self._torch.no_grad():
            self._poisoned = self._watch.begin() or self._poisoned

    def _end(self) -> None:
        self._batches.watch = None
        for part in (self._watch, self._wide):
            if part is not None:
                part.end()

    # -- the verdict

    def _passing(self, original: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._done or (self._watch is None and self._wide is None):
                return original(*args, **kwargs)
            self._safely(self._loss_made, args[0] if args else kwargs.get("tensors"))
            wide = self._wide
            if wide is None:
                result = original(*args, **kwargs)
            else:
                wide.passing = True
                try:
                    result = original(*args, **kwargs)
                finally:
                    wide.passing = False
            self._safely(self._gradients_made)
            return result

        return backward

    def _safely(self, work: Any, *args: Any) -> None:
        try:
            with self._torch.no_grad():
                work(*args)
        except Exception as error:
            self._probe.guard.lose("replay", error)
            self._done = True

    def _loss_made(self, roots: Any) -> None:
        for root in tensors_in(self._torch, roots):
            root = root.detach()
            self._loss = float(root.float()) if root.numel() == 1 else None
            if self._wide is not None:
                self._losses = self._losses and not badness(self._torch, root)
            elif badness(self._torch, root):
                self._tell("loss", self._origin(root))
                return

    def _gradients_made(self) -> None:
        if self._done:
            return
        if self._wide is not None:
            self._gradients = self._gradients and not self._bad(lambda parameter: parameter.grad)
            return
        bad = self._bad(lambda parameter: parameter.grad)
        if bad:
            names = [name for name, _ in bad]
            self._tell("gradients", self._oldest(bad), names=names[:_NAMES], count=len(names))

    def _before_step(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """What clipping or hooks did to the gradients since the backward pass."""
        if not self._done and self._watch is not None:
            self._safely(self._gradients_made)

    def _weights_written(self) -> None:
        if self._watch is None or self._done:
            return
        with self._torch.no_grad():
            bad = self._bad(lambda parameter: parameter)
        if bad and not self._poisoned:
            names = [name for name, _ in bad]
            self._tell("weights", self._oldest(bad), names=names[:_NAMES], count=len(names),
                       step=self._probe.steps.index - 1)  # fmt: skip

    def _bad(self, part: Any) -> list[tuple[str, Any]]:
        """Names and tensors that are not finite, of what the optimizers hold."""
        found = []
        for name, parameter in self._parameters():
            for tensor in tensors_in(self._torch, part(parameter)):
                if badness(self._torch, tensor.detach()):
                    found.append((name, tensor))
        return found

    def _parameters(self) -> list[tuple[str, Any]]:
        models = self._probe.models
        names = {id(value): name for module in models.trained() for name, value in module.named_parameters()}
        held = [
            value
            for optimizer in models.optimizers() or []
            for group in optimizer.param_groups
            for value in group["params"]
        ]
        known = {id(value): value for value in held}
        for module in models.trained():
            known.update((id(value), value) for value in module.parameters() if value.requires_grad)
        return [(names.get(key, f"parameter {at}"), value) for at, (key, value) in enumerate(known.items())]

    def _oldest(self, bad: list[tuple[str, Any]]) -> Origin | None:
        origins = [origin for _, tensor in bad if (origin := self._origin(tensor)) is not None]
        return min(origins, key=lambda origin: origin.number, default=None)

    def _origin(self, tensor: Any) -> Origin | None:
        return self._watch.labels.of(tensor) if self._watch is not None else None

    def _bad_weights(self) -> bool:
        """A light look between steps: have the weights gone bad earlier than anybody saw?"""
        torch = self._torch
        with torch.no_grad():
            pairs = [
                (name, part.detach())
                for name, parameter in self._parameters()
                for part in tensors_in(torch, parameter)
                if part.is_floating_point() and part.layout is torch.strided and part.numel()
            ]
            largest = [part.abs().max().float() for _, part in pairs]
            values = torch.stack([value.to("cpu") for value in largest]).tolist() if largest else []
        self._largest = [*self._largest[:1], max(values, default=0.0)]
        self._poisoned = [name for (name, _), value in zip(pairs, values) if not math.isfinite(value)][:_NAMES]
        return bool(self._poisoned)

    # -- the record

    def _finish(self) -> None:
        if self._wide is not None:
            self._tell("wide", None)
        elif self._watch is not None:
            self._tell("nothing", None)

    def _leave(self) -> None:
        """The interpreter ends before the steps did."""
        if not self._done:
            self._tell("ended", self._last_bad())

    def _last_bad(self) -> Origin | None:
        """The first NaN that nobody meant (else infinity), where the program ended before a backward pass."""
        origins = self._watch.labels.all() if self._watch is not None else []
        blamed = [item for item in origins if not item.deliberate]
        return min(blamed, key=lambda item: (item.fields["value"] != "nan", item.number), default=None)

    def _tell(self, found: str, origin: Origin | None, **more: Any) -> None:
        self._done = True
        self._end()
        fields: dict[str, Any] = {
            "asked": self._step, "begin": self._first, "step": self._probe.steps.index, "found": found,
            "precision": self._precision or None, "eager": self._eager, "loss": self._loss,
            "poisoned": self._poisoned, "weights": self._largest,
            "broken": self._watch.broken if self._watch is not None else "",
            "operations": self._watch.number if self._watch is not None else 0, **more,
        }  # fmt: skip
        if self._wide is not None:
            fields.update(losses=self._losses, gradients=self._gradients, narrow=self._wide.narrow,
                          operations=self._wide.all)  # fmt: skip
        if origin is not None:
            fields["origin"] = origin.told()
        self._probe.record("replay", fields)


def _run_eagerly(torch: Any) -> bool:
    """Compiled code shows no operations: from now on it runs as written. Whether there was any."""
    utils = sys.modules.get("torch._dynamo.utils")
    compiled = utils is not None and bool(utils.counters["frames"])
    stance = getattr(getattr(torch, "compiler", None), "set_stance", None)
    if compiled and stance is not None:
        stance("force_eager")
    return compiled


def apply(trial: Trial, _detail: str, table: dict[str, Any]) -> None:
    """`replay.nan`: watch every operation of a `step` (from 0), in a `precision` if one is named."""
    Session(trial, int(table["step"]), str(table.get("precision") or "")).install()
