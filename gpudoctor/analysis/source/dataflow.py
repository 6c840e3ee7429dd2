"""Facts about the values of one pass of a loop, followed through assignments, calls and returns.

`Dataflow` follows a pass in its order and knows for each moment what a name has: that it is on the GPU, is a
probability, carries a graph. A subclass says which expressions introduce, keep or end a fact.
"""

import ast
from collections.abc import Iterator
from typing import Generic, TypeVar

from gpudoctor.analysis.source.scopes import Key, Scope
from gpudoctor.model.signs.source import Event, Loop

Fact = TypeVar("Fact")


class Dataflow(Generic[Fact]):
    """The facts of names in one pass of a loop.

    The key of a name is its text in the scope of the calls that lead there.
    What branches do to a fact, the subclass says: `Event.guards` are the conditions of a moment.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.calls = {event.node: event.call for event in loop.events if event.call is not None}
        self.facts: dict[Key, Fact] = {}
        self.moment = -1
        """The number of the event that `walk` is at."""

    def walk(self) -> Iterator[Event]:
        """The events of the pass, each before it takes effect."""
        for number, event in enumerate(self.loop.events):
            self.moment = number
            yield event
            self._apply(event)

    def _apply(self, event: Event) -> None:
        match event.node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.bind(target, value, event)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.bind(target, value, event)
            case ast.AugAssign(target=target, value=value):
                self.add(target, value, event)
            case ast.Return(value=ast.expr() as value) if event.via:
                self.give(returned(event.via), value, event)

    def bind(self, target: ast.expr, value: ast.expr, event: Event) -> None:
        """A target gets a value: `target = value`."""

    def add(self, target: ast.expr, value: ast.expr, event: Event) -> None:
        """A value is added to a target: `target += value`."""

    def give(self, key: Key, value: ast.expr, event: Event) -> None:
        """A function of the program returns a value to its call, whose result has a key as names have."""


def result(call: ast.expr, via: Scope) -> Key:
    """The key of what a call gives back."""
    return via, f"<result {call.lineno}:{call.col_offset + 1}>"


def returned(via: Scope) -> Key:
    """The same, from inside the function that is called."""
    return via[:-1], f"<result {via[-1].line}:{via[-1].column}>"
