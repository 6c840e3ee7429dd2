"""What ran below the user's lines: a counter's dispatch mode, a profiler's hooks, a library's function."""

import re
from collections.abc import Iterable

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LineCost, line_costs
from gpudoctor.analysis.run.steady_state import steady
from gpudoctor.model.signs.recording import Process, Record

_COUNTS = re.compile(
    r"torch/(utils/flop_counter\.py|profiler/)|fvcore/nn/|deepspeed/profiling/|"
    r"/(ptflops|thop|calflops|torchprofile|line_profiler|viztracer|debugpy|coverage)/|/pydevd"
)
"""Files of their functions, as the sampler names what ran below a user's line."""
_OWN = "profiler"
"""The phase that hooks charge to a profiler already."""


@once
def instrumented(process: Process) -> tuple[LineCost, ...]:
    """The user's lines whose work a profiler or counter does in steady state, most first.

    `share` is of all samples (0..1). The time that hooks charged to the phase `profiler` is not in it.
    """
    return _measuring(_records(process))


def share_below(process: Process, function: str) -> float:
    """Share of the sampler's looks in steady state that fell into a function of a library's, by its name."""
    inside = total = 0.0
    for record in _records(process):
        counts = record.get("counts") or ()
        total += max(sum(row[4] for row in counts), float(record.get("samples") or 0.0))
        inside += sum(samples for _, _, name, samples in record.get("leaves") or () if name == function)
    return inside / total if total else 0.0


def _records(process: Process) -> list[Record]:
    """What was sampled in steady state; everything where there is none."""
    stable = steady(process)
    return [item for item in process.of("lines") if not stable.rows or item.t >= stable.begin]


def _measuring(records: Iterable[Record]) -> tuple[LineCost, ...]:
    found: dict[tuple[str, str, int, str], float] = {}
    total = 0.0
    for record in records:
        counts = record.get("counts") or ()
        total += max(sum(row[4] for row in counts), float(record.get("samples") or 0.0))
        for index, path, _, samples in record.get("leaves") or ():
            phase, *place = counts[index][:4]
            if place[0] is None or phase == _OWN or not _COUNTS.search(str(path).replace("\\", "/")):
                continue
            key = (str(phase), str(place[0]), int(place[1] or 0), str(place[2] or ""))
            found[key] = found.get(key, 0.0) + samples
    return line_costs(found, total)
