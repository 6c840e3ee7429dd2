"""The training card: what a run really trained, a line for each side of it that was seen."""

from collections.abc import Callable

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training.logged import said as logged
from gpudoctor.analysis.run.training.parameters import parameters
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Recording

LINES: tuple[Callable[[Recording], CardLine | None], ...] = (parameters, logged)
"""In the order of the card; a line of which nothing was seen is None."""


@once
def training_card(recording: Recording) -> tuple[CardLine, ...]:
    """What was seen of the training, most of it from the first rank."""
    return tuple(line for make in LINES if (line := make(recording)) is not None)
