"""Absence has a name: a sign that cannot be taken, and a single reading that is not there."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from gpudoctor.lang import SpokenError, say
from gpudoctor.model.records import frozen


class Unavailable(SpokenError):
    """A sign cannot be taken. The text is a clause that completes "skipped: ...", for a person."""


class Unread(Unavailable):
    """What the user named for a sign cannot be read: the examination is incomplete without it."""


class ReaderCrashed(SpokenError):
    """A reader of ours failed in a way nobody foresaw; checks that need its sign end as crashed."""


class NoFailureLogged(Unavailable):
    """A command failed, and its output was read and names no failure."""


@frozen(kw_only=False)
class Absent:
    """One reading of a sign that was taken: the card, the driver or the system does not answer it."""

    reason: str
    """A short clause: "not supported by this card", "this driver is too old", "no permission"."""

    def __bool__(self) -> bool:
        """Refuse to be used as a value: "not measured" must never turn into a number or a truth."""
        raise TypeError(say("an absent reading was used as a value ({reason})", reason=self.reason))


_T = TypeVar("_T")
Reading: TypeAlias = _T | Absent
"""A value, or the reason why there is none."""


def optional(read: Callable[[], _T]) -> _T | None:
    """A sign that helps and is not needed: None when it cannot be taken."""
    try:
        return read()
    except Unavailable:
        return None


def known(reading: Reading[_T]) -> _T | None:
    """A reading's value, None where there is none: for what is shown, or compared with None."""
    return None if isinstance(reading, Absent) else reading
