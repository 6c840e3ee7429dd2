"""Expressions that are compiled at their first use: most texts need few of them, and a start must be quick."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any


class Expression:
    """A compiled expression, in time: `Expression(r"[a-z]+").match(text)`."""

    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    search: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    findall: Callable[..., list[Any]]
    sub: Callable[..., str]

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern)
        for method in ("match", "fullmatch", "search", "finditer", "findall", "sub"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())
