"""Waits of a watched job for its next batch, and who makes the batches."""

from gpudoctor.analysis.live.stack_shares import StackShare, taken
from gpudoctor.model.signs.process import ProcessWindow

INLINE = frozenset({"loader-inline", "loader-collate", "loader-pin"})
"""Kinds of stacks in which the training process makes the batch itself."""
_STARTED = "loader-start"


def waiting_live(window: ProcessWindow) -> StackShare:
    """Samples in which a rank waits for data; starting workers anew is another ailment."""
    phase = "data_wait" if not any(place.kind == _STARTED for place in window.places) else ""
    return taken(window, lambda place: place.phase == "data_wait" and place.kind != _STARTED, phase=phase)


def most_workers(window: ProcessWindow) -> int:
    """Loader workers of the rank that has most."""
    return max((len(rank.workers) for rank in window.ranks), default=0)
