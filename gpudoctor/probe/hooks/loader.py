"""Batches: what the training thread waits for at `DataLoader`, and how large what it gets is."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..call_sites import Place, where
from ..clock import DATA_WAIT, EVALUATION, OWNS
from ..guard import CALLER
from ..importlib_bootstrap import MISSING, Usual
from ..table import AT

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "loader"
_BATCHES, _SAMPLES, _TOKENS, _PADDING = (AT[name] for name in ("batches", "samples", "tokens", "padding"))
_STARTS = AT["starts"]


class Loader:
    """A loader that was iterated."""

    def __init__(self, number: int, facts: dict[str, Any]) -> None:
        self.number = number
        self.facts = facts
        self.role = ""
        self.backwards = -1
        """Backward passes of the run when it was last drawn from."""
        self.idle = 0
        """Draws in a row that no backward pass followed."""
        self.dataset: Any = _gone
        """Weak reference to its latest data set."""
        self.draws = 0
        """Batches that were drawn from it in steps that are looked at, and in evaluations."""
        self.epochs = 0
        """How often it was iterated."""
        self.made: Any = _gone
        """Weak reference to the latest loader itself."""


class Loaders:
    """Knows the loaders, and which of them trains."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._by_id: dict[int, tuple[Any, Loader]] = {}
        self.made: dict[int, tuple[Place, tuple[Any, ...]]] = {}
        """Where each loader was made, by its id, and by which calls."""
        self._datasets: dict[int, tuple[Any, Place]] = {}
        """Loaders that the user's code made, by their data set's id."""
        self._known: dict[tuple[Any, ...], list[Loader]] = {}
        """Loaders by how they were made."""
        self._count = 0
        self.last: Loader | None = None
        self.trains: Loader | None = None
        self.starting: int | None = None
        """Number of the loader whose workers are being started; they inherit it."""
        self.started = 0
        """Workers that were started so far."""
        self.iterating: weakref.WeakKeyDictionary[Any, Loader] = weakref.WeakKeyDictionary()
        """Loaders by their iterators."""
        self.drawing = 0
        """Id of the iterator that was drawn from last, as long as none has come after it."""
        self._last_workers: list[int] = []

    def again(self) -> None:
        """For a new recording no loader has been drawn from, and nothing told."""
        self.last = self.trains = None
        for entries in self._known.values():
            for entry in entries:
                entry.role, entry.backwards, entry.idle, entry.draws, entry.epochs = "", -1, 0, 0, 0

    def of(self, loader: Any) -> Loader:
        """The entry of a `DataLoader`."""
        found = self._by_id.get(id(loader))
        if found is not None and found[0]() is loader:
            return found[1]
        place, calls = self.made.get(id(loader), ((None, None, None), ()))
        entry = self._same(_facts(loader, place), calls, getattr(loader, "dataset", None))
        entry.made = weakref.ref(loader)
        self._by_id[id(loader)] = (entry.made, entry)
        return entry

    def _same(self, facts: dict[str, Any], calls: tuple[Any, ...], dataset: Any) -> Loader:
        """The entry of a loader that is made anew for every epoch: by the same calls, of the same data set, or
        of one whose former is gone.
        """
        known = self._known.setdefault((calls, *facts.values()), [])
        # One that was last made of this data set, or of one that is gone (`==` would run its code).
        again = known if facts["line"] is not None else []
        entry = next((one for one in again if (former := one.dataset()) is None or former is dataset), None)
        if entry is None:
            entry = Loader(self._count, facts)
            self._count += 1
            known.append(entry)
        try:
            entry.dataset = weakref.ref(dataset)
        except TypeError:  # a list
            entry.dataset = _gone
        return entry

    def origin(self, loader: Any, frame: Any) -> Place:
        """Where the user's code made a loader; of one that a framework makes in its place, where that was."""
        place = where(self._probe.places.user_frame(frame))
        dataset = getattr(loader, "dataset", None)
        known = self._datasets.get(id(dataset))
        former = known[0]() if known is not None else None
        if self._probe.places.is_user(frame.f_code):
            if len(self._datasets) < 256:
                self._datasets[id(dataset)] = weakref.ref(loader), place
        elif known is not None and former is not None and getattr(former, "dataset", None) is dataset:
            return known[1]
        return place

    def drawn(self, entry: Loader) -> None:
        """A batch is about to be drawn."""
        backwards = self._probe.steps.backwards
        if self.last is not None and self.last is not self.trains and backwards > self.last.backwards >= 0:
            self._role(self.last, "training")
        entry.idle = entry.idle + 1 if entry.backwards == backwards else 0
        entry.backwards = backwards
        self.last = entry
        if entry.role == "training":
            evaluation = self._probe.evaluation
            if entry.idle == 0 and (evaluation.streak or self._probe.clock.phase == EVALUATION):
                evaluation.finish()
            return
        if entry.role == "" and entry.idle and self.trains not in (None, entry):
            self._role(entry, "evaluation")
        if entry.role == "evaluation":
            self._probe.evaluation.begin(by_loader=True)

    def drawn_again(self, args: Any) -> bool:
        """The same of the loader that trains, after a backward pass; False: nothing was done, it is not as ever."""
        entry, backwards = self.trains, self._probe.steps.backwards
        if id(args[0]) != self.drawing or entry is None or entry is not self.last or entry.backwards == backwards:
            return False
        if self._probe.evaluation.streak:
            return False
        entry.idle = 0
        entry.backwards = backwards
        return True

    def began(self, entry: Loader, iterator: Any) -> None:
        """A loader is iterated: new workers of its are counted."""
        self.starting = None
        self.drawing = 0
        entry.epochs += 1
        self.iterating[iterator] = entry
        pids = [int(worker.pid) for worker in getattr(iterator, "_workers", ())]
        if pids and pids != self._last_workers:
            self._last_workers = pids
            self.started += len(pids)

    def trained(self) -> None:
        """The first step has ended: the loader that was drawn from last trains."""
        if self.last is not None:
            self._role(self.last, "training")

    def _role(self, entry: Loader, role: str) -> None:
        if role == "training":
            self.trains = entry
        if entry.role != role:
            entry.role = role
            self._tell(entry)

    def _tell(self, entry: Loader) -> None:
        self._probe.record("loader", {**entry.facts, "id": entry.number, "role": entry.role})


def _facts(loader: Any, place: Place) -> dict[str, Any]:
    dataset = getattr(loader, "dataset", None)
    return {
        "dataset": type(dataset).__name__,
        "workers": getattr(loader, "num_workers", 0),
        "pin_memory": bool(getattr(loader, "pin_memory", False)),
        "persistent": bool(getattr(loader, "persistent_workers", False)),
        "prefetch": getattr(loader, "prefetch_factor", None),
        "batch_size": _batch_size(loader),
        "iterable": getattr(loader, "_dataset_kind", 0) == 1,
        "order": _order(loader),
        "path": place[0],
        "line": place[1],
    }


def _order(loader: Any) -> str | None:
    """`sequential`, `random`; None where somebody else's sampler decides, or one draws twice."""
    sampler, batches = getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)
    if batches is not None and type(batches).__name__ != "BatchSampler":
        return None
    known = {"SequentialSampler": "sequential", "RandomSampler": "random", "SeedableRandomSampler": "random"}
    found = getattr(batches, "sampler", sampler)
    return None if vars(found).get("replacement") else known.get(type(found).__name__)


def _batch_size(loader: Any) -> int | None:
    """Its own, or its batch sampler's (frameworks make loaders so)."""
    for owner in (loader, getattr(loader, "batch_sampler", None)):
        if hasattr(type(owner), "__getattr__"):
            continue  # the program's code
        size = getattr(owner, "batch_size", None)
        if isinstance(size, int):
            return size
    return None


def _calls(frame: Any) -> tuple[Any, ...]:
    """The instructions of the innermost calls that led here."""
    calls: list[Any] = []
    while frame is not None and len(calls) < 3:
        calls.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(calls)


def _gone() -> None:
    """A reference to nothing, or to a data set that takes none."""


def install(probe: Probe) -> None:
    """Hook `DataLoader.__init__`, `DataLoader.__iter__` and the iterators' `__next__`."""
    module: Any = sys.modules["torch.utils.data.dataloader"]
    loaders = probe.loaders = Loaders(probe)
    _making(probe, loaders, module.DataLoader)
    _iterating(probe, loaders, module.DataLoader)
    _drawing(probe, loaders, module._BaseDataLoaderIter)


def _making(probe: Probe, loaders: Loaders, kind: Any) -> None:
    def make(args: Any, _kwargs: Any) -> Any:
        yield
        if len(loaders.made) < 1024:
            frame = sys._getframe(CALLER)
            loaders.made[id(args[0])] = loaders.origin(args[0], frame), _calls(frame)

    probe.guard.surround(HOOK, kind, "__init__", make)


def _iterating(probe: Probe, loaders: Loaders, kind: Any) -> None:
    clock, steps = probe.clock, probe.steps

    def iterate(args: Any, _kwargs: Any) -> Any:
        steps.loader_begins()
        entry = loaders.of(args[0])
        loaders.starting = entry.number
        before = -1 if OWNS[clock.phase] else clock.switch(DATA_WAIT)
        start = clock.mark
        result = yield
        if before >= 0:
            clock.switch(before)
            site = probe.sites.at("data_wait", "iter(DataLoader)", sys._getframe(CALLER))
            site.add(clock.mark - start, steps.index)
        if hasattr(result, "_sampler_iter"):
            if entry.role != "evaluation" and clock.phase != EVALUATION:
                clock.row[_STARTS] += 1.0
            loaders.began(entry, result)
            probe.sampler.go_on()

    probe.guard.surround(HOOK, kind, "__iter__", iterate)


def _drawing(probe: Probe, loaders: Loaders, kind: Any) -> None:
    clock, steps, guard = probe.clock, probe.steps, probe.guard
    measured = guard.reading(HOOK, Measure(probe).of)

    def begins(args: Any, _kwargs: Any) -> int | None:
        """A batch is about to be drawn: the phase to go back to, None where the wait belongs to another phase."""
        phase = clock.phase
        if OWNS[phase] and phase != EVALUATION:
            return None
        entry = loaders.iterating.get(args[0])
        if entry is not None:
            loaders.drawn(entry)
            loaders.drawing = id(args[0])
        if clock.phase == EVALUATION:
            return -1
        steps.draw_begins()
        return clock.switch(DATA_WAIT)

    def ended(before: int, batch: Any) -> None:
        if before < 0:
            if batch is not MISSING:
                probe.drawn(batch)
            return
        clock.switch(before)
        if batch is not MISSING:
            steps.batches = True
        after(batch)

    def after(batch: Any) -> None:
        if batch is not MISSING:
            clock.row[_BATCHES] += 1.0
            measured(batch)
        elif loaders.last is not None:
            loaders.last.backwards = -1

    guard.between(HOOK, kind, "__next__", begins, ended, Usual(DATA_WAIT, loaders.drawn_again, after))


class Measure:
    """Counts the rows and tokens of a batch. Only plain tensors are asked: a subclass may compute."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._numerics = probe.numerics
        self._plain = probe.torch.Tensor

    def of(self, batch: Any) -> None:
        """Add a batch to the row of the step."""
        plain, kind = self._plain, type(batch)
        first: Any = batch[0] if (kind is list or kind is tuple) and batch else None
        clock = self._clock
        if type(first) is plain and first.dim() > 1:
            row = clock.row
            before = row[_SAMPLES]
            row[_SAMPLES] = first.size(0) if before != before else before + first.size(0)
        else:
            self._measure(batch)
        if not clock.light:
            self._numerics.losses.drawn(batch)
            self._probe.drawn(batch)

    def _measure(self, batch: Any) -> None:
        plain = self._plain
        ids: Any = None
        mask: Any = None
        if isinstance(batch, Mapping):
            ids, mask = batch.get("input_ids"), batch.get("attention_mask")
        first: Any = ids if type(ids) is plain else self._first(batch, 4)
        if first is None or not first.dim():
            return
        self._add(_SAMPLES, self._rows(first, batch))
        if type(ids) is plain:
            self._add(_TOKENS, ids.numel())
            if type(mask) is plain and mask.device.type == "cpu":
                self._add(_PADDING, mask.numel() - int(mask.count_nonzero()))

    def _rows(self, first: Any, batch: Any) -> int:
        """Rows of a batch: the length of its first tensor. Where that is flat (texts end to end, beside where
        each begins and their labels) or in a list of its own (images of many sizes), what most parts agree on.
        """
        if first is batch:
            return int(first.size(0))
        parts = tuple(batch.values()) if isinstance(batch, Mapping) else batch
        if any(part is first for part in parts) and (first.dim() > 1 or len(parts) < 3):
            return int(first.size(0))
        lengths = [first.size(0)]
        for part in parts:
            if type(part) is self._plain and part.dim() and part is not first:
                lengths.append(part.size(0))
            elif isinstance(part, (list, tuple)):
                lengths.append(len(part))
        return int(max(lengths, key=lengths.count))

    def _add(self, column: int, amount: float) -> None:
        row = self._clock.row
        before = row[column]
        row[column] = amount if before != before else before + amount

    def _first(self, batch: Any, depth: int) -> Any:
        if type(batch) is self._plain:
            return batch
        if depth and isinstance(batch, (list, tuple, Mapping)):
            values = batch.values() if isinstance(batch, Mapping) else batch
            for value in values:
                return self._first(value, depth - 1)
        return None
