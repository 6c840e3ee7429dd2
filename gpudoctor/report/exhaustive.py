"""Closes a choice: `typing.assert_never` for Python 3.10."""

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Never called when all kinds are handled; the type checker proves it."""
    raise AssertionError(f"unhandled kind: {value!r}")
