"""What a loss is given: shapes that broadcast, labels, outputs that are all the same.

It is read from the graph behind the loss, which keeps the loss's arguments until the backward pass has run;
no function of torch is wrapped for it. Numbers of a device are handed on, never waited for. Arguments that are
kept by hooks of the program's (offloaded, or computed again when asked for) are left alone, and so are all of a
torch that does not tell whether there are such hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .deaths import told
from .guard import interrupts
from .tensor_reads import Budget, capturing

if TYPE_CHECKING:
    from .probe import Probe

_PAIRED = frozenset({"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0"})
"""Losses that broadcast their two arguments."""
_CLASSES = "NllLossBackward0"
_BINARY = frozenset({"BinaryCrossEntropyBackward0", "BinaryCrossEntropyWithLogitsBackward0"})
_SCORED = _PAIRED | _BINARY | {_CLASSES}
"""Losses that keep outputs and targets."""
_DISTANCES = frozenset({"PowBackward0", "AbsBackward0", "MulBackward0"})
"""Of a difference: a loss that the program wrote itself, and torch's `l1_loss`."""
_WHOLE = frozenset({"MeanBackward0", "SumBackward0"})
_ON_PURPOSE = frozenset({"UnsqueezeBackward0", "AccumulateGrad", "ViewBackward0", "ReshapeAliasBackward0"})
"""What makes a column of a row, for pairs of all with all; a parameter that is fitted."""
_SAMPLES = 8
"""Samples of a batch from which on it counts that all are the same."""
_PLACES = 4
"""Places of an image that are looked at."""
_ROUNDING = 1e-4
"""Part of the largest number that single precision loses in a sum."""
_SHARE = 0.0005
"""Share of the time for these readings."""
BURST = 64
"""The first losses are looked at one by one."""
_TOLD = 4
"""Looks from which on what is known is told at each power of two: a job may be killed after a few steps."""
_ROWS, _COLUMNS = 64, 1024
"""Outputs of a batch that are compared."""
_LABELS = 1 << 16
_STRANGE = 9
"""Losses with the loader's labels to one with others: what the program makes may look the same by chance."""
_KNOWN = 64
"""Labels that are remembered."""


class Losses:
    """Looks at what goes into losses, at a price that is kept small."""

    def __init__(
        self,
        probe: Probe,
        hand: Callable[[Any, Callable[[list[float]], None]], None],
        tell: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._torch = probe.torch
        self._steps = probe.steps
        self._probe = probe
        self._hand = hand
        """Reads a vector: at once on the CPU, else when it has arrived."""
        self._tell = tell
        """Writes a record of a kind."""
        self._budget = Budget(_SHARE)
        self._works = True
        self._cost = 0.0
        """Seconds that looking at the batch took."""
        self._looks = 0
        self._fresh: list[tuple[int, ...]] = []
        """Number, least, greatest and sum of each row of labels in the batch that was drawn last."""
        self._wide: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        """How often by the shapes: `_found`."""
        self._labels: dict[int, int] = {}
        """Batches of one label each, by label; -1: the rest."""
        self._matched = self._single = self._elements = self._classes = 0
        self._strange = 0
        """Losses whose labels are not those of the batch."""
        self._loader: int | None = None
        self._alike = self._since = self._last = 0
        self._named = ""
        self._ratios = [0, 0]
        """Exponentials, and those that are 1 everywhere."""
        self._outside: list[float] = []
        """Least and greatest of the targets that a loss over probabilities got and that are none; how often."""

    def due(self) -> bool:
        """Whether a look may be taken now."""
        return self._works and (self._budget.count < BURST or self._budget.due())

    def drawn(self, batch: Any) -> None:
        """A batch was drawn: what the labels in it are, where they lie in the host's memory."""
        self._fresh = []
        if not self.due():
            return
        began = perf_counter()
        try:
            parts: Any = batch.values() if isinstance(batch, Mapping) else batch
            if isinstance(batch, (list, tuple, Mapping)):
                self._fresh = [found for found in map(self._row, islice(parts, 8)) if found is not None]
        except Exception as error:  # a mapping of the program's own
            if interrupts(error):
                raise
            self._works = False
        self._cost = perf_counter() - began

    def _row(self, part: Any) -> tuple[int, ...] | None:
        torch = self._torch
        if type(part) is not torch.Tensor or not part.is_cpu or not _SAMPLES <= part.numel() <= _LABELS:
            return None
        if part.dim() != 1 or part.dtype is not torch.int64:
            return None
        low, high = part.aminmax()
        return part.numel(), int(low), int(high), int(part.sum())

    def look(self, root: Any) -> None:
        """Look at the graph of a loss."""
        if not self.due() or capturing(self._torch, root.device):
            return
        began = perf_counter()
        try:
            self._look(root)
        except Exception as error:  # a node that keeps other things than it does today
            if interrupts(error):
                raise
            self._works = False
        self._budget.charge(self._cost + perf_counter() - began)
        self._cost = 0.0

    def _look(self, root: Any) -> None:
        self._looks += 1
        known = len(self._wide)
        scored: list[Any] = []
        whole: list[Any] = []
        for node in behind(root.grad_fn, _SCORED):
            name = type(node).__name__
            if name in _WHOLE and _shape(node) == ():
                whole.append(node.next_functions[0][0])
            elif name == "ExpBackward0":
                self._ratio(node)
            elif name in _SCORED:
                scored.append(node)
                if name in _PAIRED and (node._saved_reduction or any(node is item for item in whole)):
                    self._paired(node)
            elif name in _DISTANCES and any(node is item for item in whole):
                self._distance(node, name)
                if name == "MulBackward0":  # weights of the samples
                    whole += [side[0] for side in node.next_functions if side[0] is not None]
        if len(scored) == 1:
            self._score(scored[0])
        often = self._looks >= _TOLD and not self._looks & (self._looks - 1)
        if len(self._wide) > known or often:
            self.tell()

    # -- shapes

    def _paired(self, node: Any) -> None:
        """A loss of torch's: whether its output and its target were both made larger to fit each other."""
        made = [(place, side[0]) for place, side in enumerate(node.next_functions) if side[0] is not None]
        if len(made) != 1 or not _spread(made[0][1]):
            return
        [(place, given)] = made
        other = self._kept(node, "self" if place else "target")
        if other is None or other.dim() < 2:
            return
        own, shape = tuple(map(int, given._saved_self_sym_sizes)), tuple(other.shape)
        still, moves = other.stride()[:2] if len(own) == len(shape) else other.stride()[1::-1]
        if moves and not still and _crosses(own, shape, given.next_functions[0]):
            self._found(own, shape)

    def _found(self, own: tuple[int, ...], shape: tuple[int, ...]) -> None:
        """Outputs of a shape met all targets."""
        key = (own, shape)
        if len(self._wide) < 16 or key in self._wide:
            self._wide[key] = self._wide.get(key, 0) + 1

    def _distance(self, node: Any, name: str) -> None:
        """A mean or sum over a difference that is larger than the output in it."""
        difference = node.next_functions[0][0]
        if type(difference).__name__ != "SubBackward0":
            return
        if name == "MulBackward0" and type(node.next_functions[1][0]).__name__ != "SubBackward0":
            return
        shape = _shape(difference)
        sides = difference.next_functions
        made = [side for side in sides if side[0] is not None]
        if shape is None or len(sides) != 2 or len(made) != 1:
            return
        side = made[0]
        own: tuple[int, ...] | None
        if _spread(side[0]):
            own = tuple(map(int, side[0]._saved_self_sym_sizes))
            side = side[0].next_functions[0]
        else:
            own = _shape(side[0], side[1])
        if own is None or not _crosses(own, shape, side):
            return
        kept = self._kept(node, "self")
        if kept is None or kept.dtype not in (self._torch.float32, self._torch.float64):
            return
        # Each sample against each: what a row has more than the first one, it has in every column.
        part = kept[:_ROWS, :_ROWS]
        part = part.flatten(2)[..., :_PLACES] if part.dim() > 2 else part
        left = ((part - part[:1]) - (part[:, :1] - part[:1, :1])).abs().max()
        vector = self._torch.stack((left, part.abs().max()))

        def note(values: list[float]) -> None:
            if values[0] <= _ROUNDING * values[1]:
                self._found(own, shape)

        self._hand(vector, note)

    def _ratio(self, node: Any) -> None:
        """An exponential that is 1 everywhere: of a probability and itself."""
        kept = self._kept(node, "result")
        if kept is not None and kept.numel() >= _SAMPLES:

            def note(values: list[float]) -> None:
                self._ratios[0] += 1
                self._ratios[1] += values == [1.0, 1.0]

            self._hand(self._torch.stack(kept[:_ROWS].aminmax()), note)

    # -- labels and outputs

    def _score(self, node: Any) -> None:
        """Compare the samples of a batch by what the loss is given of them."""
        torch = self._torch
        given, target = self._kept(node, "self"), self._kept(node, "target")
        if given is None or target is None or not given.dim() or given.shape[0] < _SAMPLES:
            return
        name = type(node).__name__
        classes = name == _CLASSES
        width = int(given.shape[1]) if classes and given.dim() > 1 else 0
        if target.shape[:1] != given.shape[:1] or (not classes and 0 in (*given.stride(), *target.stride())):
            return
        outputs = given[:_ROWS].reshape(min(_ROWS, given.shape[0]), -1)[:, :_COLUMNS]
        targets = target[:_ROWS].reshape(outputs.shape[0], -1)[:, :_COLUMNS]
        numbers = [(outputs.amax(0) - outputs.amin(0)).amax(), (targets.amax(0) - targets.amin(0)).amax()]
        if classes:
            numbers += [*target.aminmax(), target.sum()]
        elif name in _BINARY:
            numbers += target.aminmax()
        step, fresh, count = self._steps.index, self._fresh, target.numel()
        vector = torch.stack([number.to(torch.float32) for number in numbers])
        self._hand(vector, lambda values: self._note(values, step, name, count, width, fresh))

    def _note(
        self, values: list[float], step: int, name: str, count: int, width: int, fresh: list[tuple[int, ...]]
    ) -> None:
        if values[0] == 0.0 and values[1] > 0.0:
            if not self._alike:
                self._since, self._named = step, name.partition("Backward")[0]
            self._alike += 1
        else:
            self._alike = 0
        self._last = step
        if len(values) == 4 and not -_ROUNDING <= values[2] <= values[3] <= 1 + _ROUNDING:
            least, most, often = self._outside or [values[2], values[3], 0]
            self._outside = [min(least, values[2]), max(most, values[3]), often + 1]
        if len(values) < 5 or values[2] < 0 or values[2] % 1 or values[3] % 1:  # places to ignore, soft labels
            return
        low, high = int(values[2]), int(values[3])
        # The sum of many labels has more digits than a float: equal but for its last ones.
        if any((row[0], row[1], row[2]) == (count, low, high) and abs(row[3] - values[4]) < 1 + 1e-6 * row[3]
               for row in fresh):  # fmt: skip
            self._matched += 1
            self._loader = self._probe.loaders.last.number
            self._elements += count
            self._classes = width
            key = low if low == high else -1
            self._single += low == high
            if key in self._labels or len(self._labels) < _KNOWN:
                self._labels[key] = self._labels.get(key, 0) + 1
        elif fresh:
            self._strange += 1

    def _kept(self, node: Any, name: str) -> Any:
        """What a node keeps under a name; None where hooks keep it, which would run when asked."""
        kept = getattr(node, f"_raw_saved_{name}", None)
        if kept is None or getattr(kept, "unpack_hook", kept) is not None:
            return None
        data = kept.data
        return data.detach() if type(data) is self._torch.Tensor else None

    def beyond(self) -> dict[str, Any] | None:
        """A label of the batch that was drawn last and that the loss does not have: the device says nothing."""
        if len(self._fresh) != 1 or not self._matched:
            return None
        _, least, most, _ = self._fresh[0]
        return told("label", max(0, least), most, self._classes)  # below zero lie places to ignore

    # -- telling

    def tell(self) -> None:
        """Write what is known by now."""
        step = self._steps.index
        if self._wide:
            shapes = [[list(own), list(shape), often] for (own, shape), often in self._wide.items()]
            self._tell("broadcast", {"step": step, "losses": self._looks, "shapes": shapes})
        if self._matched > _STRANGE * self._strange:
            fields = {
                "step": step, "losses": self._matched, "found": self._single, "elements": self._elements,
                "classes": self._classes, "loader": self._loader,
                "labels": [[label, often] for label, often in sorted(self._labels.items())],
            }  # fmt: skip
            self._tell("labels", fields)
        if self._ratios[1]:
            looks, ones = self._ratios
            self._tell("ratio", {"step": step, "of": looks, "found": ones})
        if self._outside:
            least, most, often = self._outside
            self._tell("outside", {"step": step, "least": least, "most": most, "found": often})
        if self._alike:
            alike = {"step": self._last, "since": self._since, "found": self._alike, "loss": self._named}
            self._tell("alike", alike)


def _shape(node: Any, place: int = 0) -> tuple[int, ...] | None:
    """Shape of what a node made; None where this torch does not tell."""
    made = getattr(node, "_input_metadata", None)
    return tuple(map(int, made[place].shape)) if made else None


def _spread(node: Any) -> bool:
    return type(node).__name__ == "ExpandBackward0"


def _crosses(own: tuple[int, ...], shape: tuple[int, ...], side: tuple[Any, int]) -> bool:
    """Whether N outputs became N times N, a column or a row of them against the other, and nothing in the
    program had made them a column for that. What follows the first two dimensions is alike: (N, 1, H, W)
    against (N, H, W) is (N, N, H, W).
    """
    if side[0] is None or len(shape) < 2 or shape[0] != shape[1] or shape[0] < 2:
        return False
    name = type(side[0]).__name__
    if own == (shape[0], 1, *shape[2:]):
        return name not in _ON_PURPOSE
    return own == shape[1:] and name != "AccumulateGrad"


# What the graph behind a loss says of it, by the names of its nodes and their links: whether what is normalised by the
# loss was normalised before. No value is read.

_NORMALISING = {
    "LogSoftmaxBackward0": ("SoftmaxBackward0", "LogSoftmaxBackward0"),
    "BinaryCrossEntropyWithLogitsBackward0": ("SigmoidBackward0",),
}
"""Nodes of losses that normalise their input, and what must not have made it."""
_KINDS = {"SoftmaxBackward0": "softmax", "LogSoftmaxBackward0": "log_softmax", "SigmoidBackward0": "sigmoid"}
_MOVED = frozenset(
    {"ViewBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0", "TransposeBackward0", "PermuteBackward0",
     "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0", "SliceBackward0", "SelectBackward0",
     "ToCopyBackward0", "CloneBackward0", "AliasBackward0", "TBackward0", "IndexBackward0", "CatBackward0",
     "StackBackward0", "AsStridedBackward0"}
)  # fmt: skip
"""Nodes that move values without changing them."""
_NODES, _DEPTH, _MOVES = 64, 12, 4
"""Nodes behind a loss that are looked at, links up to the loss's own node, moves behind that."""
LOOKS, TELL = 24, 8
"""Graphs of a process that are looked at; after so many with such a loss it is told."""


class Graphs:
    """Counts losses that normalise, and those whose input was normalised before."""

    def __init__(self) -> None:
        self._looks = 0
        self.losses = 0
        self.found: dict[str, int] = {}

    def look(self, root: Any) -> bool:
        """Look at the graph of a loss; whether it is time to tell what was found."""
        if self._looks >= LOOKS:
            return False
        self._looks += 1
        kinds = normalised(root.grad_fn)
        if kinds is None:
            return False
        self.losses += 1
        for kind in kinds:
            self.found[kind] = self.found.get(kind, 0) + 1
        return self.losses in (TELL, LOOKS)


def behind(top: Any, stops: Container[str] = ()) -> Iterator[Any]:
    """The nodes behind a loss, its own first, a level at a time; not what lies behind those named `stops`."""
    level, seen = [top], 0
    for _ in range(_DEPTH):
        below: list[Any] = []
        for node in level:
            seen += 1
            if node is None or seen > _NODES:
                continue
            yield node
            if type(node).__name__ not in stops:
                below += [item[0] for item in node.next_functions]
        level = below


def normalised(top: Any) -> set[str] | None:
    """By what the input of a loss that normalises was normalised before; None without such a loss."""
    loss = False
    kinds: set[str] = set()
    for node in behind(top, _NORMALISING):
        wanted = _NORMALISING.get(type(node).__name__)
        if wanted is not None:
            loss = True
            given = node.next_functions
            kind = _made(given[0][0] if given else None, wanted)
            if kind:
                kinds.add(kind)
    return kinds if loss else None


def _made(node: Any, wanted: Container[str]) -> str:
    """What made a loss's input, through moves; "" for anything else."""
    found = moved_by(node, wanted)
    # Over the first dimension it weighs the samples of a batch.
    return "" if found is None or getattr(found, "_saved_dim", None) == 0 else _KINDS[type(found).__name__]


def moved_by(node: Any, wanted: Container[str]) -> Any:
    """The node of a wanted name whose values a node gives on, at most moved; None for anything else."""
    for _ in range(_MOVES):
        name = type(node).__name__
        if name in wanted:
            return node
        if node is None or name not in _MOVED:
            break
        node = node.next_functions[0][0]
    return None
