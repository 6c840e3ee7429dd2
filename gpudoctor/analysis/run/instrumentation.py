"""Profilers, counters of FLOPs and debug modes in a run: the steps and the lines that they cover."""

import re
from collections.abc import Iterable
from statistics import median

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LineCost, LinePlace, line_costs, place_of
from gpudoctor.analysis.run.steady_state import Steady, counts, steady
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Process

_LONGER = 1.1
"""Times as long as the others from which on steps with it are called longer."""


@frozen
class Coverage:
    """Steps of a steady state during which something was on."""

    what: str
    share: float
    """Of the steady steps (0..1)."""
    slower: float | None
    """Median step with it over the median step without, the phase `profiler` left out; None where one of
    the two is missing."""
    place: LinePlace | None
    """Where it was switched on."""

    @property
    def cost(self) -> float | None:
        """Share of the time (0..1) by which it makes steps longer; None where that is not known."""
        if self.slower is None:
            return None
        longer = max(0.0, self.slower - 1) * self.share
        return longer / (1 + longer)

    @property
    def much_slower(self) -> bool:
        """Whether the steps with it are called longer than the others."""
        return self.slower is not None and self.slower >= _LONGER


def coverage(state: Steady, pattern: str) -> Coverage | None:
    """What the windows of a name cover; None where nothing of that name was on in steady state.

    A window without an end lasted to the end of the run.
    """
    wanted = re.compile(pattern)
    windows = state.process.of("window")  # each as it was written down last: one that lasts is written again and again
    last_of = {(item.get("what"), item.get("path"), item.get("line"), item.get("begin")): item for item in windows}
    found = [item for item in last_of.values() if wanted.search(str(item.get("what") or ""))]
    if not found or not state.rows:
        return None
    indices = [int(value) for value in state.values("index")]
    last = indices[-1]
    ends = [last if item.get("end") is None else int(item.get("end")) for item in found]
    spans = [(int(item.get("begin") or 0), end) for item, end in zip(found, ends, strict=True)]
    inside = _covered(indices, spans)
    if not any(inside):
        return None
    weights = counts(state.process)
    steps = [weights[row] for row in state.rows]
    on = sum(step for step, covered in zip(steps, inside, strict=True) if covered)
    return Coverage(
        what=str(found[-1].get("what")),
        share=on / sum(steps),
        slower=_ratio(state, inside, steps),
        place=place_of(found[-1]),
    )


def _covered(indices: Iterable[int], spans: Iterable[tuple[int, int]]) -> list[bool]:
    """By step: whether it lies in one of the spans, both ends included."""
    ordered = sorted(spans)
    inside: list[bool] = []
    position, reach = 0, -1
    for index in indices:
        while position < len(ordered) and ordered[position][0] <= index:
            reach = max(reach, ordered[position][1])
            position += 1
        inside.append(index <= reach)
    return inside


def _ratio(state: Steady, inside: list[bool], steps: list[float]) -> float | None:
    own = state.values("profiler") or [0.0] * len(steps)
    each = [(seconds - mine) / step for seconds, mine, step in zip(state.values("duration"), own, steps, strict=True)]
    on = [value for value, covered in zip(each, inside, strict=True) if covered]
    off = [value for value, covered in zip(each, inside, strict=True) if not covered]
    if len(on) < 5 or len(off) < 5 or not median(off):
        return None
    return median(on) / median(off)


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
    found: dict[tuple[str, str, int, str], float] = {}
    total = 0.0
    for record in process.of("lines"):
        if stable.rows and record.t < stable.begin:
            continue
        counts = record.get("counts") or ()
        total += max(sum(row[4] for row in counts), float(record.get("samples") or 0.0))
        for index, path, _, samples in record.get("leaves") or ():
            phase, *place = counts[index][:4]
            if place[0] is None or phase == _OWN or not _COUNTS.search(str(path).replace("\\", "/")):
                continue
            key = (str(phase), str(place[0]), int(place[1] or 0), str(place[2] or ""))
            found[key] = found.get(key, 0.0) + samples
    return line_costs(found, total)
