"""Messages of the kernel."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMessage:
    """One line of the kernel log."""

    text: str
    """The message without its prefix."""
    age: float | None
    """Seconds before the examination; None where the log has no times."""
    time: str | None = None
    """ISO 8601 time, where known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLog:
    """What could be read of the kernel log."""

    origin: str
    """The command or file that was read."""
    messages: tuple[KernelMessage, ...]
    """Oldest first."""
