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
_SMALL = 1 << 14
"""Elements of a matrix that is summed."""
_DEPTH = 8
"""Objects around a sampler that are looked into."""
_TEXT = 1 << 16
"""Characters of a row that are hashed."""
_REPLICAS = ("num_replicas", "num_processes", "num_shards", "world_size")
"""By torch, Accelerate, `datasets` and others: how many parts there are."""
_PLACE = ("rank", "process_index", "shard_index", "index")
"""Which one of them is a rank's own."""
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
            with self:
                self._split()
                if not index & (index - 1):
                    self._sum({"step": index, "of": world, "grouped": started, **self._ddp})

    def _split(self) -> None:
        """How the training loader's data is split."""
        entry: Any = self._probe.loaders.trains if self._probe.loaders is not None else None
        loader = entry.made() if entry is not None else None
        if loader is None:
            return
        rows = None
        if getattr(loader, "_dataset_kind", 1) == 0:  # a table of rows, not an iterable
            rows = loader.dataset
        fields = {
            "size": length(rows),
            "each": length(loader) if rows is not None else None,
            "splits": _splits(loader),
            "batch": entry.facts["batch_size"],
            "first": _first(rows),
        }
        self.write("split", fields)

    def _sum(self, fields: dict[str, Any]) -> None:
        """Sums of a parameter and its gradient, and of their absolute values, for the ranks to compare."""
        if self._chosen is None:
            self._chosen = self._choose()
        name, reference = self._chosen
        torch = self._probe.torch
        parameter = reference()
        gradient: Any = parameter.grad if parameter is not None else None
        if type(gradient) is torch.Tensor and gradient.layout is torch.strided:
            sums = []
            for values in (parameter.detach(), gradient.detach()):
                sums.append(values.sum(dtype=torch.float64))
                sums.append(values.abs().sum(dtype=torch.float64))
            fields.update(name=name, size=parameter.numel())
            record = self._probe.record
            self._probe.numerics.read_all(torch.stack(sums), lambda read: record("ranks", {**fields, "sums": read}))

    def _choose(self) -> tuple[str, Any]:
        """The last small matrix that each rank has whole: nothing that is sharded."""
        plain = self._probe.torch.Tensor
        models = self._probe.models
        modules = models.trained()[:1]
        if not modules or wrapper(modules[0]) == "FSDP" or "deepspeed" in sys.modules:
            return "", lambda: None
        held = set().union(*map(held_by, models.optimizers()))
        own = parameters(unwrapped(modules[0]))
        for name, item in reversed(own.items()):
            if id(item) not in held or not type(item.data) is type(item.grad) is plain:
                continue
            if item.dim() > 1 and item.numel() <= _SMALL:
                return name, weakref.ref(item)
        return "", lambda: None


def _splits(loader: Any) -> list[list[Any]]:
    """`[class, parts]` of what leaves a rank a part of the data: what holds a number of parts and its own place."""
    found = []
    around = [loader]
    # It grows meanwhile.
    for owner in around:
        held = getattr(owner, "__dict__", None) or {}
        parts = next((held[name] for name in _REPLICAS if type(held.get(name)) is int), 0)
        has_place = any(type(held.get(name)) is int for name in _PLACE)
        if parts > 1 and has_place and owner is not loader:
            found.append([class_name(owner), parts])
        inside = [held[name] for name in _INSIDE if held.get(name) is not None]
        if len(around) < _DEPTH:
            around += [item for item in inside if all(item is not known for known in around)]
    return found


def _first(rows: Any) -> int | None:
    """A hash of the first row of a table of `datasets`, which gives it without any code of the program's."""
    table: Any = getattr(rows, "_data", None)
    if not type(rows).__module__.startswith("datasets.") or not hasattr(table, "slice") or not len(rows):
        return None
    place = 0 if rows._indices is None else rows._indices.column(0)[0].as_py()
    row = table.slice(place, 1).to_pydict()
    return zlib.crc32(repr(row)[:_TEXT].encode())


def install(probe: Probe) -> None:
    """After watched steps, and where DDP is made."""
    ranks = probe.training[HOOK] = Ranks(probe)
    probe.when_imported(
        "torch.nn.parallel.distributed",
        lambda module: probe.guard.surround(HOOK, module.DistributedDataParallel, "__init__", ranks.wraps),
    )
    probe.steps.after.append(probe.guard.reading(HOOK, ranks.ended))
