"""How bad a finding is for the job, and how sure we are of it."""

from enum import Enum


class Severity(Enum):
    """What happens to the job; the words are SARIF's."""

    NOTE = "note"
    """Worth knowing; nothing is lost by leaving it."""
    WARNING = "warning"
    """The job loses time or memory worth acting on."""
    ERROR = "error"
    """The run will fail, has failed, or its result is wrong."""

    @property
    def rank(self) -> int:
        """0 for a note, 1 for a warning, 2 for an error."""
        return list(Severity).index(self)


class Confidence(Enum):
    """How sure a finding is; it follows from the kind of its evidence."""

    SUSPECTED = "suspected"
    """Read from source or from a config."""
    PROBABLE = "probable"
    """An indirect sign."""
    CONFIRMED = "confirmed"
    """Measured, or read from the thing itself."""

    @property
    def weight(self) -> float:
        """The factor by which ranking discounts an expected gain (0..1).

        A convention, not a measured probability: it only has to order a measured gain of a few percent
        above a suspected one of the same size.
        """
        return {"suspected": 0.4, "probable": 0.7, "confirmed": 1.0}[self.value]
