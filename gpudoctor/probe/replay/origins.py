"""Where a value that is not finite came from: a label that travels with it from operation to operation."""

from __future__ import annotations

from typing import Any

from .pytree import key_of


class Origin:
    """What first made a value that is not finite, or brought it in."""

    __slots__ = ("deliberate", "fields", "number", "turned")

    def __init__(self, number: int, deliberate: bool, fields: dict[str, Any]) -> None:
        self.number = number
        """Operations before it since the watch began."""
        self.deliberate = deliberate
        """Whether it is an infinity that somebody wrote down: `masked_fill(mask, -inf)` is not a fault."""
        self.fields = fields
        """As in the `replay` record."""
        self.turned: dict[str, Any] | None = None
        """The operation that made NaN of its infinity."""

    def told(self) -> dict[str, Any]:
        """For the record."""
        return {**self.fields, "turned": self.turned} if self.turned else self.fields


class Labels:
    """Origins by the memory that holds the values.

    A label outlives its memory; it is asked for only where the memory holds something bad now, and every
    operation that writes sets or clears it.
    """

    def __init__(self) -> None:
        self._by_key: dict[int, Origin] = {}

    def of(self, tensor: Any) -> Origin | None:
        """Where the bad values of a tensor came from."""
        return self._by_key.get(key_of(tensor))

    def all(self) -> list[Origin]:
        """Every origin that still has memory of its own."""
        return list(self._by_key.values())

    def put(self, tensor: Any, origin: Origin) -> None:
        """This tensor's memory holds such values now."""
        key = key_of(tensor)
        if key:
            self._by_key[key] = origin

    def clear(self, tensor: Any) -> None:
        """A tensor was written and is finite; what lies beside it in the same memory may not be."""
        key = key_of(tensor)
        if key in self._by_key and tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes():
            del self._by_key[key]

    def forget(self, tensor: Any) -> None:
        """New memory: whatever lies there was never written."""
        self._by_key.pop(key_of(tensor), None)
