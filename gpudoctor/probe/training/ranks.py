"""What the ranks have in common: how their data is split, and sums of the same parameter and its gradient at each.

Each rank looks after its steps 1, 2, 4, 8 and so on. The first ones are watched on all of them.
"""

from __future__ import annotations

import sys
import weakref
import zlib
from typing import TYPE_CHECKING, Any

from ..models import class_name, held_by, parameters, unwrapped, wrapper
from . import Look, length

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "ranks"
_SMALL, _DEPTH = 1 << 14, 8
"""Elements of a matrix that is summed; objects around a sampler that are looked into."""
_REPLICAS = ("num_replicas", "num_processes", "num_shards", "world_size")
_PLACE = ("rank", "process_index", "shard_index", "index")
_INSIDE = ("batch_sampler", "sampler", "dataset", "_distributed", "data_source")


class Ranks(Look):
    """Sums up for the other ranks to compare with."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._ddp: dict[str, Any] = {}

    def again(self) -> None:
        """For a new recording nothing was looked at."""
        super().again()
        self._chosen: tuple[str, Any] | None = None

    def wraps(self, _args: Any, _kwargs: Any) -> None:
        """DDP is put around a model."""
        self._ddp = {"ddp": True, **self.place()}

    def ended(self) -> None:
        """A watched step has ended: gradients are still there."""
        if not self.ripe():
            return
        index = self._probe.steps.index
        distributed = self._probe.torch.distributed
        started = distributed.is_available() and distributed.is_initialized()
        world = distributed.get_world_size() if started else self._probe.identity.world or 1
        if world > 1:
            with self.charged():
                self._split()
                if not index & (index - 1):
                    self._sum({"step": index, "of": world, "grouped": started, **self._ddp})

    def _split(self) -> None:
        """How the training loader's data is split."""
        entry: Any = self._probe.loaders.trains if self._probe.loaders is not None else None
        loader = entry.made() if entry is not None else None
        if loader is not None:
            rows = loader.dataset if getattr(loader, "_dataset_kind", 1) == 0 else None
            fields: dict[str, Any] = {"size": length(rows), "each": length(loader) if rows is not None else None}
            fields |= {"splits": _splits(loader), "batch": entry.facts["batch_size"], "first": _first(rows)}
            self.write("split", fields)

    def _sum(self, fields: dict[str, Any]) -> None:
        name, reference = self._chosen = self._chosen or self._choose()
        parameter, torch = reference(), self._probe.torch
        gradient: Any = parameter.grad if parameter is not None else None
        if type(gradient) is torch.Tensor and gradient.layout is torch.strided:
            both = [values.detach() for values in (parameter, gradient)]
            sums = [part.sum(dtype=torch.float64) for values in both for part in (values, values.abs())]
            fields.update(name=name, size=parameter.numel())
            record = self._probe.record
            self._probe.numerics.read_all(torch.stack(sums), lambda read: record("ranks", {**fields, "sums": read}))

    def _choose(self) -> tuple[str, Any]:
        """The last small matrix that each rank has whole: nothing that is sharded."""
        plain, models = self._probe.torch.Tensor, self._probe.models
        modules = models.trained()[:1]
        if not modules or wrapper(modules[0]) == "FSDP" or "deepspeed" in sys.modules:
            return "", lambda: None
        held = set().union(*map(held_by, models.optimizers()))
        fit = (
            (name, weakref.ref(item))
            for name, item in reversed(parameters(unwrapped(modules[0])).items())
            if id(item) in held
            and type(item.data) is type(item.grad) is plain
            and item.dim() > 1
            and item.numel() <= _SMALL
        )
        return next(fit, ("", lambda: None))


def _splits(loader: Any) -> list[list[Any]]:
    """`[class, parts]` of what leaves a rank a part of the data: what holds a number of parts and its own place."""
    found, around = [], [loader]
    for owner in around:
        held = getattr(owner, "__dict__", None) or {}
        parts = next((held[name] for name in _REPLICAS if type(held.get(name)) is int), 0)
        if parts > 1 and owner is not loader and any(type(held.get(name)) is int for name in _PLACE):
            found.append([class_name(owner), parts])
        inside = (held[name] for name in _INSIDE if held.get(name) is not None)
        around += [item for item in inside if len(around) < _DEPTH and all(item is not known for known in around)]
    return found


def _first(rows: Any) -> int | None:
    """A hash of the first row of a table of `datasets`, which gives it without any code of the program's."""
    table: Any = getattr(rows, "_data", None)
    if not type(rows).__module__.startswith("datasets.") or not hasattr(table, "slice") or not len(rows):
        return None
    place = 0 if rows._indices is None else rows._indices.column(0)[0].as_py()
    return zlib.crc32(repr(table.slice(place, 1).to_pydict())[: 1 << 16].encode())


def install(probe: Probe) -> None:
    """After watched steps, and where DDP is made."""
    ranks = probe.training[HOOK] = Ranks(probe)
    probe.when_imported(
        "torch.nn.parallel.distributed",
        lambda module: probe.guard.surround(HOOK, module.DistributedDataParallel, "__init__", ranks.wraps),
    )
    probe.steps.after.append(probe.guard.reading(HOOK, ranks.ended))
