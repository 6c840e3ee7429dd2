"""Panels of the live view on the machine: header, verdict, host, GPUs; each draws a tick in a view."""

from collections import Counter
from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.events import Resize
from textual.widgets import Static

from gpudoctor.lang import tr, word
from gpudoctor.lang.wrapping import cells, padded, wrap
from gpudoctor.model import Severity
from gpudoctor.model.signs.process import GpuWindow, Series
from gpudoctor.model.watch import Tick
from gpudoctor.report.palette import CURVES, SEVERITIES
from gpudoctor.report.run_words import rate_text
from gpudoctor.text import duration
from gpudoctor.ui.console.canvas import clipped
from gpudoctor.ui.watch.marks import View, bar, gib, percent, plain, rate, shown_gpus, shown_ranks, spark, tint, whole

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

    def wanted(self, tick: Tick, view: View) -> int:
        """Lines that it has something for; 0 hides it."""
        del tick, view
        return 1

    def heading(self, tick: Tick, view: View) -> str:
        """The title on the panel's edge."""
        del tick, view
        return word(self.NAME)

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
            self.border_title = clipped(title, size.width - 4)
        text = self.draw(self._tick, self._view, size.width, size.height)
        if text != self._drawn:  # an unchanged panel costs nothing
            self._drawn = text
            self.update(text)


def lines_text(lines: Sequence[str | Text], height: int) -> Text:
    """At most `height` lines; the last one says how many more there were."""
    shown = [line if isinstance(line, Text) else Text(line) for line in lines]
    if len(shown) > height > 0:
        shown = [*shown[: height - 1], Text(tr("and {shown} more", shown=len(shown) - height + 1), style="dim")]
    text = Text("\n", no_wrap=True, overflow="crop").join(shown)
    text.no_wrap, text.overflow = True, "crop"
    return text


def coloured(words: str, colour: str | None) -> Text:
    """Words in a colour; as they are without one."""
    return Text(words, Style(color=colour) if colour else "")


def severity_style(severity: Severity, view: View) -> Style:
    """The colour of a severity; bold alone without colours: the word says it."""
    return Style(color=tint(SEVERITIES[severity.value], view), bold=True)


# The first line: what is watched, since when, on what.


class Header(Panel):
    """Title, pid, ranks, age, GPUs; and what the watch itself does."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """One line."""
        del height
        left = " · ".join(_facts(tick))
        right = _state(tick, view)
        room = width - cells(right) - (2 if right else 0)
        left = clipped(left, room)
        text = Text(padded(left, width - cells(right)), style="bold", no_wrap=True)
        return text.append(right, style="reverse bold" if right else "")


def _facts(tick: Tick) -> list[str]:
    window = tick.window
    first = window.ranks[0]
    parts = ["gpudoctor", plain(tick.report.subject.title)]
    if first.started:
        parts.append(duration(max(0.0, window.wall - first.started)))
    steps = [rank.steps for rank in window.ranks if rank.steps]
    if steps:
        slowest = max(step.seconds for step in steps)
        parts.append(tr("step {steps:,}", steps=min(step.step for step in steps)))
        parts.append(tr("{slowest} a step", slowest=duration(slowest)))
        parts += [tr("{rate} steps/s", rate=rate_text(1 / slowest))] if slowest > 0 else []
        loss = next((step.loss for step in steps if step.loss == step.loss), None)
        parts += [tr("loss {loss:.4g}", loss=loss)] if loss is not None else []
    names = Counter(gpu.name for gpu in window.gpus)
    parts += [f"{count} x {plain(name)}" if count > 1 else plain(name) for name, count in names.items()]
    blind = [gap.reason for gap in window.gaps if gap.panel == "gpu" and not gap.fix]
    return parts + [tr("no GPU seen: {plain}", plain=plain(reason)) for reason in blind[:1]]


def _state(tick: Tick, view: View) -> str:
    words = []
    if tick.window.ended:
        words.append(word("ENDED"))
    if view.paused:
        words.append(word("PAUSED"))
    return f" {' '.join(words)} " if words else ""


# The verdict: what the job waits for now, and what fails in the watch itself.


class VerdictLine(Panel):
    """One or two sentences, after the worst severity in a word and its colour."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """The sentences, wrapped; the last line is cut where they do not fit."""
        found = [item.finding.severity for item in tick.report.findings]
        worst = max(found, key=lambda severity: severity.rank, default=None)
        chip = f" {word(worst.value)} " if worst is not None and worst is not Severity.NOTE else ""
        words = plain(tick.report.summary.verdict)
        if view.error:
            words = tr("This tick failed: {plain}. {words}", plain=plain(view.error), words=words)
        lines = wrap(f"{'x' * cells(chip)}{' ' if chip else ''}{words}", max(10, width))
        if len(lines) > height:
            lines = lines[:height]
            lines[-1] = clipped(lines[-1] + " …", width)
        text = Text(no_wrap=True)
        if chip and worst is not None:
            text.append(chip, severity_style(worst, view) + Style(reverse=True))
            lines[0] = lines[0][cells(chip) :]
        return text.append("\n".join(lines), "bold")


# The machine beside the job.

_GAUGE = 10


class HostPanel(Panel):
    """CPUs, memory, disk; and the job's own share of them."""

    NAME = "host"

    def wanted(self, tick: Tick, view: View) -> int:
        """Three lines, or those that fit."""
        del tick, view
        return 3

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """A line each."""
        host, ranks = tick.window.host, shown_ranks(tick.window, view)
        missing = [gap for gap in tick.window.gaps if gap.panel == "host"]
        gaps = [tr("cannot be read: {plain}", plain=plain(gap.reason)) for gap in missing]
        own = sum(rank.tree_rss.last for rank in ranks if rank.tree_rss.values)
        # The busy cores are the machine's, so that they are compared with all of its cores, not with the job's.
        busy = host.cpu.last / host.machine_cpus if host.machine_cpus else float("nan")
        total = float(host.memory_total)
        every = tr(" of {machine_cpus:g}", machine_cpus=host.machine_cpus) if busy == busy else ""
        cores = f"{host.cpu.last:.1f}{every}" if host.cpu.values else "-"
        granted = tr("  job may use {cpus:g}", cpus=host.cpus) if host.cpus < host.machine_cpus else ""
        level = host.memory.last / total if total else float("nan")
        read = sum(rank.read_rate for rank in ranks if rank.read_rate == rank.read_rate)
        wait, used = percent(host.io_wait.last), gib(host.memory.last)
        busy_words = tr("{cores} cores{granted}  io wait {last}", cores=cores, granted=granted, last=wait)
        memory_words = tr("{used}/{total}G  job {own}G", used=used, total=gib(total), own=gib(own))
        disk = {"read": rate(host.disk_read.last), "written": rate(host.disk_write.last), "job_reads": rate(read)}
        shown = [
            *map(Text, gaps),
            _host_row("cpu", bar(busy, _GAUGE), tint(CURVES[0], view), busy_words),
            _host_row("memory", bar(level, _GAUGE), tint(CURVES[3], view), memory_words),
            Text(tr("disk   read {read}, write {written}, job reads {job_reads}", **disk)),
        ][:height]
        for line in shown:
            line.truncate(width, overflow="ellipsis")
        return lines_text(shown, height)


def _host_row(label: str, marks: str, colour: str | None, words: str) -> Text:
    return Text.assemble(padded(word(label), 6) + " ", coloured(marks, colour), f" {words}")


# The GPU panel: a line a GPU, or everything about one.

_LABEL = 6
_COLOURS = {"util": 0, "SM": 0, "memory": 3, "power": 4, "heat": 1}
"""Rows of a GPU and their colours among the palette's curves; a table shows them in this order."""


class Gpus(Panel):
    """Utilisation, SM activity, memory, power and heat, of one GPU with their histories."""

    def wanted(self, tick: Tick, view: View) -> int:
        """A line a GPU, or the rows of one; 0 where none can be seen and nothing helps."""
        gpus = shown_gpus(tick.window, view)
        if not gpus:
            gaps = [gap for gap in tick.window.gaps if gap.panel == "gpu"]
            return len(absence(tick, "gpu")) if any(gap.fix for gap in gaps) else 0
        return len(gpus) + 1 if len(gpus) > 1 else len(gpu_rows(gpus[0]))

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """A line a GPU where there are several."""
        gpus = shown_gpus(tick.window, view)
        if not gpus:
            return Text("\n".join(absence(tick, "gpu") or [tr("waiting for the driver")]), overflow="fold")
        return lines_text(gpu_table(gpus, width, view) if len(gpus) > 1 else _gpu_lines(gpus[0], width, view), height)

    def heading(self, tick: Tick, view: View) -> str:
        """`8 gpus`, or the number of the only one."""
        gpus = shown_gpus(tick.window, view)
        if len(gpus) == 1:
            return tr("gpu {index}", index=gpus[0].index)
        return tr("{gpus} gpus", gpus=len(gpus)) if gpus else "gpu"


def absence(tick: Tick, panel: str, words: str = "{reason}") -> list[str]:
    """Why a panel has nothing to show, and what would mend it."""
    gaps = [gap for gap in tick.window.gaps if gap.panel == panel]
    return [
        line
        for gap in gaps[:2]
        for line in (tr(words, reason=plain(gap.reason)), gap.fix and f"-> {plain(gap.fix)}")
        if line
    ]


def gpu_rows(gpu: GpuWindow) -> list[tuple[str, Series, str, float]]:
    """Label, history, newest value in words and top of the scale; what the card does not tell is left out."""
    total, limit = float(gpu.memory_total or 0), gpu.power_limit or 0.0
    every = [
        ("util", gpu.busy, percent(gpu.busy.last), 1.0),
        ("SM", gpu.sm, percent(gpu.sm.last), 1.0),
        ("memory", gpu.memory, gib(gpu.memory.last) + (f"/{gib(total)}G" if total else "G"), total),
        ("power", gpu.power, whole(gpu.power.last) + (f"/{limit:.0f}W" if limit else "W"), limit),
        ("heat", gpu.temperature, whole(gpu.temperature.last, " °C"), 100.0),
    ]
    return [(name, series, words, top or max(known)) for name, series, words, top in every if (known := series.known())]


def _lost(gpu: GpuWindow, width: int, view: View) -> Text:
    return Text(clipped(tr("lost: {plain}", plain=plain(gpu.lost)), width), severity_style(Severity.ERROR, view))


def gpu_table(gpus: Sequence[GpuWindow], width: int, view: View) -> list[Text]:
    """A head and a line a GPU: the first column with its history, then as many numbers as fit."""
    rows = [{name: (series, words) for name, series, words, _ in gpu_rows(gpu)} for gpu in gpus]
    names = [name for name in _COLOURS if any(name in row for row in rows)]
    table = [[row[name][1] if name in row else "-" for name in names] for row in rows]
    wide = [max(cells(word(name)), *(cells(row[at]) for row in table)) + 2 for at, name in enumerate(names)]
    while sum(wide) > width - 3 and len(wide) > 1:
        wide.pop()
    history = max(0, min(24, width - 3 - sum(wide)))
    heads = "".join(padded(word(name), size, right=True) for name, size in zip(names, wide, strict=False))
    lines = [Text(f"   {' ' * history}{heads}", style="dim")]
    for gpu, row, texts in zip(gpus, rows, table, strict=True):
        line = Text(f"{gpu.index:<3}", no_wrap=True)
        if gpu.lost:
            lines.append(line.append_text(_lost(gpu, width - 3, view)))
            continue
        if history and names and names[0] in row:
            line.append_text(coloured(spark(row[names[0]][0].values, history, 1.0), tint(CURVES[0], view)))
        lines.append(
            line.append("".join(padded(text, size, right=True) for text, size in zip(texts, wide, strict=False)))
        )
    return lines


def _gpu_lines(gpu: GpuWindow, width: int, view: View) -> list[Text]:
    """Everything about one GPU, the most telling first."""
    if gpu.lost:
        return [_lost(gpu, width, view)]
    lines = []
    for label, series, words, top in gpu_rows(gpu):  # `power  ▁▂▃▅▆▇▇ 212W`
        room = max(0, min(60, width - _LABEL - cells(words) - 2))
        marks = f"{spark(series.values, room, top)} " if room >= 4 else ""
        colour = tint(CURVES[_COLOURS[label]], view)
        lines.append(Text.assemble(padded(word(label), _LABEL) + " ", coloured(marks, colour), words))
    return lines
