"""What the source declares, as evidence with the command that shows it."""

from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.signs.source import Loop


def measured(name: str, value: float | str, unit: str, loop: Loop) -> Measurement:
    """A number or a word of one pass of a loop."""
    shown = f"sed -n '{loop.span.line},{loop.end_line}p' {loop.span.path}"
    return Measurement(name, value, unit, Provenance.DECLARED, shown)
