"""What single places of the user's script cost: sites that hooks saw, lines that the sampler saw."""

import posixpath
import re
from collections.abc import Iterable, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.steady_state import steady
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Process, Record, Recording


@frozen
class LinePlace:
    """A line of the user's."""

    path: str
    """As Python had it."""
    line: int
    function: str = ""


@frozen
class Site:
    """All calls of one thing from one place, over the whole run."""

    phase: str
    what: str
    """`wandb.log`, `Tensor.item`, `torch.save`..."""
    place: LinePlace
    calls: int
    seconds: float
    steps: int
    """Steps in which it was called."""
    tensor: bool
    """Whether it read a device tensor."""


@frozen
class LineCost:
    """What the sampler saw of one line."""

    phase: str
    """`other` where no hook claimed the time."""
    place: LinePlace
    samples: float
    """Looks of the sampler; one that a lock delayed stands for all of its time, so they have fractions."""
    share: float
    """Of all samples of these steps (0..1)."""


@once
def sites(process: Process) -> tuple[Site, ...]:
    """Places that hooks saw, dearest first; of a site written again the last counts."""
    last: dict[tuple[object, ...], Record] = {}
    for item in process.of("site"):
        key = tuple(item.get(name) for name in ("phase", "what", "path", "line", "function"))
        last[key] = item
    found = [_site(item) for item in last.values()]
    return tuple(sorted(found, key=lambda site: (-site.seconds, site.place.path, site.place.line, site.what)))


def _site(item: Record) -> Site:
    return Site(
        phase=str(item.get("phase") or "other"),
        what=str(item.get("what") or ""),
        place=_place(item.fields),
        calls=int(item.get("calls") or 0),
        seconds=float(item.get("seconds") or 0.0),
        steps=int(item.get("steps") or 0),
        tensor=bool(item.get("tensor")),
    )


def place_of(record: Record) -> LinePlace | None:
    """The place that a record names; None where it names none."""
    return _place(record.fields) if record.get("path") and record.get("line") else None


def _place(fields: Mapping[str, object]) -> LinePlace:
    line = fields.get("line")
    return LinePlace(
        path=str(fields.get("path") or ""),
        line=line if isinstance(line, int) else 0,
        function=str(fields.get("function") or ""),
    )


@once
def lines(process: Process) -> tuple[LineCost, ...]:
    """The user's lines that the sampler saw in steady state, most first.

    The sampler counts since its last record, so a record that straddles the end of warm-up counts whole. What
    came after the last step is left out: a program that ends frees its data, writes its results.
    """
    stable = steady(process)
    records = [item for item in process.of("lines") if item.t >= stable.begin]
    return _lines([item for item in records if not _after(item, stable.end)] if stable.rows else process.of("lines"))


def _after(record: Record, end: float) -> bool:
    """Whether a record holds what came after the last step that ended."""
    return bool(record.get("open")) and record.t > end


@frozen
class Start:
    """What the user's own lines did before the first step."""

    seconds: float
    """Of all their lines, imports left out."""
    lines: tuple[LineCost, ...]
    """Most first; `share` is of these seconds."""


@once
def start(process: Process) -> Start:
    """The user's lines before the first step, as the sampler saw them; those that import are left out."""
    ends = process.steps.column("t")
    spent: dict[tuple[str, str, int, str], float] = {}
    imports: dict[tuple[str, str, int, str], float] = {}
    for record in process.of("lines"):
        if len(ends) and record.t > ends[0] + _LATE:
            break
        interval, below = float(record.get("interval") or 0.0), _imports(record)
        for index, (phase, path, line, function, count) in enumerate(record.get("counts") or ()):
            if path is not None and phase == "other":
                key = (str(phase), str(path), int(line or 0), str(function or ""))
                spent[key] = spent.get(key, 0.0) + count * interval
                imports[key] = imports.get(key, 0.0) + below.get(index, 0.0) * interval
    spent = {key: seconds for key, seconds in spent.items() if imports[key] < _IMPORTS * seconds}
    total = sum(spent.values())
    return Start(seconds=total, lines=line_costs(spent if total > 0 else {}, total))


_LATE = 0.05
"""Seconds after the end of the first step by which the record of what came before it is written."""


_IMPORTS = 0.03
"""Share of a line's looks in the import system from which on it imports: two of its leaves are known."""


_IMPORTLIB = re.compile(r"<frozen importlib|(?:^|[/\\\\])importlib[/\\\\]")


def _imports(record: Record) -> dict[int, float]:
    """Position among a record's counts to its looks in the import system, or in a module's body."""
    below: dict[int, float] = {}
    for index, path, function, count in record.get("leaves") or ():
        if _IMPORTLIB.search(str(path)) or function == "<module>":
            below[index] = below.get(index, 0.0) + count
    return below


def _lines(records: Iterable[Record]) -> tuple[LineCost, ...]:
    counted: dict[tuple[str, str, int, str], float] = {}
    total = 0.0
    for record in records:
        seen, once_done, below = 0.0, 0.0, _imports(record)
        for index, (phase, path, line, function, count) in enumerate(record.get("counts") or ()):
            imports = min(count, below.get(index, 0.0))
            if imports >= _IMPORTS * count:  # done once, whatever line it stands on: no cost of every step
                once_done += imports
                count -= imports
            seen += count
            if path is not None:
                key = (str(phase), str(path), int(line or 0), str(function or ""))
                counted[key] = counted.get(key, 0.0) + count
        total += max(seen, float(record.get("samples") or 0.0) - once_done)
    return line_costs({key: count for key, count in counted.items() if count > 0}, total)


def line_costs(counted: Mapping[tuple[str, str, int, str], float], total: float) -> tuple[LineCost, ...]:
    """Samples by phase, path, line and function as costs, most first; `total` is the samples of all lines."""
    found = [
        LineCost(
            phase=phase, place=LinePlace(path=path, line=line, function=function), samples=count, share=count / total
        )
        for (phase, path, line, function), count in counted.items()
    ]
    return tuple(sorted(found, key=lambda item: (-item.samples, item.place.path, item.place.line)))


@once
def worker_lines(recording: Recording, rank: int) -> tuple[LineCost, ...]:
    """The user's lines in the loader workers of a rank, most first."""
    return _lines(item for worker in recording.workers if worker.rank == rank for item in worker.of("lines"))


def by_line(costs: Iterable[LineCost], *phases: str) -> list[LineCost]:
    """Costs of the same line in several phases added up, most first; of these phases only, if any are named."""
    merged: dict[tuple[str, int], LineCost] = {}
    for item in costs:
        if phases and item.phase not in phases:
            continue
        key = (item.place.path, item.place.line)
        known = merged.get(key)
        merged[key] = item if known is None else LineCost(
            phase=known.phase, place=known.place, samples=known.samples + item.samples,
            share=known.share + item.share,
        )  # fmt: skip
    return sorted(merged.values(), key=lambda item: -item.samples)


def relative(recording: Recording, path: str) -> str:
    """A path as the user knows it."""
    folder = recording.cwd.rstrip("/")
    if folder and path.startswith(folder + "/"):
        return posixpath.normpath(path[len(folder) + 1 :])
    return path
