"""What the page shows of a run: its steps, charts, numbers, and where it is from."""

import base64
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpudoctor.lang import tr, word
from gpudoctor.model import Report
from gpudoctor.model.run import LineShare, RunSeries, RunSummary
from gpudoctor.report.excerpts import excerpt_of
from gpudoctor.report.html.axes import RunAxis
from gpudoctor.report.html.charts import DrawnSeries, Figure, LineOptions, histogram, line_chart, stack_chart
from gpudoctor.report.palette import CURVES, PHASES
from gpudoctor.text import count, duration, size

_LEAST = 0.01
"""A phase with a smaller share on average has no band; it counts as `other`."""
_CURVES = 8
_FLAT = 0.02
"""A quantity that moves by less than this share of itself has no chart: its number is below."""
_NEAR = 5.0
"""A limit up to so many times the highest value is drawn in its chart."""


def steps_figure(run: RunSummary, axis: RunAxis | None) -> Figure:
    """Time per step over the run, stacked by phase."""
    title = tr("Every step, by phase")
    named = {series.name: series for series in run.series}
    bands = _bands(run, named)
    return title, stack_chart(title, bands, axis) if axis else "", True, ""


def _bands(run: RunSummary, named: dict[str, RunSeries]) -> list[DrawnSeries]:
    """Seconds of each phase that is worth a band, in the palette's order; the others go to `other`."""
    lead = named.get("step_seconds")
    if lead is None:
        return []
    found = {name: named[f"phase.{name}"] for name in PHASES if f"phase.{name}" in named}
    return [
        replace(
            band,
            series=replace(
                band.series,
                unit="s",
                values=tuple(share * step for share, step in zip(band.series.values, lead.values, strict=True)),
            ),
        )
        for band in _worth(found, run)
    ]


def _worth(found: dict[str, RunSeries], run: RunSummary) -> list[DrawnSeries]:
    """Shares by phase; those too small to be seen are part of `other`."""
    means = {name: math.fsum(series.values) / max(1, len(series.values)) for name, series in found.items()}
    small = [name for name in found if run.phases.get(name, 0.0) < _LEAST and means[name] < _LEAST]
    bands = []
    for name, series in found.items():
        if name == "other":
            parts = [series.values, *(found[each].values for each in small if each != "other")]
            series = replace(series, values=tuple(map(math.fsum, zip(*parts, strict=True))))
        elif name in small:
            continue
        bands.append(DrawnSeries(label=phase(name), series=series, style=phase_class(name)))
    return bands


def phase_class(name: str) -> str:
    """The style of a phase."""
    return f"p-{name.replace('_', '-').replace(' ', '-')}"


def phase(name: str) -> str:
    """A phase in the reader's language: `data wait`."""
    return word(name.replace("_", " "))


def run_figures(run: RunSummary, axis: RunAxis | None) -> list[Figure]:
    """Drawings of what moves over the run."""
    if axis is None:
        return []
    named = {series.name: series for series in run.series}
    drawn: list[Figure] = []
    if run.step_times is not None and run.step_seconds is not None:
        marks = [(run.step_seconds.median, tr("median {time}", time=duration(run.step_seconds.median)))]
        marks += [(run.step_seconds.p90, tr("90 % below {time}", time=duration(run.step_seconds.p90)))]
        beyond = tr("{steps} took longer", steps=count(run.step_times.beyond, "step")) if run.step_times.beyond else ""
        head = tr("Step times")
        drawn.append((head, histogram(head, run.step_times, marks), False, beyond))
    for title, wanted, options in _wanted(run, named):
        found = [(label, named[name]) for name, label in wanted if name in named]
        if all(_is_flat(series) for _, series in found):
            continue
        curves = [
            DrawnSeries(label=label, series=series, style=f"c{place % len(CURVES)}")
            for place, (label, series) in enumerate(found[:_CURVES])
        ]
        more = tr("and {more} more", more=len(found) - _CURVES) if len(found) > _CURVES else ""
        drawn.append((title, line_chart(title, curves, axis, options), False, more))
    return drawn


def _wanted(run: RunSummary, named: dict[str, RunSeries]) -> Iterator[tuple[str, list[tuple[str, str]], LineOptions]]:
    """Title, series with their labels, and how to draw them."""
    bad = run.bad_step
    yield (tr("Loss"), [("loss", tr("loss"))], LineOptions(unit_title=tr("loss"), from_zero=False, bad_step=bad))
    norm, rate = tr("norm"), tr("learning rate")
    yield tr("Gradient norm"), [("grad_norm", norm)], LineOptions(unit_title=norm, bad_step=bad)
    yield tr("Learning rate"), [("lr", rate)], LineOptions(unit_title=rate)
    ranks = [
        (name, tr("rank {rank}", rank=name.rpartition("rank")[2]))
        for name in named
        if name.startswith("step_seconds.rank")
    ]
    if ranks:
        first = ("step_seconds", tr("rank {rank}", rank=0))
        yield tr("Step time by rank"), [first, *ranks], LineOptions(unit_title=tr("time per step"))
    torch = [("device_peak", tr("peak")), ("device_allocated", tr("allocated")), ("device_reserved", tr("reserved"))]
    amount, speed = tr("bytes"), tr("bytes per second")
    level = _limit(named, torch, run.memory.device)
    yield tr("GPU memory, by torch"), torch, LineOptions(unit_title=amount, limit=level)
    cards = sorted({int(name[3 : name.index("_")]) for name in named if name.startswith("gpu")})
    for key, title, axis in (
        ("util", tr("GPU utilisation"), tr("share of time with a kernel")),
        ("sm", tr("SM activity"), tr("share of SMs busy")),
        ("memory", tr("GPU memory, by the driver"), amount), ("power", tr("GPU power"), tr("watts")),
    ):  # fmt: skip
        wanted = [(f"gpu{card}_{key}", f"GPU {card}") for card in cards]
        total = next((gpu.memory_total for gpu in run.gpus if gpu.memory_total), None) if key == "memory" else None
        yield title, wanted, LineOptions(unit_title=axis, limit=_limit(named, wanted, total))
    machine, command = tr("machine"), tr("the command")
    cores = [("cpu", machine), ("tree_cpu", command)]
    yield tr("Busy CPU cores"), cores, LineOptions(unit_title=tr("cores"))
    memory = [("memory", machine), ("tree_rss", command), ("rss", tr("rank {rank}", rank=0))]
    level = _limit(named, memory, run.memory.machine_limit)
    yield tr("Host memory"), memory, LineOptions(unit_title=amount, limit=level)
    yield tr("Disk"), [("disk_read", tr("read")), ("disk_write", tr("written"))], LineOptions(unit_title=speed)


def _limit(
    named: dict[str, RunSeries], wanted: Sequence[tuple[str, str]], limit: float | None
) -> tuple[float, str] | None:
    """The limit as a line, unless it would squeeze the curves to the ground."""
    most = max((_most(named[name]) for name, _ in wanted if name in named), default=0.0)
    if not limit or limit > _NEAR * most:
        return None
    return float(limit), tr("limit {limit}", limit=size(limit))


def _most(series: RunSeries) -> float:
    """The highest known value of a series; 0 without one."""
    return max((value for value in series.values if math.isfinite(value)), default=0.0)


def _is_flat(series: RunSeries) -> bool:
    """Whether a series moves so little that its number says it all."""
    known = [value for value in series.values if math.isfinite(value)]
    return not known or max(known) - min(known) <= _FLAT * max(abs(max(known)), abs(min(known)))


def picture(pixels: bytes, width: int) -> str:
    """An image of three bytes a pixel as the address of a PNG."""
    rows = b"".join(b"\0" + pixels[at : at + 3 * width] for at in range(0, len(pixels), 3 * width))
    size = width.to_bytes(4, "big") + (len(pixels) // (3 * width)).to_bytes(4, "big")
    chunks = ((b"IHDR", size + bytes((8, 2, 0, 0, 0))), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    body = b"".join(
        len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big") for name, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def code_of(report: Report, line: LineShare) -> str:
    """A costly line as it is written, or the name of its function."""
    found = excerpt_of(report.excerpts, line.path, line.line)
    return found.lines[line.line - found.first].strip() if found else line.function


def run_origin(report: Report, run: RunSummary) -> Iterator[tuple[str, str]]:
    """When, where and of what: what somebody asks who finds the file a year later."""
    if run.started:
        yield tr("started"), run.started.replace("T", " ")
    if host := report.subject.host or run.node:
        yield tr("host"), host
    names = [gpu.name for gpu in run.gpus if gpu.name]
    if names:
        yield tr("GPU models"), ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    if run.versions:
        yield tr("versions"), ", ".join(f"{name} {value}" for name, value in run.versions.items())
    if run.commit:
        yield tr("commit"), run.commit
    if run.command:
        yield tr("command"), " ".join(run.command)
