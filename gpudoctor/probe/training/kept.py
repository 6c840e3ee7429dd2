"""What stays beside the weights: the predictions of an evaluation, and files that grow from save to save."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from ..wire.masking import mask_cut
from . import Look

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "kept"
_SAVES, _LONGEST = 32, 64
"""Saves whose sizes are kept: the first ones; characters of a file's name."""


class Kept(Look):
    """Bytes by line of the program."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self.predictions = probe.guard.reading(HOOK, self._predictions)
        self.size = probe.guard.reading(HOOK, self._size)

    def again(self) -> None:
        """For a new recording nothing has been kept."""
        super().again()
        self._most = 0
        self._saves: list[list[Any]] = []

    def _predictions(self, given: Any) -> None:
        """What transformers has put together for `compute_metrics`."""
        held, labels = given.get("predictions"), given.get("label_ids")
        held = [each for each in (held if type(held) is tuple else (held,)) if hasattr(each, "nbytes")]
        size = sum(int(each.nbytes) for each in held)
        if size > self._most and hasattr(labels, "size"):
            self._most = size
            shape = " x ".join(map(str, held[0].shape))
            growth = [self._row(shape, held[0].size // max(1, labels.size), size)]
            self.write("memory", {"kind": "predictions", "growth": growth})

    def _size(self, path: Any) -> None:
        """`torch.save` has written a file."""
        if isinstance(path, (str, os.PathLike)) and len(self._saves) < _SAVES:
            name = re.sub(r"\d+", "#", os.path.basename(os.fspath(path)))
            self._saves.append(self._row(mask_cut(name, _LONGEST), self._probe.steps.index, os.stat(path).st_size))
            if not len(self._saves) & (len(self._saves) - 1):
                self.tell()

    def _row(self, *facts: Any) -> list[Any]:
        return [*facts, *self.place().values()]

    def tell(self) -> None:
        """Write what is known by now."""
        if self._saves:
            self.write("memory", {"kind": "saves", "growth": self._saves})


def install(probe: Probe) -> None:
    """Look at evaluations and saves."""
    kept = probe.training[HOOK] = Kept(probe)

    def evaluated(_args: Any, kwargs: Any) -> Any:
        kept.predictions(kwargs)
        yield

    def saved(args: Any, kwargs: Any) -> Any:
        yield
        kept.size(kwargs.get("f", args[1] if len(args) > 1 else None))

    probe.guard.surround(HOOK, probe.torch, "save", saved)
    hear = "transformers.trainer_utils"
    probe.when_imported(hear, lambda module: probe.guard.surround(HOOK, module.EvalPrediction, "__init__", evaluated))
