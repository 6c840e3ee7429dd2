"""The machine beside the job."""

from collections.abc import Sequence

from rich.text import Text

from gpudoctor.model.signs.process import Rank
from gpudoctor.model.watch import Tick
from gpudoctor.ui.watch.marks import bar, clip, gib, percent, plain, rate, spark
from gpudoctor.ui.watch.panel import Panel, lines_text
from gpudoctor.ui.watch.view import View, shown_ranks

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
