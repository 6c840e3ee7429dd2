"""What measures a training from inside its operations: a FLOPs counter's dispatch mode, a profiler's hooks."""

import re
from collections.abc import Iterable

from gpudoctor.model.reading.once import once
from gpudoctor.model.reading.recordings.costs import LineCost, line_costs
from gpudoctor.model.reading.recordings.steady import steady
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
    stable = steady(process)
    records = [item for item in process.of("lines") if item.t >= stable.begin]
    return _measuring(records if stable.rows else process.of("lines"))


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
