"""The hottest lines of the user's code."""

from collections.abc import Iterable
from dataclasses import replace

from rich.text import Text

from gpudoctor.model.signs.process import Place
from gpudoctor.model.watch import Tick
from gpudoctor.ui.watch.marks import clip, phase_name, plain
from gpudoctor.ui.watch.panel import Panel, lines_text
from gpudoctor.ui.watch.view import View, counted, shown_places

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
            [_row(place, total, min(wide, width - _HEAD), width) for place in named[:height]], height
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


def _row(place: Place, total: int, wide: int, width: int) -> str:
    head = (
        f"{place.count / max(1, total):>4.0%} {phase_name(place.phase):<10} {clip(_where(place), wide):<{wide}}"
    )
    return clip(f"{head}  {plain(place.text)}", width)


def _where(place: Place) -> str:
    return plain(f"{place.path.rpartition('/')[2]}:{place.line} {place.function.rpartition('.')[2]}")
