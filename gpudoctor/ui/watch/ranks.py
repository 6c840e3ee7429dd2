"""Ranks and their loader workers: who stands where."""

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from gpudoctor.analysis.live.rank_positions import standing_for
from gpudoctor.model.signs.process import Rank, Worker
from gpudoctor.model.watch import Tick
from gpudoctor.text import duration
from gpudoctor.ui.watch.marks import clip, gib, percent, phase_name, plain
from gpudoctor.ui.watch.panel import Panel, lines_text
from gpudoctor.ui.watch.view import View, shown_ranks

_STATES = {
    "R": "running",
    "S": "asleep",
    "D": "disk wait",
    "T": "stopped",
    "t": "stopped",
    "Z": "dead",
    "X": "gone",
}
_STILL = 10.0
"""Seconds without any movement from which a rank's standing still is shown."""


class Ranks(Panel):
    """A line a rank; of one rank, its workers."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """Ranks where there are several and none is chosen."""
        ranks = shown_ranks(tick.window, view)
        if len(ranks) > 1:
            return lines_text([_rank_line(rank, width) for rank in _odd_first(ranks)], height)
        rank = ranks[0]
        lines = [_rank_line(rank, width), _summary(rank, width)]
        lines += [_worker_line(worker, width) for worker in sorted(rank.workers, key=_trouble)]
        return lines_text(lines, height)

    def heading(self, tick: Tick, view: View) -> str:
        """`8 ranks`, or the chosen one."""
        ranks = shown_ranks(tick.window, view)
        return f"{len(ranks)} ranks" if len(ranks) > 1 else f"{ranks[0].title} and its workers"


def _odd_first(ranks: Sequence[Rank]) -> list[Rank]:
    """Those that are gone or stand elsewhere than most come first: they must not fall off the panel."""
    newest = {rank.pid: rank.trail[-1][1] if rank.trail else "" for rank in ranks}
    usual = Counter(newest.values()).most_common(1)[0][0]
    return sorted(ranks, key=lambda rank: rank.alive and newest[rank.pid] == usual)


def _trouble(worker: Worker) -> tuple[bool, float]:
    return worker.state != "D", -(worker.cpu if worker.cpu == worker.cpu else 0.0)


def _rank_line(rank: Rank, width: int) -> str:
    name = f"{rank.title:<8}"
    if not rank.alive:
        return clip(f"{name} gone", width)
    phase = phase_name(rank.trail[-1][1]) if rank.trail else rank.blind or "not seen yet"
    leaf = plain(rank.stack[-1].label) if rank.stack else ""
    seconds = standing_for(rank)
    still = f"  still for {duration(seconds)}" if seconds >= _STILL else ""
    state = "" if rank.state in "RS" else f"  {_state(rank.state, rank.wait_channel)}"
    return clip(f"{name} {phase:<11} cpu {percent(rank.cpu):>4}  {leaf}{still}{state}", width)


def _summary(rank: Rank, width: int) -> str:
    if not rank.workers:
        return clip("no loader workers", width)
    counts: dict[str, int] = {}
    for worker in rank.workers:
        counts[_STATES.get(worker.state, worker.state)] = (
            counts.get(_STATES.get(worker.state, worker.state), 0) + 1
        )
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    lost = f"; {len(rank.lost_workers)} died" if rank.lost_workers else ""
    return clip(f"{len(rank.workers)} workers: {states}{lost}", width)


def _worker_line(worker: Worker, width: int) -> str:
    state = _state(worker.state, worker.wait_channel)
    return clip(f"  {worker.pid:<8} cpu {percent(worker.cpu):>4}  {gib(worker.rss):>5}G  {state}", width)


def _state(state: str, channel: str) -> str:
    return _STATES.get(state, state) + (f" in {channel}" if channel else "")
