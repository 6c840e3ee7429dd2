"""A loop of assertions over nothing passes; `some` fails instead."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def some(items: Iterable[T]) -> list[T]:
    """The items; fails where there are none."""
    listed = list(items)
    assert listed, "nothing to look at"
    return listed
