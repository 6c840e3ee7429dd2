"""Shared by children of an estimate: their own standard output, a shape from JSON, how an error ended them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpudoctor.estimate.measure.meters import MemoryMeter
from gpudoctor.estimate.shapes import Latent, ModelShape


@contextmanager
def own_stdout() -> Iterator[Any]:
    """Standard output for our lines alone; what else is printed goes to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(own, "w", encoding="utf-8") as stream:
        yield stream


def ending_of(error: BaseException, meter: MemoryMeter | None) -> dict[str, Any]:
    """How a run ended that an error has ended, in the words of the `ending` event."""
    kind = "out of memory" if out_of_memory(error) else "failed"
    return {"ending": kind, "said": _first_line(error), "most": _most(meter)}


def shape_of(fields: dict[str, Any]) -> ModelShape:
    """A shape from its JSON."""
    given: dict[str, Any] = {
        key: tuple(_tuples(value)) if isinstance(value, list) else value for key, value in fields.items()
    }
    if given.get("latent") is not None:
        given["latent"] = Latent(**given["latent"])
    return ModelShape(**given)


def _tuples(values: list[Any]) -> list[Any]:
    return [tuple(value) if isinstance(value, list) else value for value in values]


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocator refused: torch's on CUDA, its CPU allocator, or Python's."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(
        text in str(error) for text in ("can't allocate memory", "out of memory", "not enough memory")
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def _most(meter: MemoryMeter | None) -> int | None:
    """The most that was allocated in what did not come to its end."""
    if meter is None:
        return None
    try:
        now = meter.reached()
        meter.mark("interrupted")
        return max([window.peak for window in meter.take()] + ([now] if now is not None else []))
    except Exception:  # noqa: BLE001 - after an allocator's refusal nothing is sure to work
        return None
