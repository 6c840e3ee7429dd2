"""Which loops train, which enclose training, which evaluate.

A training loop is the innermost one whose pass holds both a backward pass and an optimizer step, its inner
loops and the functions it calls included: a loop over micro-batches with the step outside is a part of the
pass of the loop around it, unless it is the loop that draws from the data loader.
"""

import re
from dataclasses import field

from gpudoctor.model.signs.source import LoopRole
from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.values import (
    BACKWARD,
    COLLECT,
    EVAL,
    FORWARD,
    GUESS,
    LOADER,
    STEP,
    Function,
    FunctionRecord,
    LoopRecord,
    lean,
)

_LOADER_TEXT = re.compile(r"loader|data_?iter|batches|dataset|minibatch|data_source", re.I)
_EVALUATION_NAME = re.compile(
    r"(?:^|_|\.)(?:evals?|evaluate|evaluation|evaluator|valid|validate|validation|val|test|tests|testing|infer|inference|predict"
    r"|prediction|predictions|score|estimate_loss|benchmark|generate|sample)(?:$|_|\.|\d)",
    re.I,
)
_STEPPING = BACKWARD | STEP


@lean
class Effects:
    """What one call of a scope does."""

    top: int = 0
    """Effects once a call, outside its own training loops."""
    any: int = 0
    """Effects anywhere inside."""
    trains: bool = False
    """Whether a training loop is inside."""
    evaluates: bool = False
    """Whether the whole scope is an evaluation."""


@lean
class _Own:
    flags: int = 0
    any: int = 0
    trains: bool = False
    children: list[LoopRecord] = field(default_factory=list)
    direct: int = 0
    """Flags of the loop's own level, before those of inner loops came up."""
    eval_context: bool = False


_PARTS = re.compile(r"(^|[\W_])(optim\w*|opts|(lr_)?schedulers?|losses)(\.(values|items|keys)\(\)|\)|$)")
"""What holds the optimizers, schedules or losses of a step: `self.optimizers.items()`, `zip(opts, losses)`."""


class Roles:
    """Decides the roles of every loop, scope by scope, callees first."""

    def __init__(self) -> None:
        self._done: dict[FunctionRecord, Effects] = {}
        self._open: set[FunctionRecord] = set()

    def of_function(self, function: Function) -> Effects:
        """The effects of one call of a function."""
        if function.record is None:
            return Effects()
        effects = self.of_scope(function.record, function.called)
        if not (effects.any & _STEPPING or effects.trains):
            named = _EVALUATION_NAME.search(function.name)
            if effects.any & FORWARD and (named or (function.no_grad and effects.any & EVAL)):
                effects.evaluates = True
        return effects

    def of_scope(self, record: FunctionRecord, called: bool = False) -> Effects:
        """The effects of a scope, and the roles of its loops on the way.

        `called` tells that another scope runs it, so that the other half of a training step may be there.
        """
        if record in self._done:
            return self._done[record]
        if record in self._open or len(self._open) > 60:
            return Effects()
        self._open.add(record)
        self._done[record] = effects = self._solve(record, called)
        self._open.discard(record)
        return effects

    def _solve(self, record: FunctionRecord, called: bool) -> Effects:
        own = {loop: _Own() for loop in record.loops}
        top = _Own()
        for loop in record.loops:
            (own.get(loop.parents[-1], top) if loop.parents else top).children.append(loop)
        for item in record.items:
            flags, inside, trains = item.effect, item.effect, False
            if item.callee is not None:
                callee = self.of_function(item.callee)
                flags |= callee.top
                inside |= callee.any
                trains = callee.trains
            if item.no_grad:
                flags &= ~BACKWARD  # it would raise: code for another mode
                inside &= ~BACKWARD
            if not inside and not trains:
                continue
            home = next((own[loop] for loop in reversed(item.loops) if loop in own), top)
            home.flags |= flags
            home.any |= inside
            home.trains = home.trains or trains
            home.eval_context = home.eval_context or item.no_grad or item.evaluating
        total = 0
        for part in (*own.values(), top):
            part.direct = part.flags
            total |= part.any
        half = called and not total & STEP
        for loop in reversed(record.loops):
            self._decide(loop, own, top, half)
        return Effects(top=top.flags, any=top.any, trains=top.trains)

    def _decide(self, loop: LoopRecord, own: dict[LoopRecord, _Own], top: _Own, half: bool) -> None:
        mine = own[loop]
        parent = own.get(loop.parents[-1], top) if loop.parents else top
        above = top.direct
        for outer in loop.parents:
            above |= own.get(outer, top).direct
        flags = mine.flags
        trains = False
        if not mine.trains:
            trains = flags & _STEPPING == _STEPPING
            if not trains and flags & BACKWARD:
                trains = draws(loop) if half or above & STEP else _counts(loop)
            if not trains:
                parent.flags |= flags & (_STEPPING | GUESS)
        parent.any |= mine.any
        parent.trains = parent.trains or mine.trains or trains
        if trains:
            loop.role = LoopRole.TRAINING
            loop.confident = not (flags & GUESS and not flags & BACKWARD)
        elif mine.trains:
            loop.role = LoopRole.EPOCHS
        else:
            self._evaluation(loop, mine)

    def _evaluation(self, loop: LoopRecord, mine: _Own) -> None:
        if mine.any & (_STEPPING | COLLECT) or not mine.any & FORWARD:
            return
        context = loop.no_grad or mine.eval_context
        named = bool(_EVALUATION_NAME.search(loop.iterates) or _EVALUATION_NAME.search(loop.scope.name))
        if (context and (_counts(loop) or named)) or draws(loop):
            loop.role = LoopRole.EVALUATION
        elif named and _counts(loop) and not loop.scope.name.endswith(("forward", "__call__")):
            loop.role = LoopRole.EVALUATION
            loop.confident = False
        else:
            return
        for child in mine.children:
            if child.role is LoopRole.EVALUATION:
                loop.role = LoopRole.OTHER if not draws(loop) else loop.role


def draws(loop: LoopRecord) -> bool:
    """Whether the loop takes its passes from a data loader."""
    source = loop.source
    if source is None:
        return False
    for thing in (source, source.elem, source.over, source.over.over if source.over else None):
        if thing is not None and kind_of(thing.type) == LOADER:
            return True
    return bool(_LOADER_TEXT.search(loop.iterates)) and not loop.iterates.startswith(("range", "trange"))


def _counts(loop: LoopRecord) -> bool:
    """Whether its passes can be steps: a loader, a range, a while; not a list of optimizers or losses."""
    if not loop.iterates:
        return True
    if _PARTS.search(loop.iterates) and not draws(loop):
        return False
    return (
        draws(loop)
        or loop.iterates.startswith(("range", "trange", "tqdm", "enumerate", "itertools", "count"))
        or (loop.source is not None and loop.source.items is None)
    )
