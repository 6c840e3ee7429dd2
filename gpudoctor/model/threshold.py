"""A threshold: a number with a source, overridable in `[tool.gpudoctor.thresholds]`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One number that a check compares with."""

    name: str
    """Snake-case name, unique within its check. Users write `CODE.name = value`."""
    default: float
    """The value in `unit` when nobody overrides it."""
    unit: str
    """The unit, as in `Measurement.unit`."""
    source: str
    """Where the number comes from: a document, an issue, a measurement."""
    meaning: str
    """One sentence: what happens above or below it."""
