"""How often a call runs in a training loop."""

import ast
import math
import re
from collections.abc import Callable, Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import bound
from gpudoctor.lang import say
from gpudoctor.model import Threshold
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.source import Call, Event, Guard, GuardKind, Known, Loop, LoopRole, Script, Source

_EPOCH = re.compile(r"epoch|episode|^ep$|^e$|^round$")
_MEASURES = re.compile(
    r"(?:^|[_./\\-])(?:bench(?:mark\w*|ing)?|profil\w*|timing|timeit|latency|throughput|speed_?test)"
)


_MEASUREMENT = 50
"""Steps of a loop that is known to end within them: a measurement or a demonstration, five times the 5 to 10 steps that
torch.profiler's recipe records.
"""


@frozen(kw_only=False)
class TrainingCall:
    """A call that a training loop repeats."""

    script: Script
    """The script that holds the loop."""
    loop: Loop
    event: Event
    call: Call
    period: float
    """Training steps between two calls."""

    def at_most(self, times: float) -> bool:
        """Whether the loop is known to end before the call has run more often."""
        steps = bound(self.script, self.loop)
        return steps is not None and steps / self.period <= times


def calls_in_training(
    source: Source,
    match: Callable[[TrainingCall], object],
    *,
    every: float = math.inf,
    skip: Callable[[Loop], bool] | None = None,
    distinct: bool = False,
    assume: Callable[[Guard], bool] | None = None,
) -> Iterator[list[TrainingCall]]:
    """For each training loop that is not skipped, the matching calls that run more often than `every` steps.

    A loop that is known to end within a few steps is a measurement, and is skipped. The calls come in the order of
    a pass. A call that several loops reach is given with the first of them; one that a pass reaches on several ways
    comes once for each, or at the first alone if `distinct`. Conditions that `assume` names are taken as true.
    """
    reached: set[ast.AST] = set()
    for script, loop in source.training_loops:
        if (skip is not None and skip(loop)) or brief(script, loop, _MEASUREMENT):
            continue
        found: list[TrainingCall] = []
        new: set[ast.AST] = set()
        for item in _repeated(script, loop, assume):
            node = item.call.node
            if item.period < every and node not in reached and not (distinct and node in new) and match(item):
                new.add(node)
                found.append(item)
        reached |= new
        if found:
            yield found


@once
def _repeated(script: Script, loop: Loop, assume: Callable[[Guard], bool] | None) -> tuple[TrainingCall, ...]:
    return tuple(
        TrainingCall(script, loop, event, event.call, period)
        for event in loop.events
        if event.call is not None and (period := step_period(event, assume)) is not None
    )


def step_period(event: Event, assume: Callable[[Guard], bool] | None = None) -> float | None:
    """Training steps between two runs; None when it does not run step by step, or nobody can tell.

    Conditions that `assume` names are taken as true.
    """
    if assume is not None:
        event = replace(event, guards=tuple(guard for guard in event.guards if not assume(guard)))
    if event.evaluation or any(inner.role in (LoopRole.TRAINING, LoopRole.EVALUATION) for inner in event.inner):
        return None
    return known_period(event)


def known_period(event: Event) -> float | None:
    """Passes between two runs of a loop's event; None where one run or none is known, or nobody can tell."""
    if not event.guards:
        return 1.0
    if any(guard.never or guard.kind in (GuardKind.ONCE, GuardKind.FAILURE) for guard in event.guards):
        return None
    period = event.period
    if isinstance(period, Known) and isinstance(period.value, int | float) and period.value >= 1:
        return float(period.value)
    return None


def often(period: float) -> str:
    """The period in words: `on every training step`, `every 5 training steps`."""
    return say("on every training step") if period == 1 else say("every {period:g} training steps", period=period)


def full_batch(loop: Loop) -> bool:
    """Whether one pass is a whole epoch (`for epoch in range(200)` over one graph or one matrix)."""
    return any(_EPOCH.search(target.lower()) for target in loop.targets)


def measures(loop: Loop) -> bool:
    """Whether the loop is there to be timed: a file or a function that says benchmark or profile."""
    name = loop.span.path.replace("\\", "/").rpartition("/")[2]
    return bool(_MEASURES.search(name.lower()) or _MEASURES.search(loop.function.lower()))


MEASUREMENT_STEPS = Threshold(
    "measurement_steps",
    20,
    "{step}",
    "convention: benchmarks and demonstrations of an interface make 5 to 20 steps",
    "A loop known to end within this many steps is a measurement, not a training.",
)
"""Of checks that ask whether a loop is `brief`."""


def brief(script: Script, loop: Loop, most: float) -> bool:
    """Whether the loop, with those around it, is known to end within so many passes."""
    total = 1
    for part in (loop, *loop.parents):
        passes = bound(script, part)
        if passes is None or (total := total * passes) > most:
            return False
    return True


def option_of(event: Event) -> str:
    """The command-line option that its period comes from, `--save-every`; else ""."""
    for guard in event.guards:
        if guard.kind is GuardKind.PERIOD and isinstance(guard.period, Known):
            origin = guard.period.origin
            if origin.startswith("default of --"):
                return origin.removeprefix("default of ")
    return ""
