"""What the person at the screen has chosen; together with a tick it decides every character."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpudoctor.model.signs.process import GpuWindow, Place, ProcessWindow, Rank, merge_places

SORTS = ("share", "file", "phase")
"""Orders of the list of lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Choices."""

    rank: int | None = None
    """Place in the window's ranks; None shows all of them together."""
    gpu: int | None = None
    """Place among the shown GPUs; None lists them."""
    sort: str = SORTS[0]
    paused: bool = False
    recording: str = ""
    """The file that ticks go to; "" while none."""
    replay: str = ""
    """The file that ticks come from; "" for a live process."""
    error: str = ""
    """What failed in the last tick; "" when nothing did."""


def next_choice(now: int | None, count: int) -> int | None:
    """All, the first, the second, ..., all again; one alone is not worth a choice."""
    if count < 2:
        return None
    return 0 if now is None else now + 1 if now + 1 < count else None


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
