"""What one pass of a loop executes: its own items, those of the functions it calls, in order."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Event, Guard, LoopRole
from gpudoctor.vitals.source.loop_roles import Roles
from gpudoctor.vitals.source.values import Function, FunctionRecord, Item, LoopRecord, lean

MOST = 8000
"""Most events of one loop; a pass that does more is cut."""
_DEEPEST = 12


class Events(Sequence[Event]):
    """The events of a loop, made when first looked at."""

    __slots__ = ("_events", "_make")

    def __init__(self, make: Callable[[], Iterator[Event]]) -> None:
        self._make: Callable[[], Iterator[Event]] | None = make
        self._events: tuple[Event, ...] = ()

    def _all(self) -> tuple[Event, ...]:
        make = self._make
        if make is not None:
            self._events = tuple(make())
            self._make = None
        return self._events

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Event]:
        return iter(self._all())

    def __getitem__(self, index: Any) -> Any:
        """One event, or a run of them."""
        return self._all()[index]


@lean
class Step:
    """One item as a pass of a loop meets it."""

    item: Item
    scope: FunctionRecord
    guards: tuple[Guard, ...]
    inner: tuple[LoopRecord, ...]
    via: tuple[SourceSpan, ...]
    no_grad: bool
    evaluation: bool


class Walker:
    """Walks passes of loops, through calls."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    def steps(self, loop: LoopRecord) -> Iterator[Step]:
        """What one pass of a loop meets."""
        depth = len(loop.parents)
        items = loop.scope.items[loop.start : loop.end]
        evaluation = loop.role is LoopRole.EVALUATION
        budget = [MOST]
        yield from self._walk(loop.scope, items, depth + 1, loop.base, _Here((), (), (), False, evaluation), budget, ())

    def hook_steps(self, hooks: Sequence[tuple[Function, bool]]) -> Iterator[Step]:
        """What one step of an engine meets: its hooks, each with whether it evaluates."""
        for function, evaluation in hooks:
            if function.record is not None:
                here = _Here((), (), (), False, evaluation)
                yield from self._walk(function.record, function.record.items, 0, 0, here, [MOST], (function,))

    def _walk(
        self,
        scope: FunctionRecord,
        items: Sequence[Item],
        outer: int,
        base: int,
        here: "_Here",
        budget: list[int],
        stack: tuple[Function, ...],
    ) -> Iterator[Step]:
        for item in items:
            if budget[0] <= 0:
                return
            budget[0] -= 1
            guards = here.guards + item.guards[base:]
            inner = here.inner + item.loops[outer:]
            no_grad = here.no_grad or item.no_grad
            evaluation = (
                here.evaluation
                or (item.evaluating and no_grad)
                or any(part.role is LoopRole.EVALUATION for part in item.loops[outer:])
            )
            yield Step(item, scope, guards, inner, here.via, no_grad, evaluation)
            callee = item.callee
            if callee is None or callee.record is None or callee in stack or len(stack) >= _DEEPEST:
                continue
            via = (*here.via, item.call.span) if item.call is not None else here.via
            evaluates = evaluation or self.roles.of_function(callee).evaluates
            there = _Here(guards, inner, via, no_grad, evaluates)
            yield from self._walk(callee.record, callee.record.items, 0, 0, there, budget, (*stack, callee))


@lean
class _Here:
    guards: tuple[Guard, ...]
    inner: tuple[LoopRecord, ...]
    via: tuple[SourceSpan, ...]
    no_grad: bool
    evaluation: bool
