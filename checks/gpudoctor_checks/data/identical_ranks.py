"""Ranks that train on the same batches: their losses are equal, bit for bit, step by step.

Ranks of a data-parallel job hold the same weights. Where they see different samples, their losses differ in the
first digits; where they are all equal, so are the samples.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.model.signs.recording import Process, Recording

_VARIED = 0.5
"""Of the losses, the part that has to be different from each other: a loss that stands still tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdenticalRanks:
    """Ranks with the same losses."""

    ranks: int
    steps: int
    """Steps whose losses were compared, all of them equal on all ranks."""


@once
def twins(recording: Recording) -> IdenticalRanks | None:
    """All ranks that made steps, where no loss of theirs differs; None for one rank, or where one does."""
    losses = [found for process in recording.ranks if (found := _losses(process))]
    if len(losses) < 2:
        return None
    common = set.intersection(*(set(one) for one in losses))
    lead = losses[0]
    if any(one[step] != lead[step] for one in losses[1:] for step in common):
        return None
    if len({lead[step] for step in common}) < _VARIED * len(common):
        return None
    return IdenticalRanks(ranks=len(losses), steps=len(common))


def _losses(process: Process) -> Mapping[int, float]:
    """Step to loss, where a row is one step and the loss is finite."""
    rows = zip(process.steps.column("index"), process.steps.column("count"), process.steps.column("loss"), strict=False)
    return {int(step): loss for step, count, loss in rows if count == 1 and math.isfinite(loss)}
