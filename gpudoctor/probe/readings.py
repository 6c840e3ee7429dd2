"""One reading of all gradients and of some weights, around one step of an optimizer."""

from __future__ import annotations

import math
import sys
import weakref
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .models import class_name, parameters, unwrapped
from .tensor_reads import capturing

if TYPE_CHECKING:
    from .numerics import Numerics
    from .probe import Probe

# The trainable parameters by name, in the order of the model, without keeping any of them alive.

SAMPLE = 64
"""Elements of a parameter that are compared before and after a step."""

_TURN = 7919
"""A prime: turns begin all over the room that a sample leaves."""


class Parameter:
    """One trainable parameter and what was seen of it."""

    def __init__(self, name: str, parameter: Any, held: bool) -> None:
        self.name = name
        before, adapter, _ = name.partition(".lora_")
        self.layer = before if adapter else name.rpartition(".")[0]
        """Its module. The two matrices of a LoRA adapter are one: the second begins at zero, and with it the gradient
        of the first."""
        self.reference = weakref.ref(parameter)
        self.numel = int(parameter.numel())
        self.shards = shards(parameter)
        self.held = held
        """Whether an optimizer has it."""
        self.looked = 0
        """Readings of its gradient."""
        self.zeros = 0
        """Those in which it had none, or zeros only."""
        self.nones = 0
        self.norm = 0.0
        """Of its gradient, when it was read last."""
        self.moved = 0
        """Steps that changed it, of those looked at."""
        self.stood = 0
        """Steps that did not although they should have."""


class Parameters:
    """Those of the models that train and of the optimizers."""

    def __init__(self, probe: Probe) -> None:
        self._kinds = (probe.torch.Tensor, probe.torch.nn.Parameter)
        self._models = probe.models
        self._evaluation = probe.evaluation
        self.list: list[Parameter] = []
        self._known: dict[int, Parameter] = {}
        self._version = -1

    def plain(self, tensor: Any) -> bool:
        """Whether a tensor may be asked: a subclass of the program's sees every question, but for shards."""
        return type(tensor) in self._kinds or type(local(tensor)) in self._kinds

    def refresh(self) -> None:
        """Look for models and optimizers that have come since."""
        if self._version == self._models.version:
            return
        self._version = self._models.version
        modules, optimizers = self._models.trained(), self._models.optimizers()
        # A teacher has gradients, too, but is not trained; without any that is, an optimizer has lost the
        # model.
        modules = [module for module in modules if self._evaluation.trains(module)] or modules
        held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
        found: list[Parameter] = []
        seen: set[int] = set()
        for module in modules:
            for name, parameter in parameters(unwrapped(module)).items():
                if id(parameter) not in seen and self.plain(parameter) and parameter.requires_grad:
                    seen.add(id(parameter))
                    found.append(self._of(name, parameter, id(parameter) in held))
        for optimizer in optimizers if not found else ():  # a model that is no module
            for number, group in enumerate(optimizer.param_groups):
                for place, parameter in enumerate(group["params"]):
                    if id(parameter) not in seen and self.plain(parameter) and parameter.requires_grad:
                        seen.add(id(parameter))
                        found.append(self._of(f"group {number} parameter {place}", parameter, True))
        # What an optimizer has and a module holds that is called without gradients only is trained by nothing.
        # What no called module holds may be a copy's, by mistake: that is told by what the steps leave alone.
        for module in self._models.untrained() if found and held - seen else ():
            name_of = class_name(unwrapped(module))
            for name, parameter in parameters(unwrapped(module)).items():
                if id(parameter) in held and id(parameter) not in seen and self.plain(parameter):
                    seen.add(id(parameter))
                    if parameter.requires_grad:
                        found.append(self._of(f"{name_of}.{name}", parameter, True))
        self.list = found
        self._known = {id(entry.reference()): entry for entry in found}

    def _of(self, name: str, parameter: Any, held: bool) -> Parameter:
        known = self._known.get(id(parameter))
        if known is not None and known.reference() is parameter:
            known.held = held
            return known
        return Parameter(name, parameter, held)

    def of(self, optimizer: Any) -> list[tuple[Parameter, Any]]:
        """Those that an optimizer steps, and those that none does, with their tensors, in order.

        What only an optimizer has (a copy's, by mistake) is no parameter of the model.
        """
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        pairs = []
        for entry in self.list:
            parameter = entry.reference()
            if parameter is not None and (id(parameter) in own or not entry.held):
                pairs.append((entry, parameter))
        return pairs


def local(tensor: Any) -> Any:
    """The part of a distributed tensor that is here (asking for the whole would be a collective)."""
    return tensor._local_tensor if hasattr(type(tensor), "_local_tensor") else tensor


def shards(tensor: Any) -> int:
    """Ranks over which a distributed tensor is spread: each has a part of its gradient only."""
    if "_fsdp_flattened" in getattr(tensor, "__dict__", ()):  # FSDP1
        return int(sys.modules["torch"].distributed.get_world_size())
    spread = enumerate(tensor.placements) if hasattr(type(tensor), "_local_tensor") else ()
    return math.prod(int(tensor.device_mesh.size(place)) for place, how in spread if how.is_shard())


def sample(tensor: Any, turn: int = 0) -> Any:
    """A few elements of a tensor, spread over it, as a new one; None where that is not a plain view.

    Others in every `turn`. The stride has no factor in common with any dimension: else all could be the same
    corner of every kernel, which on small maps has no gradient.
    """
    tensor = local(tensor.detach())
    if not tensor.is_contiguous() or not tensor.numel():
        return None
    flat = tensor.view(-1)
    size = flat.numel()
    stride = max(1, size // SAMPLE)
    while stride > 1 and math.gcd(stride, size) > 1:
        stride -= 1
    begin = turn * _TURN % max(1, size - (SAMPLE - 1) * stride)
    return flat[begin::stride][:SAMPLE].clone()


# One reading of all gradients and of some weights, around one step of an optimizer.

WINDOW = 64
"""Parameters whose weights are compared at one reading; the next reading takes the next ones."""
SWALLOWED = 1e-6
"""Size of a step relative to the weights below which single precision may lose it."""
TOLD = (12, 25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800)
"""Readings after which what was counted is told."""
_NAMES, _COARSE = 64, 4


class Readings:
    """Takes readings and counts what they show."""

    def __init__(self, probe: Probe, numerics: Numerics) -> None:
        self._probe = probe
        self._numerics = numerics
        self._torch = probe.torch
        self.open = False
        """Between `before` and `after`."""
        self.cost = 0.0
        self.count = 0
        self._samples: list[tuple[Parameter, Any, Any]] = []
        self._window = 0
        self._told = 0.0
        self._still: set[str] = set()
        """Kinds of parameters that were written down last: those that join later are taken back."""
        self._rate = 0.0
        self._adaptive = False
        self._coarse: list[tuple[Any, Any, Any, int]] = []
        """Large weights of half precision, elements of theirs at first, which had a gradient, and the turn."""
        self._stuck: dict[str, Any] = {}
        """Share of these elements that are what they were at first."""

    def before(self, optimizer: Any) -> None:
        """Look at the gradients that a step is about to use."""
        pairs = self._numerics.parameters.of(optimizer)
        if not any(parameter.grad is not None for _, parameter in pairs):
            return  # sharded elsewhere (ZeRO), or nothing was computed
        torch = self._torch
        self.open = True
        self.count += 1
        # Everything is detached, so that no mode has to be set: Ctrl-C may come in between.
        self._read_norms(pairs)
        rates = [group.get("lr") for group in optimizer.param_groups]
        still = all(isinstance(rate, (int, float)) and rate == 0 for rate in rates)
        plain = all(type(parameter) in (torch.Tensor, torch.nn.Parameter) for _, parameter in pairs[:4])
        self._samples = self._take(pairs) if plain and not still else []
        self._rate = max((rate for rate in rates if isinstance(rate, float)), default=0.0)
        self._adaptive = not isinstance(optimizer, torch.optim.SGD)

    def _read_norms(self, pairs: list[tuple[Parameter, Any]]) -> None:
        """Ask for the norm of every gradient; what is asked for is judged when it is known."""
        torch = self._torch
        groups: dict[Any, list[tuple[Parameter, Any]]] = {}
        for entry, parameter in pairs:
            gradient = parameter.grad
            if gradient is None:
                entry.looked += 1
                entry.nones += 1
                entry.zeros += 1
                continue
            gradient = local(gradient).detach()
            if type(gradient) is not torch.Tensor:
                continue
            if gradient.layout is torch.strided and gradient.numel():
                groups.setdefault((gradient.device, gradient.dtype), []).append((entry, gradient))
        parts: dict[Any, list[Any]] = {}
        order: dict[Any, list[Parameter]] = {}
        for (device, dtype), members in groups.items():
            tensors = [gradient for _, gradient in members]
            if dtype in (torch.float16, torch.bfloat16):  # the norm of half precision overflows
                norms = [gradient.norm(dtype=torch.float32) for gradient in tensors]
            else:
                norms = list(torch._foreach_norm(tensors))
            parts.setdefault(device, []).extend(norm.float() for norm in norms)
            order.setdefault(device, []).extend(entry for entry, _ in members)
        step = self._probe.steps.index
        for device, norms in parts.items():
            self._numerics.read_all(torch.stack(norms), partial(self._judge, step, order[device]))

    def _judge(self, step: int, entries: list[Parameter], norms: list[float]) -> None:
        wrong = [place for place, norm in enumerate(norms) if not math.isfinite(norm)]
        if wrong:
            names = [entries[place].name for place in wrong]
            value = float("nan") if any(math.isnan(norms[place]) for place in wrong) else float("inf")
            self._numerics.bad_gradients(step, names, value, len(wrong) == len(norms))
            return
        for entry, norm in zip(entries, norms):
            entry.looked += 1
            entry.zeros += norm == 0.0
            entry.norm = norm
        # Of gradients that are spread over ranks this rank's part; what all ranks have counts in parts, too.
        most = _most_shards(entries)
        total = math.sqrt(sum(norm * norm * entry.shards / most for entry, norm in zip(entries, norms)))
        self._numerics.normed(step, total)
        self._tell_norms(step, entries, norms, total)

    def _tell_norms(self, step: int, entries: list[Parameter], norms: list[float], total: float) -> None:
        now = perf_counter()
        if self.count not in (1, 2, 4, 8, 16) and now - self._told < 10.0:
            return
        self._told = now
        layers: dict[str, float] = {}
        for entry, norm in zip(entries, norms):
            layers[entry.layer] = layers.get(entry.layer, 0.0) + norm * norm
        names = list(layers)
        fields = {
            "norm": total,
            "first": math.sqrt(layers[names[0]]),
            "last": math.sqrt(layers[names[-1]]),
            "first_name": names[0],
            "last_name": names[-1],
        }
        self._record("norms", {**fields, **_spread(entries), "step": step})

    # -- weights

    def _take(self, pairs: list[tuple[Parameter, Any]]) -> list[tuple[Parameter, Any, Any]]:
        """A few elements of some weights, before the step; only of those that have a gradient."""
        taken: list[tuple[Parameter, Any, Any]] = []
        size = len(pairs)
        for offset in range(min(WINDOW, size)):
            entry, parameter = pairs[(self._window + offset) % size]
            if parameter.grad is not None and parameter.is_floating_point():
                before = sample(parameter, self.count)
                if before is None:
                    continue
                # The gradient of these elements: rows of an embedding that no token asked for have none.
                gradient = local(parameter.grad)
                pull = sample(gradient, self.count) if gradient.layout is self._torch.strided else None
                taken.append((entry, before, pull if pull is not None and pull.shape == before.shape else before))
        self._window = (self._window + WINDOW) % size if size > WINDOW else 0
        return taken

    def after(self) -> None:
        """Compare weights with what they were before the step."""
        self.open = False
        samples, self._samples = self._samples, []
        if samples:
            self._compare(samples)
        if self.count in TOLD:
            self.tell()

    def _compare(self, samples: list[tuple[Parameter, Any, Any]]) -> None:
        torch = self._torch
        by_device: dict[Any, list[tuple[Parameter, Any, Any, Any]]] = {}
        for entry, taken, pull in samples:
            parameter = entry.reference()
            if parameter is not None:
                by_device.setdefault(taken.device, []).append((entry, parameter, taken, pull))
        for device, members in by_device.items():
            if capturing(torch, device):
                continue
            self._compare_coarse(members)
            before = [taken.float() for _, _, taken, _ in members]
            after = [sample(parameter, self.count).float() for _, parameter, _, _ in members]
            pulls = torch._foreach_norm([pull.float() for _, _, _, pull in members])
            changes = torch._foreach_norm(torch._foreach_sub(after, before))
            entries = [entry for entry, _, _, _ in members]
            values = torch.stack([*changes, *torch._foreach_norm(before), *pulls])
            self._numerics.read_all(values, partial(self._compared, entries))

    def _compare_coarse(self, members: list[tuple[Parameter, Any, Any, Any]]) -> None:
        """Which elements of half-precision weights that an optimizer has are, steps later, still what they were?

        A step alone says nothing: a library may keep a finer copy, or round by chance.
        """
        torch, step = self._torch, self._probe.steps.index
        if not self._coarse:
            halves = (torch.bfloat16, torch.float16)
            held = [item for item in members if item[0].held and item[2].dtype in halves and item[2] is not item[3]]
            for _, parameter, taken, pull in sorted(held, key=lambda item: -item[0].numel)[:_COARSE]:
                self._coarse.append((weakref.ref(parameter), taken, pull != 0, self.count))
            self._stuck = {"since": step}
            return
        now = [(sample(p, turn), taken, had) for of, taken, had, turn in self._coarse if (p := of()) is not None]
        if now:
            one, other, had = (torch.cat([part.to(now[0][0].device) for part in parts]) for parts in zip(*now))

            def note(values: list[float]) -> None:
                if values[1]:
                    self._stuck |= {"stuck": values[0] / values[1], "until": step}

            self._numerics.read_all(torch.stack([((one == other) & had).sum(), had.sum()]).float(), note)

    def _compared(self, entries: list[Parameter], values: list[float]) -> None:
        count = len(entries)
        changes, sizes, pulls = values[:count], values[count : 2 * count], values[2 * count :]
        for entry, change, size, pull in zip(entries, changes, sizes, pulls):
            if change != 0.0:
                entry.moved += 1
            elif pull and self._should_move(entry, size):
                entry.stood += 1

    def _should_move(self, entry: Parameter, size: float) -> bool:
        """Whether a step with this gradient and rate is larger than what rounding swallows."""
        gradient = entry.norm / math.sqrt(entry.numel)
        if not entry.held or not gradient:
            return gradient > 0.0
        step = self._rate if self._adaptive else self._rate * gradient
        weight = size / math.sqrt(min(SAMPLE, entry.numel))
        return step > SWALLOWED * weight

    # -- what is told

    def tell(self) -> None:
        """Write what was counted so far."""
        entries = [entry for entry in self._numerics.parameters.list if entry.looked]
        elements = sum(entry.numel for entry in entries)
        if not elements:
            return
        dead = [entry for entry in entries if entry.zeros == entry.looked]
        if self._changed("dead", dead):
            none = [entry.name for entry in dead if entry.nones == entry.looked]
            self._tell_some(
                "dead",
                dead,
                elements,
                min((entry.looked for entry in dead), default=self.count),
                none=none[:_NAMES],
                of=len(entries),
            )
        # What has no gradient in it does not move either, and is told as dead.
        frozen = [entry for entry in entries if entry.stood and not entry.moved and entry.zeros < entry.looked]
        if self._changed("frozen", frozen):
            self._tell_some("frozen", frozen, elements, min((entry.stood for entry in frozen), default=self.count))
        if "stuck" in self._stuck:
            self._record("updates", self._stuck)

    def _changed(self, kind: str, some: list[Parameter]) -> bool:
        """Whether there is something to write: parameters of a kind, or that there are none any more."""
        before = kind in self._still
        (self._still.add if some else self._still.discard)(kind)
        return bool(some) or before

    def _tell_some(self, kind: str, some: list[Parameter], elements: int, steps: int, **more: Any) -> None:
        count = sum(entry.numel for entry in some)
        fields = {"parameters": [entry.name for entry in some][:_NAMES], "elements": count, "count": len(some)}
        self._record(kind, {**fields, "share": count / elements, "steps": steps, **more, **_spread(some)})

    def _record(self, kind: str, fields: dict[str, Any]) -> None:
        self._probe.record("numeric", {"kind": kind, "step": self._probe.steps.index, **fields})


def _spread(entries: list[Parameter]) -> dict[str, int]:
    """`shards`, where ranks have a part of some of these gradients only (FSDP2)."""
    most = _most_shards(entries)
    return {"shards": most} if most > 1 else {}


def _most_shards(entries: list[Parameter]) -> int:
    return max((entry.shards for entry in entries), default=1)
