"""What the source declares: of work that comes too often, and as evidence with the command that shows it."""

from gpudoctor.model import Detail
from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Loop


@frozen
class PeriodDetail(Detail):
    """What the rules read of work that comes too often."""

    period: float | None = None
    """Steps between two of them."""
    norm: float | None = None
    """Steps: a shorter period would be found again."""
    engine_loop: str | None = None
    """The framework whose own loop it is."""
    calls: int | None = None
    """In the source."""


def measured(name: str, value: float | str, unit: str, loop: Loop) -> Measurement:
    """A number or a word of one pass of a loop."""
    shown = f"sed -n '{loop.span.line},{loop.end_line}p' {loop.span.path}"
    return Measurement(name, value, unit, Provenance.DECLARED, shown)
