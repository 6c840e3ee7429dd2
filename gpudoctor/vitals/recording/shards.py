"""Gradients that are spread over ranks (FSDP2): each rank reads the norm of its own part only."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace

from gpudoctor.model.signs.recording import Process, Table

_NORM = "grad_norm"


def whole_norms(ranks: Sequence[Process]) -> tuple[Process, ...]:
    """The ranks with the norm of the whole gradient, in the steps in which every rank has read its part.

    The parts of one group of shards make up the gradient, and all groups have the same one (HSDP): the squares
    of all ranks' norms add up to the whole's, once for each group.
    """
    told = set().union(*map(_shards, ranks))
    if not told or max(told) < 2:
        return tuple(ranks)
    # Of several models, some of them spread, nobody knows which one a reading is of.
    shards = max(told) if len(told) == 1 else len(ranks) + 1
    groups = max(1.0, len(ranks) / shards)
    parts = [_norms(process) for process in ranks]
    joint = set.intersection(*map(set, parts)) if len(ranks) >= shards else set()
    whole = {step: math.sqrt(sum(part[step] ** 2 for part in parts) / groups) for step in joint}
    return tuple(_with(process, whole) for process in ranks)


def _shards(process: Process) -> set[int]:
    return {int(item.get("shards") or 1) for item in process.of("numeric") if item.get("kind") == "norms"}


def _norms(process: Process) -> dict[int, float]:
    """The rank's readings by step."""
    steps = zip(process.steps.column("index"), process.steps.column(_NORM), strict=False)
    return {int(index): value for index, value in steps if math.isfinite(value)}


def _with(process: Process, whole: dict[int, float]) -> Process:
    columns = dict(process.steps.columns)
    if _NORM in columns:
        indices = process.steps.column("index")
        columns[_NORM] = array("f", (whole.get(int(index), math.nan) for index in indices))
    return replace(process, steps=Table(columns=columns))
