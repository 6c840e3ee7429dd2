"""What a step's gradients are made of: micro batches and their weights in it, losses without a graph, clips.

The graph behind a loss says by how much the criterion's result is multiplied before its backward pass: `loss / 4` and
`loss * 0.25` keep that number, on the host. So a mean over each of four micro batches has a weight of 1 together, or
of 4 where nobody divides, or of 1/4 where two do.
"""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..clock import EVALUATION
from . import FIRST, SHARE, Look, both

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "gradients"
_PASSED = frozenset(
    {"ToCopyBackward0", "NegBackward0", "ViewBackward0", "SqueezeBackward0", "CloneBackward0", "AddBackward0"}
)
"""Nodes that change nothing of a part's size."""
_MEAN = 1
"""What a criterion keeps of `reduction="mean"`."""
_DEPTH = 8
"""Levels of nodes behind a loss that are looked at."""
_WIDTH = 8
"""Nodes of one level, and parameters of a group."""
_MOST = 64
"""Backward passes of one step."""
_UNEVEN = 256
"""Steps of which it is kept how uneven they were."""
_NEAR = 0.01
"""Part by which a weight may miss a number."""
_NO_LIMIT = 1e6
"""A limit that clips nothing: programs give one to have the norm."""


class Step:
    """The backward passes of one step."""

    def __init__(self, forwards: int) -> None:
        self.forwards = forwards
        """Calls of models before it."""
        self.weights: list[float] = []
        self.counts: list[float] = []
        """Of the criterion in each, where it is a mean: its weight, and how many targets it counts."""
        self.draws: list[int] = []
        """The loader of each batch."""
        self.lines: set[Any] = set()
        """Those of the program that passes began from."""
        self.passes = 0
        self.again = 0
        """Passes whose loss contains that of the last one, which has left its gradients."""
        self.leaf = 0
        """Losses without a graph."""
        self.cleared = 0
        """Passes before which the gradients of the last one went, without a step."""


class Backwards(Look):
    """Looks at the backward passes of some steps, and at clips."""

    def again(self) -> None:
        """For a new recording nothing has been seen."""
        super().again()
        self._open: Step | None = None
        """Of the first step nothing: no optimizer is known yet."""
        self._root: Any = None
        """Weak reference to the last loss."""
        self._left: tuple[int, int] | None = None
        """A gradient that its pass left, by its id and version."""
        self._place: dict[str, Any] = {}
        self._uneven: list[float] = []
        self._micro: Counter[int] = Counter()
        self._tally = dict.fromkeys(("looks", "undivided", "twice", "again", "leaf", "cleared"), 0)
        self._clips: dict[str, Any] = {}

    # -- backward passes

    def drawn(self, _batch: Any) -> None:
        """A batch was drawn."""
        if self._open is not None and self._probe.clock.phase != EVALUATION:
            self._open.draws.append(self._probe.loaders.last.number)

    def begins(self, root: Any) -> None:
        """A backward pass begins from a loss (before a scaler multiplies it)."""
        step = self._open
        if step is None or step.passes >= _MOST:
            return
        with self:
            step.passes += 1
            self._place = self.place()
            step.lines.add(self._place["line"])
            if step.passes > 1 and self._left is not None and self._left != self._gradient():
                step.cleared += 1
            before = self._root() if self._root is not None else None
            if root.grad_fn is None:
                step.leaf += 1
            else:
                nodes = self._weigh(root.grad_fn, step)
                # It contains the loss of the last pass; nothing has cleared what that left.
                same = before is not None and before.grad_fn is not None and before.grad_fn in nodes
                if same and self._left is not None and self._left == self._gradient():
                    step.again += 1
            self._root = weakref.ref(root)
            self._left = None

    def passed(self) -> None:
        """It has ended."""
        if self._open is not None:
            self._left = self._gradient()

    def _gradient(self) -> tuple[int, int] | None:
        """The first gradient of the first optimizer."""
        for optimizer in self._probe.models.optimizers()[:1]:
            for group in optimizer.param_groups:
                for parameter in group["params"][:_WIDTH]:
                    gradient = parameter.grad
                    if gradient is not None:
                        return id(gradient), gradient._version
        return None

    def _weigh(self, top: Any, step: Step) -> list[Any]:
        """The largest weight of a criterion that is a mean, and how many targets it counts; the nodes on the way."""
        found: list[tuple[float, Any]] = []
        nodes: list[Any] = []
        level = [(top, 1.0)]
        for _ in range(_DEPTH):
            below: list[tuple[Any, float]] = []
            for node, weight in level:
                nodes.append(node)
                name = type(node).__name__
                if hasattr(node, "_saved_reduction") or name == "MeanBackward0":
                    found.append((weight, node))
                elif name in ("DivBackward0", "MulBackward0"):
                    inner = node.next_functions[0][0]
                    below.append((inner, weight * self._factor(node, name)))
                elif name in _PASSED:
                    below += [(link[0], weight) for link in node.next_functions]
            level = [(node, weight) for node, weight in below if node is not None][:_WIDTH]
        weight, node = max(found, key=lambda item: item[0], default=(0.0, None))
        if weight and getattr(node, "_saved_reduction", _MEAN) == _MEAN:
            step.weights.append(weight)
            # With a weight a class, the sum of these is no number of targets.
            counted = getattr(node, "_raw_saved_total_weight", None)
            if counted is not None and getattr(node, "_saved_weight", None) is None:
                total = counted.data.detach().reshape(1).float()
                self._probe.numerics.read_all(total, lambda values: step.counts.append(values[0]))
        return nodes

    def _factor(self, node: Any, name: str) -> float:
        """A number of the host's by which a node divides or multiplies; 0 where that is not known."""
        kept = getattr(node, "_raw_saved_other", None)
        data: Any = None
        # What a hook has packed is not unpacked: that is the program's code.
        if kept is not None and getattr(kept, "unpack_hook", None) is None:
            data = kept.data
        if type(data) is not self._torch.Tensor or not data.is_cpu or data.numel() != 1:
            return 0.0
        value = float(data.detach())
        if not value:
            return 0.0
        return value if name == "MulBackward0" else 1 / value

    def ended(self) -> None:
        """A step has ended."""
        step = self._open
        self._open = None
        if step is not None and step.passes:
            self._fold(step)
            looks = self._tally["looks"]
            if not looks & (looks - 1):  # a power of two
                self.tell()
        cheap = self._budget.due() and self._budget.spent <= SHARE * self._probe.clock.now()
        if cheap or self._tally["looks"] < FIRST:
            self._open = Step(self._probe.models.forwards)

    def _fold(self, step: Step) -> None:
        """Count a step by what its passes were."""
        count = step.passes
        # Micro batches: of one loader, else one call of a model for each.
        batches = len(step.draws) or self._probe.models.forwards - step.forwards
        loaders = len(set(step.draws))
        one_line = len(step.lines) == 1
        accumulates = one_line and batches >= count > 1 >= loaders and not step.again
        micro = count if accumulates else 1
        self._micro[micro] += 1
        even = False
        if accumulates and len(step.weights) == count:
            even = min(step.weights) >= (1 - _NEAR) * max(step.weights)
        whole = sum(step.weights)
        tally = self._tally
        tally["looks"] += 1
        tally["again"] += step.again > 0
        tally["leaf"] += step.leaf == count
        tally["cleared"] += accumulates and step.cleared == count - 1
        tally["undivided"] += even and abs(whole / count - 1) < _NEAR
        tally["twice"] += even and abs(whole * count - 1) < _NEAR
        if even and len(step.counts) == count and min(step.counts) > 0 and len(self._uneven) < _UNEVEN:
            self._uneven.append(max(step.counts) / min(step.counts))

    # -- clips

    def clips(self, args: Any, kwargs: Any) -> None:
        """Gradients are about to be clipped by their norm."""
        numerics = self._probe.numerics
        limit = kwargs.get("max_norm", args[1] if len(args) > 1 else None)
        if isinstance(limit, (int, float)) and 0 < limit < _NO_LIMIT:
            seen = self._clips or {"clips": 0, "scaled": 0, **self.place()}
            # Gradients that still carry the scaler's factor are clipped far below what is meant.
            still_scaled = numerics.carries_scale and limit < numerics.known_scale
            self._clips = {
                **seen,
                "clips": seen["clips"] + 1,
                "scaled": seen["scaled"] + still_scaled,
                "limit": float(limit),
                "scale": numerics.known_scale or None,
            }

    def tell(self) -> None:
        """Write what is known by now."""
        for micro, _ in self._micro.most_common(1):
            uneven = None
            if self._uneven:
                median = len(self._uneven) // 2
                uneven = sorted(self._uneven)[median]
            self.write("gradients", {**self._tally, "micro": micro, "uneven": uneven, **self._place})
        if self._clips:
            self.write("clips", self._clips)


def install(probe: Probe) -> None:
    """Look at losses, batches, clips and ends of steps."""
    seen, guard = Backwards(probe), probe.guard
    probe.training[HOOK] = seen
    probe.steps.after.append(guard.reading(HOOK, seen.ended))
    probe.rooted = both(probe.rooted, guard.reading(HOOK, seen.begins))
    probe.weighed = guard.safely(HOOK, seen.passed)
    probe.clips = guard.safely(HOOK, seen.clips)
    probe.drawn = both(probe.drawn, guard.safely(HOOK, seen.drawn))
