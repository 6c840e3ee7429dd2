"""Where the loop's time goes: a bar a phase, and the phases over time."""

from collections.abc import Sequence

from rich.text import Text

from gpudoctor.model.signs.process import Rank
from gpudoctor.model.watch import Tick
from gpudoctor.ui.watch.marks import LETTERS, bar, clip, phase_name, plain, stacked
from gpudoctor.ui.watch.panel import Panel, lines_text
from gpudoctor.ui.watch.view import View, counted, shown_places, shown_ranks

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
        lines = [_row(phase, share, width) for phase, share in named[:room]]
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


def _row(phase: str, share: float, width: int) -> str:
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
