"""The GPU panel: a line a GPU, or everything about one."""

from rich.text import Text

from gpudoctor.model.signs.process import GpuWindow, Series
from gpudoctor.model.watch import Tick
from gpudoctor.ui.watch.marks import bar, clip, gib, percent, plain, rate, spark, whole
from gpudoctor.ui.watch.panel import Panel, lines_text
from gpudoctor.ui.watch.view import View, shown_gpus

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
