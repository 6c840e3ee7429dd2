"""Panels of the live view on the training loop: phases, hottest lines, ranks, findings."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpudoctor.analysis.live.rank_positions import standing_for
from gpudoctor.model import Ranked, Severity
from gpudoctor.model.signs.process import Place, Rank, Worker
from gpudoctor.model.watch import Tick
from gpudoctor.report.units import confidence_text, fix_title, remedy_gain
from gpudoctor.text import duration
from gpudoctor.ui.console.canvas import STYLES
from gpudoctor.ui.watch.marks import (
    LETTERS,
    View,
    bar,
    clip,
    counted,
    gib,
    percent,
    phase_name,
    plain,
    shown_places,
    shown_ranks,
    stacked,
)
from gpudoctor.ui.watch.panels import Panel, lines_text

# Where the loop's time goes: a bar a phase, and the phases over time.

_NAME = 12
_ROWS = 3
"""Lines that the history takes where there is room."""
_BUCKET = 4
"""Samples that a column of the history stands for at least."""


class Phases(Panel):
    """Shares by stack samples; exact ones where `gpudoctor run` records the job."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """Bars, largest first, then the history."""
        shares = phase_shares(tick, view)
        if not shares:
            return Text("\n".join(_absence(tick)), overflow="fold")
        room = max(1, height - (_ROWS if height > _ROWS + 2 else 1))
        named = sorted(shares.items(), key=lambda item: -item[1])
        lines = [_phase_row(phase, share, width) for phase, share in named[:room]]
        rest = height - len(lines)
        if rest == 1:
            lines.append(stacked(shares, width))
        elif rest > 1:
            lines += history(shown_ranks(tick.window, view), width, rest)
        return lines_text(lines, height)

    def heading(self, tick: Tick, view: View) -> str:
        """How many samples it is made of, and how many were lost."""
        good, lost = counted(tick.window, view)
        missed = f", {lost} lost" if lost else ""
        return f"where the loop is: {good} samples{missed}"


def phase_shares(tick: Tick, view: View) -> dict[str, float]:
    """Share of time by phase of the shown ranks; empty without a sample."""
    ranks = shown_ranks(tick.window, view)
    exact = [rank.steps.phases for rank in ranks if rank.steps and rank.steps.phases]
    if exact and len(exact) == len(ranks):
        return {name: sum(one.get(name, 0.0) for one in exact) / len(exact) for one in exact for name in one}
    total = 0
    counts: dict[str, int] = {}
    for place in shown_places(tick.window, view):
        counts[place.phase] = counts.get(place.phase, 0) + place.count
        total += place.count
    return {phase: count / total for phase, count in counts.items()}


def history(ranks: Sequence[Rank], width: int, height: int) -> list[str]:
    """The phases over time, oldest left: a column for each few samples, its letters stacked."""
    trail = [phase for _, phase in sorted(one for rank in ranks for one in rank.trail)]
    if not trail or width <= 0:
        return []
    columns = min(width, max(1, len(trail) // _BUCKET))
    stacks = []
    for column in range(columns):
        part = trail[column * len(trail) // columns : (column + 1) * len(trail) // columns]
        shares = {phase: part.count(phase) / len(part) for phase in part}
        stacks.append(stacked(shares, height))
    wide = max(1, width // columns)
    return ["".join(stack[height - 1 - row] * wide for stack in stacks) for row in range(height)]


def _phase_row(phase: str, share: float, width: int) -> str:
    gauge = max(0, width - _NAME - 8)
    return clip(
        f"{LETTERS.get(phase, ' ')} {phase_name(phase):<{_NAME - 1}}{bar(share, gauge)} {share:>5.0%}", width
    )


def _absence(tick: Tick) -> list[str]:
    gaps = [gap for gap in tick.window.gaps if gap.panel == "stacks"]
    lines = []
    for gap in gaps[:2]:
        lines.append(f"no stacks: {plain(gap.reason)}")
        if gap.fix:
            lines.append(f"-> {gap.fix}")
    return lines or ["waiting for the first stack sample"]


# The hottest lines of the user's code.

_HEAD = 16
"""Columns of share and phase."""
_KEYS = {
    "share": lambda place: (-place.count, place.path, place.line),
    "file": lambda place: (place.path, place.line, -place.count),
    "phase": lambda place: (place.phase, -place.count),
}


class PlacesTable(Panel):
    """Share, phase, place, and the line itself where there is room."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """A line a place."""
        total, _ = counted(tick.window, view)
        places = sorted(_by_line(shown_places(tick.window, view)), key=_KEYS[view.sort])
        named = [place for place in places if place.path]
        if not named:
            return Text("no line of your own code has been seen yet" if total else "", overflow="fold")
        wide = max(len(_where(place)) for place in named[:height])
        return lines_text(
            [_place_row(place, total, min(wide, width - _HEAD), width) for place in named[:height]], height
        )

    def heading(self, tick: Tick, view: View) -> str:
        """The order that they stand in."""
        del tick
        return f"hottest lines (by {view.sort})"


def _by_line(places: Iterable[Place]) -> list[Place]:
    """Places of the same line and phase added up, whatever library function they were in."""
    merged: dict[tuple[str, str, int], Place] = {}
    for place in places:
        key = (place.phase, place.path, place.line)
        same = merged.get(key)
        merged[key] = place if same is None else replace(same, count=same.count + place.count)
    return list(merged.values())


def _place_row(place: Place, total: int, wide: int, width: int) -> str:
    head = (
        f"{place.count / max(1, total):>4.0%} {phase_name(place.phase):<10} {clip(_where(place), wide):<{wide}}"
    )
    return clip(f"{head}  {plain(place.text)}", width)


def _where(place: Place) -> str:
    return plain(f"{place.path.rpartition('/')[2]}:{place.line} {place.function.rpartition('.')[2]}")


# Ranks and their loader workers: who stands where.

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


# The findings, best to act on first; Enter or a click opens the manual page.


class Findings(OptionList):
    """One option a finding; a tick that brings the same ones leaves the choice where it is."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._shown: list[Text] = []
        self._tick: Tick | None = None

    def show(self, tick: Tick, view: View) -> None:
        """Show the findings of a tick."""
        del view
        chosen = self.code
        self._tick = tick
        self.border_title = f"findings ({len(tick.report.findings)})"
        texts = [finding_text(item, max(20, self.content_size.width - 2)) for item in tick.report.findings]
        if texts == self._shown and self.option_count:
            return
        self._shown = texts
        self.clear_options()
        if not texts:
            self.add_option(Option(_nothing(tick), disabled=True))
        codes = [str(item.finding.code) for item in tick.report.findings]
        self.add_options([Option(text) for text in texts])
        if texts:
            self.highlighted = codes.index(chosen) if chosen in codes else 0

    def on_resize(self) -> None:
        """Write again for the new width."""
        if self._tick is not None:
            self._shown = []
            self.show(self._tick, View())

    @property
    def chosen(self) -> Ranked | None:
        """The finding under the cursor."""
        place = self.highlighted
        if self._tick is None or place is None or place >= len(self._tick.report.findings):
            return None
        return self._tick.report.findings[place]

    @property
    def code(self) -> str:
        """Its code; "" without one."""
        return str(self.chosen.finding.code) if self.chosen else ""


def finding_text(item: Ranked, width: int) -> Text:
    """Two lines: the ailment and how sure we are, then the best remedy and what it is worth."""
    finding = item.finding
    style = STYLES[finding.severity]
    head = f"{item.rank} {plain(finding.code)} {plain(finding.name)}"
    aside = f"{finding.severity.value}, {confidence_text(finding)}"
    subject = f"  {plain(finding.subject)}" if finding.subject else ""
    room = width - len(head) - len(aside) - 2
    text = Text(no_wrap=True, overflow="crop")
    text.append(head, style=style)
    text.append(clip(subject, room).ljust(room) if room > 0 else "  ")
    text.append(f" {aside}", style=style)
    if item.remedies:
        best = item.remedies[0]
        worth = " · ".join(remedy_gain(best))
        title = clip(f"  fix: {plain(fix_title(best))}", width - len(worth) - 2)
        text.append(f"\n{title}  {worth}".rstrip())
    return text


def _nothing(tick: Tick) -> str:
    seen = [item for item in tick.report.findings if item.finding.severity is not Severity.NOTE]
    return "" if seen else "nothing found so far"
