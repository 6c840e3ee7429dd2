"""Bars, sparklines and short numbers, and what the person at the screen has chosen."""

from collections.abc import Sequence

from gpudoctor.lang import rendered, word
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.process import GpuWindow, Place, ProcessWindow, Rank, merge_places
from gpudoctor.report.palette import Colour
from gpudoctor.report.printable import one_line, printable

SPARKS = "▁▂▃▄▅▆▇█"
_GIB = 1 << 30


def bar(share: float, width: int) -> str:
    """`███░░░` of a share from 0 to 1."""
    if share != share or width <= 0:
        return " " * max(0, width)
    filled = min(width, max(0, round(share * width)))
    return "█" * filled + "░" * (width - filled)


def spark(values: Sequence[float], width: int, top: float) -> str:
    """Values as a small graph up to `top`, the newest at the right; unknown ones are spaces.

    More values than columns: each column is the mean of its part.
    """
    marks = []
    for value in _resampled(values, width):
        share = value / top if top > 0 else 0.0
        level = 0 if value != value else int(min(1.0, max(0.0, share)) * (len(SPARKS) - 1) + 0.5)
        marks.append(" " if value != value else SPARKS[level])
    return "".join(marks).rjust(max(0, width))


def _resampled(values: Sequence[float], width: int) -> list[float]:
    """At most `width` values: means of neighbours."""
    if width <= 0 or len(values) <= width:
        return list(values) if width > 0 else []
    found = []
    for column in range(width):
        part = values[column * len(values) // width : (column + 1) * len(values) // width]
        known = [value for value in part if value == value]
        found.append(sum(known) / len(known) if known else float("nan"))
    return found


def phase_name(phase: str) -> str:
    """`data wait`."""
    return word(phase.replace("_", " "))


def gib(count: float) -> str:
    """Bytes as GiB with as many digits as are worth it; "-" for what is not known."""
    if count != count:
        return "-"
    value = count / _GIB
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def percent(share: float) -> str:
    """`31%`; "-" for what is not known."""
    return "-" if share != share else f"{share:.0%}"


def whole(value: float, unit: str = "") -> str:
    """`212W`; "-" for what is not known."""
    return "-" if value != value else f"{value:.0f}{unit}"


def rate(value: float) -> str:
    """Bytes a second in five characters or so: `1.2M/s`."""
    if value != value:
        return "-"
    for step, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if value >= step:
            return f"{value / step:.1f}{letter}/s"
    return f"{value:.0f}B/s"


def plain(text: str) -> str:
    """The text on one line, without anything that a terminal obeys."""
    return one_line(printable(rendered(text)))


# What the person at the screen has chosen; together with a tick it decides every character.


@frozen
class View:
    """Choices."""

    rank: int | None = None
    """Place in the window's ranks; None shows all of them together."""
    paused: bool = False
    error: str = ""
    """What failed in the last tick; "" when nothing did."""
    plain: bool = False
    """Whether the terminal shows no colour."""


def tint(colour: Colour, view: View) -> str | None:
    """The colour on a dark screen; None without colours."""
    return None if view.plain else colour.dark


def shown_ranks(window: ProcessWindow, view: View) -> Sequence[Rank]:
    """The chosen rank, or all."""
    if view.rank is not None and view.rank < len(window.ranks):
        return (window.ranks[view.rank],)
    return window.ranks


def shown_gpus(window: ProcessWindow, view: View) -> Sequence[GpuWindow]:
    """The chosen rank's GPUs, or the job's; all of the machine where that cannot be told."""
    used = {index for rank in shown_ranks(window, view) for index in rank.gpus}
    return [gpu for gpu in window.gpus if gpu.index in used] or window.gpus


def shown_places(window: ProcessWindow, view: View) -> tuple[Place, ...]:
    """Places of the shown ranks, added up."""
    return merge_places(place for rank in shown_ranks(window, view) for place in rank.places)


def counted(window: ProcessWindow, view: View) -> tuple[int, int]:
    """Good and lost samples of the shown ranks."""
    ranks = shown_ranks(window, view)
    return sum(rank.samples for rank in ranks), sum(rank.lost for rank in ranks)
