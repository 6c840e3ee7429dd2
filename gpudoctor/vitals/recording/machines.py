"""The machines of several nodes as one table: GPUs are numbered through, at the moments of the first node."""

import math
import re
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from gpudoctor.model.signs.recording import Beside, Table

_GPU = re.compile(r"gpu([0-9]{1,9})_(\w+)")
STALE = 150.0
"""Seconds after which a sample says nothing of a moment: they thin out to one in two minutes in a long run."""


def joined(nodes: Sequence[Beside], starts: Sequence[float | None]) -> tuple[Table, Mapping[str, Any]]:
    """Table and facts of the first node, with the GPUs of the others behind its own.

    `starts` are epoch seconds of the nodes' clocks; where one is not known, both began together.
    Each of `facts["gpus"]` of several nodes has its `node`, and its `index` as the driver there counts it.
    """
    first = nodes[0]
    if len(nodes) == 1:
        return first.machine, first.facts
    columns = dict(first.machine.columns)
    gpus = _gpus(first)
    for node, start in zip(nodes[1:], starts[1:], strict=True):
        late = start - starts[0] if start is not None and starts[0] is not None else 0.0
        rows = _rows(first.machine, node.machine, late)
        for name, values in node.machine.columns.items():
            if match := _GPU.fullmatch(name):
                at = len(gpus) + int(match[1])
                columns[f"gpu{at}_{match[2]}"] = array(
                    "d", [values[row] if row >= 0 else math.nan for row in rows]
                )
        gpus += _gpus(node)
    return Table(columns=columns), {**first.facts, "gpus": gpus}


def _gpus(node: Beside) -> list[dict[str, Any]]:
    """The GPUs of a node, at least as many as were sampled."""
    listed = node.facts.get("gpus")
    known = [item if isinstance(item, dict) else {} for item in listed] if isinstance(listed, list) else []
    sampled = [int(match[1]) + 1 for name in node.machine.columns if (match := _GPU.fullmatch(name))]
    known += [{}] * (max(sampled, default=0) - len(known))
    return [{**item, "node": node.node, "index": item.get("index", index)} for index, item in enumerate(known)]


def _rows(first: Table, other: Table, late: float) -> list[int]:
    """For each sample of the first node the last of the other up to then; -1 where it has none near."""
    times = other.column("t")
    rows = []
    for moment in first.column("t"):
        row = bisect_right(times, moment - late) - 1
        rows.append(row if row >= 0 and moment - late - times[row] <= STALE else -1)
    return rows
