"""Batches: what the training thread waits for at `DataLoader`, and how large what it gets is."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..clock import DATA_WAIT, EVALUATION, OWNS
from ..models import maker
from ..places import Place
from ..table import AT, OTHER
from .batches import Measure

if TYPE_CHECKING:
    from ..clock import Clock
    from ..probe import Probe
    from ..steps import Steps

HOOK = "loader"
_BATCHES, _SAMPLES, _TOKENS, _PADDING = (AT[name] for name in ("batches", "samples", "tokens", "padding"))
_LABEL = "_gpudoctor_loader"
"""Attribute of an iterator (torch's private class, never pickled) that leads to its loader."""


class Loader:
    """A loader that was iterated."""

    def __init__(self, number: int, facts: dict[str, Any]) -> None:
        self.number = number
        self.facts = facts
        self.role = ""
        self.draws = 0
        self.backwards = -1
        """Backward passes of the run when it was last drawn from."""
        self.idle = 0
        """Draws in a row that no backward pass followed."""


class Loaders:
    """Knows the loaders, and which of them trains."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._by_id: dict[int, tuple[Any, Loader]] = {}
        self.made: dict[int, Place] = {}
        self._datasets: dict[int, tuple[Any, Place]] = {}
        """Loaders that the user's code made, by their data set's id."""
        self._known: dict[tuple[Any, ...], Loader] = {}
        self.last: Loader | None = None
        self.trains: Loader | None = None
        self.starting: int | None = None
        """Number of the loader whose workers are being started; they inherit it."""
        self.started = 0
        """Workers that were started so far."""
        self._last_workers: list[int] = []
        self._before: tuple[Any, ...] = ([],)

    def of(self, loader: Any) -> Loader:
        """The entry of a `DataLoader`."""
        found = self._by_id.get(id(loader))
        if found is not None and found[0]() is loader:
            return found[1]
        facts = _facts(loader, self.made.get(id(loader), (None, None, None)))
        # A loader that is made anew for every epoch is one loader.
        key = tuple(facts.values())
        entry = self._known.get(key) if facts["line"] is not None else None
        if entry is None:
            entry = self._known[key] = Loader(len(self._known), facts)
        self._by_id[id(loader)] = (weakref.ref(loader), entry)
        return entry

    def origin(self, loader: Any, frame: Any) -> Place:
        """Where the user's code made a loader; of one that a framework makes in its place, where that was."""
        place = maker(self._probe, frame)
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
        if entry is self.trains and entry is self.last and entry.backwards != backwards:
            entry.backwards = backwards  # as ever
            entry.draws += 1
            entry.idle = 0
            if self._probe.clock.phase == EVALUATION:
                self._probe.evaluation.finish()
            return
        if self.last is not None and backwards > self.last.backwards >= 0:
            self._role(self.last, "training")
        entry.idle = entry.idle + 1 if entry.backwards == backwards else 0
        entry.backwards = backwards
        entry.draws += 1
        self.last = entry
        if entry.role == "training":
            if entry.idle == 0:
                self._probe.evaluation.finish()
            return
        if entry.role == "" and entry.idle and self.trains not in (None, entry):
            self._role(entry, "evaluation")
        if entry.role == "evaluation":
            self._probe.evaluation.begin(by_loader=True)

    def goes_on(self) -> bool:
        """Whether a draw from the loader that trains is as ever, after a backward pass; if so, note it."""
        entry, backwards = self.last, self._probe.steps.backwards
        if entry is None or entry.backwards == backwards:
            return False
        entry.backwards = backwards
        entry.draws += 1
        return True

    def began(self, entry: Loader, iterator: Any) -> None:
        """A loader is iterated: new workers of its are told."""
        self.starting = None
        pids = [int(worker.pid) for worker in getattr(iterator, "_workers", ())]
        if pids and pids != self._last_workers:
            self._last_workers = pids
            self.started += len(pids)
            self._probe.record("worker", {"loader": entry.number, "pids": pids})

    def claimed(self, row: list[float]) -> None:
        """A batch is about to be counted for the step in the making."""
        self._before = row, row[_BATCHES], row[_SAMPLES], row[_TOKENS], row[_PADDING]

    def disclaim(self) -> None:
        """The batch that was drawn last is an evaluation's after all."""
        row, *before = self._before
        if row is self._probe.clock.row and self.last is not None and self.last.role != "training":
            row[_BATCHES], row[_SAMPLES], row[_TOKENS], row[_PADDING] = before
        self._before = ([],)

    def exhausted(self) -> None:
        """The last draw gave no batch."""
        if self.last is not None:
            self.last.draws -= 1
            self.last.backwards = -1

    def trained(self) -> None:
        """The first step has ended: the loader that was drawn from last trains."""
        if self.last is not None:
            self._role(self.last, "training")

    def _role(self, entry: Loader, role: str) -> None:
        if role == "training":
            self.trains = entry
        if entry.role != role:
            entry.role = role
            self._probe.record("loader", {**entry.facts, "id": entry.number, "role": role})


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
        "path": place[0],
        "line": place[1],
        "batches": _length(loader),
    }


def _batch_size(loader: Any) -> int | None:
    """Its own, or its batch sampler's (frameworks make loaders so)."""
    for owner in (loader, getattr(loader, "batch_sampler", None)):
        size = getattr(owner, "batch_size", None)
        if isinstance(size, int):
            return size
    return None


def _length(loader: Any) -> int | None:
    """Batches an epoch; an iterable set's `len` is not asked for (torch remembers that, and warns by it)."""
    if getattr(loader, "_dataset_kind", 1) == 1:
        return None
    try:
        return len(loader)
    except Exception:
        return None


def install(probe: Probe) -> None:
    """Replace `DataLoader.__init__`, `DataLoader.__iter__` and the iterators' `__next__`."""
    module: Any = sys.modules["torch.utils.data.dataloader"]
    loaders = probe.loaders = Loaders(probe)
    guard = probe.guard
    loader, iterator = module.DataLoader, module._BaseDataLoaderIter
    guard.replace(HOOK, loader, "__init__", lambda original: _making(probe, loaders, original))
    guard.replace(HOOK, loader, "__iter__", lambda original: _iterating(probe, loaders, original))
    guard.replace(HOOK, iterator, "__next__", lambda original: _drawing(probe, loaders, original))


def _making(probe: Probe, loaders: Loaders, original: Any) -> Any:
    def begin(args: Any, _kwargs: Any) -> Any:
        return args[0]

    def end(loader: Any, _result: Any, _failed: bool) -> None:
        if len(loaders.made) < 1024:
            loaders.made[id(loader)] = loaders.origin(loader, sys._getframe(2))

    return probe.guard.around(HOOK, original, begin, end)


def _iterating(probe: Probe, loaders: Loaders, original: Any) -> Any:
    clock, steps, pace = probe.clock, probe.steps, probe.pace

    def begin(args: Any, _kwargs: Any) -> Any:
        pace.leave()
        steps.loader_begins()
        entry = loaders.of(args[0])
        loaders.starting = entry.number
        phase = clock.phase
        return entry, (-1 if OWNS[phase] else clock.switch(DATA_WAIT)), clock.mark

    def end(token: Any, result: Any, failed: bool) -> None:
        entry, phase, start = token
        if phase >= 0:
            clock.switch(phase)
            site = probe.sites.at("data_wait", "iter(DataLoader)", sys._getframe(2))
            site.add(clock.mark - start, steps.index)
        if not failed and hasattr(result, "_sampler_iter"):
            setattr(result, _LABEL, entry)
            loaders.began(entry, result)

    return probe.guard.around(HOOK, original, begin, end)


def _drawing(probe: Probe, loaders: Loaders, original: Any) -> Any:
    """`__next__`, written out: it runs in every step."""
    clock, steps, guard, pace = probe.clock, probe.steps, probe.guard, probe.pace
    measure = Measure(probe)
    light = _light(clock, loaders, measure, original)

    def failed_untimed(raised: BaseException, start: float) -> None:
        clock.waited += perf_counter() - start
        pace.leave(drawn=False)
        if not isinstance(raised, StopIteration):
            clock.fell(raised, DATA_WAIT)
        loaders.exhausted()

    compiling, ident = guard.compiling, threading.get_ident
    begin = guard.faulty(HOOK, lambda iterator: _begin(clock, steps, loaders, iterator))
    works = [True]

    def lose(error: BaseException) -> None:
        works[0] = False
        guard.lose(HOOK, error)

    def __next__(self: Any) -> Any:
        if clock.blind and id(self) == clock.source and clock.phase == OTHER:
            start = perf_counter()
            try:
                batch = original(self)
            except BaseException as raised:
                failed_untimed(raised, start)
                raise
            clock.waited += perf_counter() - start
            return batch
        if not works[0] or ident() != clock.ident or compiling():
            return original(self)
        if clock.light:
            if not clock.blind and id(self) == clock.source and clock.phase == OTHER and loaders.goes_on():
                return light(self)
            pace.leave()
        try:
            phase = begin(self)
        except Exception as error:
            lose(error)
            return original(self)
        if phase < 0:
            return original(self)
        try:
            batch = original(self)
        except BaseException as raised:
            if not isinstance(raised, StopIteration):
                clock.passed(raised)
            clock.switch(phase)
            loaders.exhausted()
            raise
        clock.switch(phase)
        try:
            loaders.claimed(clock.row)
            steps.batches += 1
            clock.row[_BATCHES] += 1.0
            measure.of(batch)
        except Exception as error:
            lose(error)
        return batch

    functools.update_wrapper(__next__, original)
    return __next__


def _light(clock: Clock, loaders: Loaders, measure: Measure, original: Any) -> Any:
    """The draw of a light step: written out, for it is the training's time."""
    as_ever = measure.as_ever

    def draw(iterator: Any) -> Any:
        now = perf_counter()
        clock.row[OTHER] += now - clock.mark
        clock.mark = now
        clock.phase = DATA_WAIT
        try:
            batch = original(iterator)
        except BaseException as raised:
            if not isinstance(raised, StopIteration):
                clock.passed(raised)
            clock.switch(OTHER)
            loaders.exhausted()
            raise
        now = perf_counter()
        row = clock.row
        row[DATA_WAIT] += now - clock.mark
        clock.mark = now
        clock.phase = OTHER
        row[_BATCHES] += 1.0
        as_ever(batch, row)
        return batch

    return draw


def _begin(clock: Clock, steps: Steps, loaders: Loaders, iterator: Any) -> int:
    """A batch is about to be drawn: the phase to go back to, -1 where the wait belongs to another phase."""
    phase = clock.phase
    if OWNS[phase] and phase != EVALUATION:
        return -1
    entry = getattr(iterator, _LABEL, None)
    if entry is not None:
        loaders.drawn(entry)
        phase = clock.phase
    if phase == EVALUATION:
        return -1
    clock.source = id(iterator) if entry is not None and entry is loaders.trains else 0
    steps.draw_begins()
    return clock.switch(DATA_WAIT)
