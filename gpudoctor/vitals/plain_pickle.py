"""Reads a pickle of plain values, by Python's own reader without names: nothing that a pickle names is called.

What a hostile file may still do is take time and memory.
"""

import io
import pickle
from typing import Any, Final, NoReturn

from gpudoctor.lang import SpokenError

_NAMES_CODE: Final = "it names a class or a function, which loading would run; gpudoctor reads plain values only"


class NotPlain(SpokenError, ValueError):
    """A pickle that is damaged or names code. Its text is a clause."""


class _Nameless(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:  # noqa: ARG002
        raise NotPlain(_NAMES_CODE)

    def persistent_load(self, pid: Any) -> NoReturn:  # noqa: ARG002
        raise NotPlain(_NAMES_CODE)


def load_plain(data: bytes) -> Any:
    """The value of a pickle, sets and byte arrays included. Raises `NotPlain`."""
    stream = io.BufferedReader(io.BytesIO(data), max(len(data), 1))  # it can be peeked at
    try:
        return _Nameless(stream).load()
    except (NotPlain, MemoryError):
        raise
    except Exception as error:  # the reader raises nearly everything for a damaged file
        raise NotPlain("it is damaged or cut short") from error
