"""Answers worked out once: kept with the script, source or program that they are about, and gone with it.

Many checks ask the same question of the same script ("what encloses this call?"). An answer that takes a walk
through a whole tree is made by the first that asks.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Remembers(Protocol):
    """What answers can be kept with."""

    @property
    def memory(self) -> dict[Hashable, Any]:
        """Answers by question."""


S = TypeVar("S", bound=Remembers)


def once(question: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a function remember its answer for each first argument, a script, source or program.

    Further arguments are positional and hashable, and part of the question. An answer is shared by all who ask,
    so it is something that nobody changes; an iterator cannot be shared.
    """

    @wraps(question)
    def ask(about: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        assert not kwargs, "a remembered question takes positional arguments"
        key = (question, args)
        try:
            answer: R = about.memory[key]
        except KeyError:
            answer = about.memory[key] = question(about, *args, **kwargs)
        return answer

    return ask
