"""What the page shows of a run: its steps, charts, memory, numbers, and where it is from."""

import base64
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpudoctor.lang import tr, word
from gpudoctor.model import Report
from gpudoctor.model.run import LineShare, RunSeries, RunSummary
from gpudoctor.report.excerpts import excerpt_of
from gpudoctor.report.html.axes import RunAxis, formatter
from gpudoctor.report.html.charts import (
    DrawnSeries,
    Figure,
    LineOptions,
    histogram,
    lane_chart,
    line_chart,
    stack_chart,
)
from gpudoctor.report.palette import CURVES, PHASES
from gpudoctor.report.run_words import listed
from gpudoctor.text import count, duration, size

_LEAST = 0.01
"""A phase with a smaller share on average has no band; it counts as `other`."""
_CURVES = 8
_FLAT = 0.02
"""A quantity that moves by less than this share of itself is a number, not a chart."""
_NEAR = 5.0
"""A limit up to so many times the highest value is drawn in its chart."""


def steps_figure(run: RunSummary, axis: RunAxis | None) -> Figure:
    """Time per step over the run, stacked by phase."""
    title = tr("Every step, by phase")
    named = {series.name: series for series in run.series}
    bands = _bands(run, named)
    note = ""
    if run.start_seconds is not None and run.warm_up_seconds:
        begun, warm = duration(run.start_seconds), duration(run.warm_up_seconds)
        note = tr(
            "{start_seconds} to the end of the first step, then {warm_up_seconds} of warm-up",
            start_seconds=begun,
            warm_up_seconds=warm,
        )
    return title, stack_chart(title, bands, axis) if axis else "", True, note


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


def run_figures(run: RunSummary, axis: RunAxis | None) -> tuple[list[Figure], list[str]]:
    """Drawings, and what is too flat for one in words."""
    if axis is None:
        return [], []
    named = {series.name: series for series in run.series}
    drawn, flat = [_lanes(run, named, axis)], []
    if run.step_times is not None and run.step_seconds is not None:
        marks = [(run.step_seconds.median, tr("median {time}", time=duration(run.step_seconds.median)))]
        marks += [(run.step_seconds.p90, tr("90 % below {time}", time=duration(run.step_seconds.p90)))]
        beyond = tr("{steps} took longer", steps=count(run.step_times.beyond, "step")) if run.step_times.beyond else ""
        head = tr("Step times")
        drawn.append((head, histogram(head, [("", run.step_times, "c0")], marks), False, beyond))
    for title, wanted, options in _wanted(run, named):
        found = [(label, named[name]) for name, label in wanted if name in named]
        moving = [(label, series) for label, series in found if not _is_flat(series)]
        if not moving:
            if found:
                flat.append(_flat_words(title, found))
            continue
        curves = [
            DrawnSeries(label=label, series=series, style=f"c{place % len(CURVES)}")
            for place, (label, series) in enumerate(found[:_CURVES])
        ]
        more = tr("and {more} more", more=len(found) - _CURVES) if len(found) > _CURVES else ""
        drawn.append((title, line_chart(title, curves, axis, options), False, more))
    return [item for item in drawn if any(item[1])], flat


def _wanted(run: RunSummary, named: dict[str, RunSeries]) -> Iterator[tuple[str, list[tuple[str, str]], LineOptions]]:
    """Title, series with their labels, and how to draw them."""
    bad = run.bad_step
    yield (
        tr("Loss"),
        [("loss", tr("loss"))],
        LineOptions(unit_title=tr("loss"), from_zero=False, log=True, bad_step=bad),
    )
    norm, rate = tr("norm"), tr("learning rate")
    yield tr("Gradient norm"), [("grad_norm", norm)], LineOptions(unit_title=norm, log=True, bad_step=bad)
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
        ("temperature", tr("GPU temperature"), tr("degrees Celsius")),
        ("pcie_rx", tr("PCIe, towards the GPU"), speed), ("pcie_tx", tr("PCIe, from the GPU"), speed),
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
    rates = LineOptions(unit_title=speed)
    yield tr("Disk"), [("disk_read", tr("read")), ("disk_write", tr("written"))], rates
    yield tr("Network"), [("net_rx", tr("received")), ("net_tx", tr("sent"))], rates


def _limit(
    named: dict[str, RunSeries], wanted: Sequence[tuple[str, str]], limit: float | None
) -> tuple[float, str] | None:
    """The limit as a line, unless it would squeeze the curves to the ground."""
    most = max((_most(named[name]) for name, _ in wanted if name in named), default=0.0)
    if not limit or limit > _NEAR * most:
        return None
    return float(limit), tr("limit {limit}", limit=size(limit))


def _most(series: RunSeries) -> float:
    return max((value for value in series.values if math.isfinite(value)), default=0.0)


def _is_flat(series: RunSeries) -> bool:
    known = [value for value in series.values if math.isfinite(value)]
    return not known or max(known) - min(known) <= _FLAT * max(abs(max(known)), abs(min(known)))


def _flat_words(title: str, found: Sequence[tuple[str, RunSeries]]) -> str:
    """`GPU memory, by torch: allocated 1 GiB, reserved 3 GiB`."""
    told = [("" if label.lower() in title.lower() else f"{label} ", series) for label, series in found]
    values = [f"{label}{formatter(series.unit)(_most(series))}" for label, series in told]
    return tr("{title}: {parts}", title=title, parts=listed(dict.fromkeys(values)))


def _lanes(run: RunSummary, named: dict[str, RunSeries], axis: RunAxis) -> Figure:
    """A lane a rank and a lane a GPU, one below the other: who waits while who works."""
    numbers = sorted(
        {int(name.rpartition("rank")[2]) for name in named if name.startswith("phase.") and ".rank" in name}
    )
    lanes: list[tuple[str, list[DrawnSeries]]] = []
    for rank in numbers:
        ending = f".rank{rank}"
        found = {name: named[f"phase.{name}{ending}"] for name in PHASES if f"phase.{name}{ending}" in named}
        lanes.append((tr("rank {rank}", rank=rank), _worth(found, run)))
    for card in sorted({int(name[3 : name.index("_")]) for name in named if name.startswith("gpu")}):
        series = named.get(f"gpu{card}_sm") or named.get(f"gpu{card}_util")
        if series is not None:
            what = tr("SMs busy") if f"gpu{card}_sm" in named else tr("utilisation")
            lanes.append((f"GPU {card}", [DrawnSeries(label=what, series=series, style="c0")]))
    title, said = tr("Ranks side by side"), tr("phases of each rank, as above")
    if len(lanes) > len(numbers):
        title, busy = tr("GPUs side by side"), tr("GPU lanes: the share that is busy")
        if numbers:
            title = tr("Ranks and GPUs side by side")
        said = listed([said, busy], "; ") if numbers else busy
    return title, lane_chart(title, lanes, axis), True, said


def memory_budgets(run: RunSummary) -> Iterator[tuple[str, float, list[tuple[str, float, str]]]]:
    """What fills each card, on the CPU the host: label, limit, amounts with their styles; the last is what is free."""
    memory = run.memory
    for index, gpu in enumerate(run.gpus):
        limit = gpu.memory_total or memory.device
        if limit and gpu.memory is not None:
            held = [(tr("allocated by torch"), float(memory.allocated or 0), "c0")] if len(run.gpus) == 1 else []
            if held and memory.reserved:
                held.append((tr("cached by torch"), max(0.0, memory.reserved - held[0][1]), "c5"))
            known = sum(amount for _, amount, _ in held)
            rest = max(0.0, gpu.memory - known)
            left = tr("the rest: context, libraries, other processes") if known else tr("used")
            held.append((left, rest, "c3"))
            yield (f"GPU {index}, {gpu.name}", float(limit), [*held, (tr("free"), max(0.0, limit - known - rest), "")])
    if not run.gpus and memory.device and memory.allocated:
        reserved = max(float(memory.reserved or 0), float(memory.allocated))
        parts = [
            (tr("allocated by torch"), float(memory.allocated), "c0"),
            (tr("cached by torch"), reserved - memory.allocated, "c5"),
        ]
        yield (
            tr("GPU of the fullest rank"),
            float(memory.device),
            [*parts, (tr("free"), max(0.0, memory.device - reserved), "")],
        )
    if memory.machine_limit and memory.tree_rss:
        command = min(float(memory.tree_rss), float(memory.machine_limit))
        others = max(0.0, float(memory.machine or 0) - command)
        parts = [(tr("all processes of the command"), command, "c0"), (tr("others"), others, "c7")]
        free = max(0.0, memory.machine_limit - command - others)
        yield tr("host"), float(memory.machine_limit), [*parts, (tr("free"), free, "")]


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
