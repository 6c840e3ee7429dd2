"""The training card: what a run really trained, a line for each side of it that was seen."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training.logged_numbers import said as logged
from gpudoctor.analysis.run.training.parameters import parameters
from gpudoctor.lang import say, template, term
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import joined

Card: TypeAlias = Sequence[CardLine] | None
"""None of what is no run."""
LINES: tuple[Callable[[Recording], CardLine | None], ...] = (parameters, logged)
"""In the order of the card; a line of which nothing was seen is None."""


@once
def training_card(recording: Recording) -> tuple[CardLine, ...]:
    """What was seen of the training, most of it from the first rank."""
    return tuple(line for make in LINES if (line := make(recording)) is not None)


# What a verdict says of it.

_MUST = (template("batch"), template("labels"), template("parameters"), template("schedule"))
"""Lines that every training has: without one of them it was not seen."""
_MAY = (template("gradients"), template("evaluation"))
OTHERS = (template("ranks"), template("resumed"), template("logged"))
"""Lines that say nothing of a fault, or only where there is something to see."""


def seen(training: Sequence[CardLine]) -> Mapping[str, bool]:
    """Whether each line that must be there is; and the others that are."""
    lines = {line.name for line in training}
    return {name: name in lines for name in (*_MUST, *_MAY) if name in lines or name in _MUST}


def examined(training: Sequence[CardLine]) -> str:
    """A sentence that names what was seen of the training, with a blank before it; "" if nothing was."""
    names = [term(name) for name, is_seen in seen(training).items() if is_seen]
    return say(" gpudoctor examined its {areas}.", areas=joined(names)) if names else ""
