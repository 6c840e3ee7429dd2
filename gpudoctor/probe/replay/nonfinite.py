"""Values that are not finite: found inside arguments and results, and labelled with where they came from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

# Tensors inside arguments and results, and what is not finite in them.

_DEEPEST = 4


def tensors_in(torch: Any, value: Any, deep: int = 0) -> Iterator[Any]:
    """The plain tensors in a nest of lists, tuples and dictionaries; of a sharded one its own part."""
    if isinstance(value, torch.Tensor):
        yield getattr(value, "_local_tensor", value)
    elif isinstance(value, (list, tuple)) and deep < _DEEPEST:
        for item in value:
            yield from tensors_in(torch, item, deep + 1)
    elif isinstance(value, dict) and deep < _DEEPEST:
        for item in value.values():
            yield from tensors_in(torch, item, deep + 1)


def named_tensors(torch: Any, value: Any, name: str = "", deep: int = 0) -> Iterator[tuple[str, Any]]:
    """The same of a batch, with the index that leads to each: `['image']`, `[0]`; fields of objects too."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif deep >= _DEEPEST:
        return
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value[:64]):
            yield from named_tensors(torch, item, f"{name}[{index}]", deep + 1)
    elif hasattr(value, "items") and hasattr(value, "keys"):
        for key, item in list(value.items())[:64]:
            yield from named_tensors(torch, item, f"{name}[{key!r}]", deep + 1)
    elif type(getattr(value, "__dict__", None)) is dict and not callable(value):
        for key, item in list(vars(value).items())[:64]:
            yield from named_tensors(torch, item, f"{name}.{key}", deep + 1)


def mapped(torch: Any, value: Any, change: Callable[[Any], Any]) -> Any:
    """The nest with every tensor replaced by `change(tensor)`."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(mapped(torch, item, change) for item in value)
    if type(value) is dict:
        return {key: mapped(torch, item, change) for key, item in value.items()}
    return value


def numbers_in(value: Any, deep: int = 0) -> Iterator[float]:
    """The Python floats in a nest of arguments."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, (list, tuple)) and deep < _DEEPEST:
        for item in value:
            yield from numbers_in(item, deep + 1)
    elif isinstance(value, dict) and deep < _DEEPEST:
        for item in value.values():
            yield from numbers_in(item, deep + 1)


def badness(torch: Any, tensor: Any) -> str:
    """`nan`, `inf` (some positive), `-inf` (only negative) or "" for a tensor that is finite throughout.

    Also "" where nobody can tell: integers, sparse tensors, tensors without values.
    """
    if not tensor.is_floating_point() and not tensor.is_complex():
        return ""
    if tensor.layout is not torch.strided or tensor.is_meta or not tensor.numel():
        return ""
    try:
        if bool(torch.isfinite(tensor).all()):
            return ""
        if bool(torch.isnan(tensor).any()):
            return "nan"
        return "-inf" if not tensor.is_complex() and bool((tensor != math.inf).all()) else "inf"
    except (RuntimeError, NotImplementedError):  # eight-bit floats have no such operation
        return ""


def bad_count(torch: Any, tensor: Any) -> int:
    """How many of a tensor's values are not finite."""
    return int((~torch.isfinite(tensor)).sum())


def key_of(tensor: Any) -> int:
    """What tells a tensor's memory from others', as long as it is there; 0 where it has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):
        return 0


# Where a value that is not finite came from: a label that travels with it from operation to operation.


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
