"""A training loop that switches its model to eval mode, with no switch back."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.optimizers import optimizers
from gpudoctor.analysis.source.syntax import is_method_call
from gpudoctor.analysis.source.train_eval_mode import forwards, model_of, switches_to_eval, switches_to_train, thinned
from gpudoctor.model.signs.source import Call, Event, Loop, LoopRole, Source


@dataclass(frozen=True, slots=True)
class LeftInEvalMode:
    """A switch to eval mode in a training that no switch back answers."""

    loop: Loop
    switch: Event
    forward: Event
    """A forward that trains."""


def left_during_training(source: Source) -> Iterator[LeftInEvalMode]:
    """Models that a training loop switches to eval mode and then trains so."""
    for script in source.scripts:
        for loop in script.loops:
            if loop.role in {LoopRole.TRAINING, LoopRole.EPOCHS} and loop.engine is None and loop.confident:
                yield from _stays(source, loop)


def _stays(source: Source, loop: Loop) -> Iterator[LeftInEvalMode]:
    """Switches to eval mode in a pass that no switch back answers, with a forward that trains."""
    events = [event for event in loop.events if event.call is not None]
    evals = [e for e in events if e.call is not None and switches_to_eval(e.call) and not thinned(e)]
    trains = [e for e in events if e.call is not None and switches_to_train(e.call)]
    does = {e.call.method for e in events if e.call is not None}
    if not evals or "backward" not in does or not any("step" in name for name in does):
        return  # gradients of the input, and nothing learns

    def key(event: Event) -> object:
        """Which model an event speaks of: the calls that make it, else its name."""
        assert event.call is not None and isinstance(event.node, ast.Call)
        func = event.node.func
        owner = func.value if isinstance(func, ast.Attribute) and event.call.method in {"eval", "train"} else func
        return event.thing(owner).made or model_of(event.call)

    back = {key(event) for event in trains}
    if back - {key(event) for event in forwards(loop)}:
        return  # another name, an engine that holds the model: it may well be the same one
    if any(e.call is not None and e.call.method == "train" and not _known(e.call) for e in events):
        return  # an engine's, or one of several: nobody can tell whose mode it is
    for switch in evals:
        own = switch.call is not None and model_of(switch.call) == "self"
        if key(switch) in back or (own and back) or not _plain(switch):
            continue  # `self.eval()` in a module: the loop has another name for it
        if _held_fixed(source, switch):
            continue
        for run in forwards(loop):
            if not run.evaluation and not run.no_grad and key(run) == key(switch) and _trained(loop, run):
                yield LeftInEvalMode(loop, switch, run)
                break


def _held_fixed(source: Source, switch: Event) -> bool:
    """Whether the optimizers that the same function builds hold other models only: this one does not learn."""
    assert switch.call is not None
    here = [
        one
        for one in optimizers(source)
        if one.call.function == switch.call.function and one.script.path == switch.span.path
    ]
    name = model_of(switch.call)
    return bool(here) and all(one.whole and name not in one.roots for one in here)


def _known(call: Call) -> bool:
    """Whether a switch is that of a module under a name of its own."""
    return call.name.startswith("torch.nn.") and call.receiver not in {"self", ""} and not call.guessed


def _plain(event: Event) -> bool:
    node = event.node
    owner = node.func.value if is_method_call(node) else None
    return isinstance(owner, ast.Name | ast.Attribute)


def _trained(loop: Loop, run: Event) -> bool:
    """Whether the forward belongs to a training pass: the loop's own, or a training loop inside of it."""
    return loop.role is LoopRole.TRAINING or any(item.role is LoopRole.TRAINING for item in run.inner)
