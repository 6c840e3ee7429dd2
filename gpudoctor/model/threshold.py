"""A threshold: a number with a source, overridable in `[tool.gpudoctor.thresholds]`."""

from dataclasses import dataclass

OWN_CHOICE = "convention: gpudoctor's own choice, no published figure is known"
"""The source of a number that has no other one."""


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

    @classmethod
    def note_and_warning(
        cls,
        meaning: str,
        *,
        noted: float,
        warned: float,
        source: str = OWN_CHOICE,
        source_warned: str = "",
        name: str = "share",
    ) -> "tuple[Threshold, Threshold]":
        """The thresholds `share_noted` and `share_warned`, of which a share of the time is a note or a warning.

        `meaning` is the sentence without its end: `Saves that take this share of a recorded run are`.
        """
        return (
            cls(name=f"{name}_noted", default=noted, unit="1", source=source, meaning=f"{meaning} a note."),
            cls(
                name=f"{name}_warned",
                default=warned,
                unit="1",
                source=source_warned or source,
                meaning=f"{meaning} a warning.",
            ),
        )
