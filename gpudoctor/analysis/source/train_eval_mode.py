"""Train and eval mode, and gradients switched off, around the loops of a program."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import callers, enclosing
from gpudoctor.analysis.source.optimizers import optimizers
from gpudoctor.analysis.source.syntax import FunctionNode
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Event, GuardKind, Loop, LoopRole, Script, Source

_GRADIENT_OFF = re.compile(r"no_grad|inference_mode|set_grad_enabled|eval_mode|inference|evaluating")
_NO_NETWORKS = re.compile(r"Loss|Tokenizer|Processor$|Extractor$|Collator")
"""Classes of torch and transformers that are called like a network and are none."""


def forwards(loop: Loop) -> Iterator[Event]:
    """Calls of models in a pass, the outermost ones: no losses, no layers inside of a model's own forward."""
    inside: set[object] = set()
    for event in loop.events:
        call = event.call
        if call is None or not is_forward(call):
            continue
        if inside & set(event.via):
            continue
        inside.add(event.span)
        yield event


def is_forward(call: Call) -> bool:
    """Whether a call runs a model."""
    last = call.name.removesuffix(".__call__").rpartition(".")[2]
    library = call.name.startswith(("torch.nn.", "transformers.", "peft.")) and call.name.endswith(".__call__")
    return library and not _NO_NETWORKS.search(last) and ".functional." not in call.name


def model_of(call: Call) -> str:
    """The model that a forward or a mode switch speaks of, as written, without `.module`."""
    node = call.node.func
    text = ast.unparse(node.value if isinstance(node, ast.Attribute) and call.method in {"eval", "train"} else node)
    return text.removesuffix(".module")


def switches_to_eval(call: Call) -> bool:
    """Whether a call puts a model into eval mode."""
    return call.method == "eval" and not call.node.args and _a_model(call)


def _a_model(call: Call) -> bool:
    owner = call.name.rpartition(".")[0]
    return owner.startswith("torch.nn.") or (owner.startswith(("transformers.", "peft.")) and "Trainer" not in owner)


def off_inside(run: Event, loop: Loop) -> bool:
    """Whether a network switches gradients off itself, in all that its forward runs."""
    inner = [event for event in loop.events if event.via == (*run.via, run.span) and event.call is not None]
    networks = [event for event in inner if event.call is not None and is_forward(event.call)]
    return bool(networks) and all(event.no_grad for event in networks)


def without_gradient(source: Source, script: Script, node: ast.AST, function: str, depth: int = 4) -> bool:
    """Whether gradients are off around a place, by a with, a decorator or a switch, here or at its callers."""
    for above in enclosing(script, node):
        switches: list[ast.expr] = []
        if isinstance(above, ast.With | ast.AsyncWith):
            switches = [item.context_expr for item in above.items]
        elif isinstance(above, FunctionNode):
            switches = above.decorator_list
        if any(_GRADIENT_OFF.search(ast.unparse(item)) for item in switches):
            return True
    if any(True for _ in script.calls_to(".set_grad_enabled")):
        return True
    return depth > 0 and any(
        without_gradient(source, other, call.node, call.function, depth - 1)
        for other, call in callers(source, script.path, function)
    )


@frozen(kw_only=False)
class LeftInEvalMode:
    """A switch to eval mode in a training that no switch back answers."""

    loop: Loop
    switch: Event
    forward: Event
    """A forward that trains."""


def left_during_training(source: Source) -> Iterator[LeftInEvalMode]:
    """Models that a training loop switches to eval mode and then trains so; none where it calls any `train()`."""
    for script in source.scripts:
        for loop in script.loops:
            if loop.role not in {LoopRole.TRAINING, LoopRole.EPOCHS} or loop.engine is not None or not loop.confident:
                continue
            calls = [event.call for event in loop.events if event.call is not None]
            does = {call.method for call in calls if call.method != "train" or not call.home}
            if "eval" not in does or "train" in does or "backward" not in does or not any("step" in it for it in does):
                continue
            for switch in loop.events:
                thin = any(guard.never or guard.kind in (GuardKind.ONCE, GuardKind.FAILURE) for guard in switch.guards)
                if switch.call is None or not switches_to_eval(switch.call) or thin:
                    continue
                runs = (run for run in forwards(loop) if _trains(loop, run) and _same(run, switch))
                run = next(runs, None)
                if run is not None and not _held_fixed(source, switch):
                    yield LeftInEvalMode(loop, switch, run)


def _trains(loop: Loop, run: Event) -> bool:
    """Whether a forward belongs to a training pass: the loop's own, or a training loop inside of it."""
    inside = loop.role is LoopRole.TRAINING or any(item.role is LoopRole.TRAINING for item in run.inner)
    return inside and not run.evaluation and not run.no_grad


def _same(run: Event, switch: Event) -> bool:
    """Whether a forward and a switch speak of one model, under a name of its own."""
    assert run.call is not None and isinstance(switch.node, ast.Call) and switch.call is not None
    owner = switch.node.func.value if isinstance(switch.node.func, ast.Attribute) else switch.node.func
    forward = run.node.func if isinstance(run.node, ast.Call) else run.node
    made = switch.thing(owner).made
    name = model_of(switch.call)
    return name != "self" and (model_of(run.call) == name or (bool(made) and run.thing(forward).made == made))


def _held_fixed(source: Source, switch: Event) -> bool:
    """Whether the optimizers that the same function builds hold other models only: this one does not learn."""
    assert switch.call is not None
    where = (switch.span.path, switch.call.function)
    here = [one for one in optimizers(source) if (one.script.path, one.call.function) == where]
    name = model_of(switch.call)
    return bool(here) and all(one.whole and name not in one.roots for one in here)
