"""What the source declares: of work that comes too often, and as evidence with the command that shows it."""

from gpudoctor.analysis.source.call_frequency import brief
from gpudoctor.analysis.source.control_flow import trains_within, withs_of
from gpudoctor.model import Detail
from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Loop, Script, Source


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


def kept_on(source: Source, script: Script, call: Call, most: float) -> Loop | None:
    """A training loop of more than `most` passes inside a block that enters what the call makes."""
    around = (trains_within(source, script, block) for block in withs_of(script, call))
    return next((found[1] for found in around if found and not brief(*found, most)), None)


def shown_call(call: Call) -> str:
    """A call as a person knows it: by its resolved name, else as it is written."""
    return f"{call.receiver}.{call.method}" if call.name.startswith("?") and call.receiver else call.name
