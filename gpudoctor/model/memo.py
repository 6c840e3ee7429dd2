"""Answers worked out once: kept with what they are about, and gone with it."""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Remembers(Protocol):
    """What answers can be kept with."""

    @property
    def memory(self) -> dict[Hashable, Any]:
        """Answers by question."""


def remembered(about: Remembers, question: Hashable, answer: Callable[[], T]) -> T:
    """The answer to a question about something, worked out by the first who asks and shared by all."""
    try:
        found: T = about.memory[question]
    except KeyError:
        found = about.memory[question] = answer()
    return found
