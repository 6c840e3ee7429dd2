"""A time limit for a reader that only waits (for a disk, a mount, a child)."""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from gpudoctor.model import Unavailable
from gpudoctor.text import duration

T = TypeVar("T")


def within(seconds: float, reader: Callable[[], T], what: str) -> T:
    """The reader's result; `Unavailable` when it takes longer.

    The reader runs in a daemon thread: a read of a hung mount cannot be interrupted, only left behind.
    """
    result: list[T] = []
    error: list[BaseException] = []

    def work() -> None:
        try:
            result.append(reader())
        except BaseException as problem:  # noqa: BLE001  # handed to the caller below
            error.append(problem)

    thread = Thread(target=work, name=f"reader of {what}", daemon=True)
    thread.start()
    thread.join(seconds)
    if error:
        raise error[0]
    if not result:
        raise Unavailable(f"{what} could not be read within {duration(seconds)}; a mount or a device may hang")
    return result[0]
