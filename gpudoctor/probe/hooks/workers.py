"""Loader workers: what they fetch, how long it takes, how long they wait; and their lines, by the sampler."""

from __future__ import annotations

import sys
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..importlib_bootstrap import Enter, Leave
    from ..probe import Probe

HOOK = "workers"
_FIRST = 4
"""Records before they thin out."""
FILES = 128
"""Workers of one process after which new ones (of every epoch, it may be thousands) have no file."""
EVERY = (1.0, 5.0, 60.0)
"""Seconds between records: at first, later, and after an hour."""


class LoaderWorker:
    """Counts of one worker."""

    def __init__(self, probe: Probe, loader: int | None, number: int) -> None:
        self._probe = probe
        self.loader = loader
        self.number = number
        self.ident = threading.get_ident()
        self.phase = ""
        """`fetch`, empty while it waits."""
        self.items = 0
        self.batches = 0
        self.busy = 0.0
        """Seconds in which it fetched items and put them together."""
        self._records = 0
        self._begun = self._written = perf_counter()

    def write(self, everything: bool = False) -> None:
        """An `items` record, when it is time."""
        now = perf_counter()
        every = EVERY[0] if self._records < _FIRST else EVERY[1 if self._records < 720 else 2]
        if not everything and now - self._written < every:
            return
        self._records += 1
        self._written = now
        fields = {
            "loader": self.loader,
            "worker": self.number,
            "items": self.items,
            "batches": self.batches,
            "busy": round(self.busy, 6),
            "waiting": round(max(0.0, now - self._begun - self.busy), 6),
        }
        self._probe.record("items", fields)


def install(probe: Probe) -> None:
    """Hook the function that a worker runs."""
    guard = probe.guard
    begin = guard.safely(HOOK, lambda arguments: _begin(probe, arguments))
    end = guard.safely(HOOK, lambda: probe.worker.write(everything=True) if probe.worker is not None else None)

    def enter(args: Any, _kwargs: Any) -> Any:
        begin(args)
        return True

    def leave(_token: Any, _result: Any) -> None:
        end()

    guard.install(HOOK, sys.modules["torch.utils.data._utils.worker"], "_worker_loop", enter, leave)


def _begin(probe: Probe, arguments: tuple[Any, ...]) -> None:
    loaders = probe.loaders
    loader = loaders.starting if loaders is not None else None
    number = arguments[10] if len(arguments) > 10 else 0
    worker = LoaderWorker(probe, loader, number)
    fetching: Any = sys.modules["torch.utils.data._utils.fetch"]
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        probe.guard.install(HOOK, getattr(fetching, name), "fetch", *_fetching(worker))
    few = loaders is None or loaders.started < FILES
    probe.become_worker(worker, {"loader": loader, "worker": number} if few else None)


def _fetching(worker: LoaderWorker) -> tuple[Enter, Leave]:
    def enter(args: Any, _kwargs: Any) -> Any:
        worker.phase = "fetch"
        return perf_counter(), args[1] if len(args) > 1 else ()

    def leave(token: Any, _result: Any) -> None:
        start, index = token
        worker.phase = ""
        worker.busy += perf_counter() - start
        worker.batches += 1
        worker.items += len(index) if isinstance(index, (list, tuple)) else 1

    return enter, leave
