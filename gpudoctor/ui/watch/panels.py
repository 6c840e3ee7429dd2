"""Panels of the live view on the machine: header, verdict, host, GPUs; each draws a tick in a view."""

from collections import Counter
from collections.abc import Sequence

from rich.text import Text
from textual.events import Resize
from textual.widgets import Static

from gpudoctor.model import Severity
from gpudoctor.model.signs.process import GpuWindow, Rank, Series
from gpudoctor.model.watch import Tick
from gpudoctor.text import duration
from gpudoctor.ui.console.canvas import STYLES
from gpudoctor.ui.watch.marks import (
    View,
    bar,
    clip,
    gib,
    percent,
    plain,
    rate,
    shown_gpus,
    shown_ranks,
    spark,
    whole,
)

# The base of every panel: draws a tick in a view, and again when its size changes.


class Panel(Static):
    """A static text that a pure function makes. Subclasses give `draw`, and `heading` or a NAME."""

    NAME = ""
    """The title on the panel's edge; "" for none."""

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._tick: Tick | None = None
        self._view = View()
        self._drawn: Text | None = None

    def show(self, tick: Tick, view: View) -> None:
        """Show another tick, or the same one in another view."""
        self._tick, self._view = tick, view
        self._redraw()

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """The panel's text, at most `height` lines of `width` columns."""
        raise NotImplementedError

    def heading(self, tick: Tick, view: View) -> str:
        """The title on the panel's edge."""
        del tick, view
        return self.NAME

    def on_resize(self, event: Resize) -> None:
        """Draw again for the new size."""
        del event
        self._redraw()

    def _redraw(self) -> None:
        size = self.content_size
        if self._tick is None or size.width <= 0 or size.height <= 0:
            return
        title = self.heading(self._tick, self._view)
        if title and self.border_title != title:
            self.border_title = title
        text = self.draw(self._tick, self._view, size.width, size.height)
        if text != self._drawn:  # an unchanged panel costs nothing
            self._drawn = text
            self.update(text)


def lines_text(lines: list[str], height: int) -> Text:
    """At most `height` lines; the last one says how many more there were."""
    if len(lines) > height > 0:
        lines = [*lines[: height - 1], f"and {len(lines) - height + 1} more"]
    return Text("\n".join(lines), no_wrap=True, overflow="crop")


# The first line: what is watched, since when, on what.


class Header(Panel):
    """Title, pid, ranks, age, GPUs; and what the watch itself does."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """One line."""
        del height
        left = " · ".join(_facts(tick))
        right = _state(tick, view)
        room = width - len(right) - (2 if right else 0)
        left = clip(left, room)
        text = Text(left.ljust(width - len(right)), style="bold", no_wrap=True)
        return text.append(right, style="reverse bold" if right else "")


def _facts(tick: Tick) -> list[str]:
    window = tick.window
    first = window.ranks[0]
    parts = ["gpudoctor", plain(tick.report.subject.title)]
    if first.started:
        parts.append(duration(max(0.0, window.wall - first.started)))
    steps = [rank.steps for rank in window.ranks if rank.steps]
    if steps:
        parts.append(f"step {min(step.step for step in steps):,}")
        parts.append(f"{duration(max(step.seconds for step in steps))} a step")
    names = Counter(gpu.name for gpu in window.gpus)
    parts += [f"{count} x {plain(name)}" if count > 1 else plain(name) for name, count in names.items()]
    return parts


def _state(tick: Tick, view: View) -> str:
    words = []
    if tick.window.ended:
        words.append("ENDED")
    if view.replay:
        words.append("REPLAY")
    if view.paused:
        words.append("PAUSED")
    if view.recording:
        words.append("REC")
    return f" {' '.join(words)} " if words else ""


# The verdict: what the job waits for now, and what fails in the watch itself.


class VerdictLine(Panel):
    """One or two sentences, in the colour of the worst finding."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """The sentences, wrapped; the last line is cut where they do not fit."""
        style = next((STYLES[item.finding.severity] for item in tick.report.findings), "")
        worst = [item.finding.severity for item in tick.report.findings]
        if Severity.ERROR in worst:
            style = STYLES[Severity.ERROR]
        words = plain(tick.report.summary.verdict)
        if view.error:
            words = f"This tick failed: {plain(view.error)}. {words}"
        lines = _wrapped(words, width)
        if len(lines) > height:
            lines = lines[:height]
            lines[-1] = lines[-1][: width - 1] + "…"
        # A span, no style of the whole text: only spans follow the theme, and yellow on white is unreadable.
        return Text(no_wrap=True).append("\n".join(lines), style=style)


def _wrapped(words: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(words, max(10, width)) or [""]


# The machine beside the job.

_GAUGE = 10
_TREND_SECONDS = 45.0


class HostPanel(Panel):
    """CPUs, memory, disk, network; and the job's own share of them."""

    NAME = "host"

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """A line each."""
        host, ranks = tick.window.host, shown_ranks(tick.window, view)
        missing = [gap for gap in tick.window.gaps if gap.panel == "host"]
        gaps = [f"cannot be read: {plain(gap.reason)}" for gap in missing]
        own = sum(rank.tree_rss.last for rank in ranks if rank.tree_rss.values)
        # The busy cores are the machine's, so that they are compared with all of its cores, not with the job's.
        busy = host.cpu.last / host.machine_cpus if host.machine_cpus else float("nan")
        total = float(host.memory_total)
        every = f" of {host.machine_cpus:g}" if busy == busy else ""
        cores = f"{host.cpu.last:.1f}{every}" if host.cpu.values else "-"
        granted = f"  job may use {host.cpus:g}" if host.cpus < host.machine_cpus else ""
        level = host.memory.last / total if total else float("nan")
        read = sum(rank.read_rate for rank in ranks if rank.read_rate == rank.read_rate)
        lines = [
            f"cpu    {bar(busy, _GAUGE)} {cores} cores{granted}  io wait {percent(host.io_wait.last)}",
            f"memory {bar(level, _GAUGE)} {gib(host.memory.last)}/{gib(total)}G  job {gib(own)}G",
            f"job    {spark(_memory(ranks), _GAUGE, _top(ranks))} memory {trend(ranks)}",
            f"disk   read {rate(host.disk_read.last)}, write {rate(host.disk_write.last)}, "
            f"job reads {rate(read)}",
            f"net    in {rate(host.net_rx.last)}, out {rate(host.net_tx.last)}",
        ]
        files = [rank.open_files for rank in ranks if rank.open_files is not None]
        if files:
            lines.append(f"files  {max(files):,} open")
        return lines_text([clip(line, width) for line in [*gaps, *lines][:height]], height)


def _memory(ranks: Sequence[Rank]) -> list[float]:
    series = [rank.tree_rss.values for rank in ranks if rank.tree_rss.values]
    if not series:
        return []
    values = max((list(one) for one in series), key=len)
    step = max(1, len(values) // _GAUGE)
    return values[::step][-_GAUGE:]


def _top(ranks: Sequence[Rank]) -> float:
    return max(_memory(ranks), default=0.0)


def trend(ranks: Sequence[Rank]) -> str:
    """How the job's memory has moved since the watch began: `+12 MiB/min`; "" before a minute has passed."""
    found = [rank.tree_rss for rank in ranks if len(rank.tree_rss.t) > 1]
    seconds = max((series.t[-1] - series.t[len(series.t) // 4] for series in found), default=0.0)
    if seconds < _TREND_SECONDS:
        return "so far"
    # The first quarter is warm-up.
    grown = sum(series.values[-1] - series.values[len(series.values) // 4] for series in found)
    return f"{grown / seconds * 60 / (1 << 20):+.1f} MiB/min"


# The GPU panel: a line a GPU, or everything about one.

_REASONS = {0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "HW slowdown", 0x10: "sync boost",
            0x20: "SW thermal", 0x40: "HW thermal", 0x80: "power brake", 0x100: "display"}  # fmt: skip
_LABEL = 6


class Gpus(Panel):
    """Busy share, power, memory, temperature, clocks, reasons, PCIe and NVLink."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """A line a GPU where there are several and none is chosen."""
        gpus = shown_gpus(tick.window, view)
        if not gpus:
            return Text("\n".join(_absence(tick)), overflow="fold")
        place = 0 if len(gpus) == 1 else view.gpu
        chosen = gpus[place] if place is not None and place < len(gpus) else None
        lines = [gpu_line(gpu, width) for gpu in gpus] if chosen is None else gpu_lines(chosen, width)
        return lines_text(lines + _users(tick, width), height)

    def heading(self, tick: Tick, view: View) -> str:
        """`gpu`, or the chosen one's number."""
        gpus = shown_gpus(tick.window, view)
        if view.gpu is not None and view.gpu < len(gpus) and len(gpus) > 1:
            return f"gpu {gpus[view.gpu].index}"
        return "gpu" if len(gpus) != 1 else f"gpu {gpus[0].index}"


def _absence(tick: Tick) -> list[str]:
    gaps = [gap for gap in tick.window.gaps if gap.panel == "gpu"]
    lines = []
    for gap in gaps:
        lines.append(gap.reason)
        if gap.fix:
            lines.append(f"-> {gap.fix}")
    return lines or ["waiting for the driver"]


def gpu_line(gpu: GpuWindow, width: int) -> str:
    """`0 ▁▂▂▁▂ 31% 212W 40.1/80G 62°`: as much of it as fits."""
    if gpu.lost:
        return clip(f"{gpu.index} lost: {plain(gpu.lost)}", width)
    total = f"/{gib(gpu.memory_total)}" if gpu.memory_total else ""
    cells = [
        f"{percent(gpu.activity.last):>4}",
        f"{whole(gpu.power.last, 'W'):>5}",
        f"{gib(gpu.memory.last)}{total}G",
        whole(gpu.temperature.last, "°"),
        _held(gpu),
    ]
    text = " ".join(cell for cell in cells if cell)
    room = width - len(text) - 4
    history = spark(gpu.activity.values, min(24, room), 1.0) + " " if room >= 4 else ""
    return clip(f"{gpu.index:<2}{history}{text}", width)


def gpu_lines(gpu: GpuWindow, width: int) -> list[str]:
    """Everything about one GPU, the most telling first."""
    if gpu.lost:
        return [clip(f"lost: {plain(gpu.lost)}", width)]
    lines = [_row("busy", gpu.activity, percent(gpu.activity.last), 1.0, width)]
    total = float(gpu.memory_total or 0)
    words = f"{gib(gpu.memory.last)}" + (f"/{gib(total)}G" if total else "G")
    lines.append(_row("memory", gpu.memory, words, total, width))
    limit = gpu.power_limit or max(gpu.power.known(), default=0.0)
    cap = f"/{gpu.power_limit:.0f}W" if gpu.power_limit else "W"
    lines.append(_row("power", gpu.power, f"{whole(gpu.power.last)}{cap}", limit, width))
    top = gpu.clock_max or max(gpu.clock.known(), default=0.0)
    lines.append(_row("clock", gpu.clock, whole(gpu.clock.last, "MHz"), top, width))
    links = f"pcie {rate(gpu.pcie_rx.last)} in {rate(gpu.pcie_tx.last)} out"
    if gpu.nvlink_rx.known():
        links += f"  nvlink {rate(gpu.nvlink_rx.last)} in {rate(gpu.nvlink_tx.last)} out"
    lines.append(clip(f"heat   {whole(gpu.temperature.last, ' °C')}  {_held(gpu) or 'not throttled'}", width))
    lines.append(clip(links, width))
    return lines


def _row(label: str, series: Series, words: str, top: float, width: int) -> str:
    """Label, bar, history, number."""
    room = width - _LABEL - 1 - len(words) - 2
    gauge = min(12, room // 2)
    level = series.last / top if top > 0 else float("nan")
    history = spark(series.values, min(30, room - gauge - 1), top) if room - gauge > 4 else ""
    return clip(f"{label:<{_LABEL}} {bar(level, gauge)} {history} {words}", width)


def _held(gpu: GpuWindow) -> str:
    """Reasons that hold the clocks down, with their share of the window; idling is none."""
    named = [
        f"{_REASONS.get(bit, hex(bit))} {share:.0%}"
        for bit, share in sorted(gpu.reasons.items(), key=lambda item: -item[1])
        if bit not in (0x1, 0x100) and share >= 0.05
    ]
    return ", ".join(named[:2])


def _users(tick: Tick, width: int) -> list[str]:
    """Processes of others on the job's GPUs."""
    strangers = [
        (gpu.index, user)
        for gpu in tick.window.gpus
        for user in gpu.users
        if not user.ours and user.memory is not None
    ]
    used = {index for rank in tick.window.ranks for index in rank.gpus}
    return [
        clip(f"other on {index}: {plain(user.name) or 'pid'} {user.pid} {gib(user.memory or 0)}G", width)
        for index, user in strangers
        if index in used
    ]
