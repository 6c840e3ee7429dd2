"""The mode that a model is in, by what ran before: where a function takes it over, or in a loop's pass."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import callers, calls_function, enclosing, statement
from gpudoctor.analysis.source.optimizers import follows, optimizers
from gpudoctor.analysis.source.scopes import Scopes, handed
from gpudoctor.analysis.source.syntax import is_method_call, is_name, nodes
from gpudoctor.analysis.source.train_eval_mode import (
    forwards,
    model_of,
    resolved,
    switches_to_eval,
    switches_to_train,
    thinned,
)
from gpudoctor.model.signs.source import Call, Event, Loop, LoopRole, Script, Source

_DEPTH = 4


@dataclass(frozen=True, slots=True)
class LeftInEvalMode:
    """A switch to eval mode in a training that no switch back answers."""

    loop: Loop
    switch: Event
    forward: Event
    """A forward that trains."""


def left_in_eval_mode(
    source: Source, script: Script, function: str, node: ast.AST, model: str, depth: int = _DEPTH
) -> bool:
    """Whether a model is in eval mode at a place: what ran before left it so, here or at every caller."""
    start = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    for call in reversed(script.calls):
        if call.function == function and (call.node.lineno, call.node.col_offset) < start:
            mode = _leaves(source, script, call, model, depth)
            if mode is not None:
                return mode == "eval" and follows(script, node, call.node)
    sites = callers(source, function) if depth else []
    given = [_argument(source, function, site, model) for _, site in sites]
    return bool(sites) and all(
        text is not None and left_in_eval_mode(source, other, site.function, site.node, text, depth - 1)
        for (other, site), text in zip(sites, given, strict=True)
    )


def _leaves(source: Source, script: Script, call: Call, model: str, depth: int) -> str | None:
    """The mode that a call leaves a model in, `eval` or `train`; None where it does not set it.

    `train`, too, where it may be either: a switch behind a condition, functions of one name that differ.
    """
    if switches_to_eval(call) or switches_to_train(call):
        if model_of(call) != model:
            return None
        surely = not call.guards or in_the_last_phase(script, call.node)
        return "eval" if switches_to_eval(call) and surely else "train"
    found = set()
    for home, function in _functions(source).get(call.method, ()) if depth else ():
        if not calls_function(call, function):
            continue
        name = _parameter(source, function, call, model) or _returned(source, script, function, call, model)
        if name is None and model in {ast.unparse(item) for item in call.node.args}:
            return "train"  # one of several functions of that name: nobody can tell what it does
        for inner in reversed(home.calls) if name is not None else ():
            inside = inner.function == function and name
            mode = _leaves(source, home, inner, name, depth - 1) if inside and name else None
            if mode is not None:
                surely = not inner.guards or in_the_last_phase(home, inner.node)
                found.add(mode if surely else "train")
                break
    return None if not found else "eval" if found == {"eval"} else "train"


def _returned(source: Source, script: Script, function: str, call: Call, model: str) -> str | None:
    """The name under which a function has what it returns, where a model is set to that."""
    place = statement(script, call.node)
    if not isinstance(place, ast.Assign) or place.value is not call.node:
        return None
    if [ast.unparse(target) for target in place.targets] != [model]:
        return None
    definitions = _definitions(source).get(function.rpartition(".")[2], [])
    backs = {
        ast.unparse(node.value)
        for definition in definitions
        for node in ast.walk(definition)
        if isinstance(node, ast.Return) and node.value is not None
    }
    return backs.pop() if len(definitions) == 1 and len(backs) == 1 else None


def in_the_last_phase(script: Script, node: ast.AST) -> bool:
    """Whether all that guards a statement is the phase of a loop that ends with this one:
    `for phase in ["train", "val"]: if phase == "train": model.train() else: model.eval()`.
    """
    above = list(enclosing(script, node))
    tests = [item for item in above if isinstance(item, ast.If)]
    loop = next((item for item in above if isinstance(item, ast.For)), None)
    if len(tests) != 1 or loop is None or not isinstance(loop.iter, ast.List | ast.Tuple) or not loop.iter.elts:
        return False
    last, test = loop.iter.elts[-1], tests[0].test
    if not isinstance(loop.target, ast.Name) or not isinstance(last, ast.Constant):
        return False
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.NotEq)):
        return False
    sides = (test.left, test.comparators[0])
    named = [side for side in sides if is_name(side, loop.target.id)]
    other = next((side for side in sides if isinstance(side, ast.Constant)), None)
    if not named or other is None:
        return False
    holds = (other.value == last.value) is isinstance(test.ops[0], ast.Eq)
    return holds is any(node is part for item in tests[0].body for part in ast.walk(item))


def _argument(source: Source, function: str, site: Call, name: str) -> str | None:
    """What a call gives as the model that a function has under a name."""
    if name.startswith("self."):
        return name if site.receiver == "self" else None
    given = _given(source, function, site).get(name)
    if given is not None:
        return ast.unparse(given).removesuffix(".module")
    return name if not site.function and _is_global(source, function, name) else None


def _is_global(source: Source, function: str, name: str) -> bool:
    """Whether a function has a name from its module: not a parameter, and nothing in it is assigned to it."""
    found = _definitions(source).get(function.rpartition(".")[2], [])
    if len(found) != 1 or "." in name:
        return False
    spec = found[0].args
    own = {arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    names = (node for node in ast.walk(found[0]) if isinstance(node, ast.Name))
    return name not in own | {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _parameter(source: Source, function: str, site: Call, model: str) -> str | None:
    """The name under which a function has a model that a call gives it."""
    if model.startswith("self.") and site.receiver == "self":
        return model
    for parameter, given in _given(source, function, site).items():
        if ast.unparse(given).removesuffix(".module") == model:
            return parameter
    return None


def _given(source: Source, function: str, site: Call) -> Mapping[str, ast.expr]:
    """The parameters of a function with what a call gives for them."""
    last = function.rpartition(".")[2]
    nodes_found = _definitions(source).get(last, [])
    return (handed(nodes_found[0], site.node) or {}) if len(nodes_found) == 1 else {}


@once
def _definitions(source: Source) -> Mapping[str, list[ast.FunctionDef]]:
    """The functions and methods of a program by their last names."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for script in source.scripts:
        for node in nodes(script, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


@once
def _functions(source: Source) -> Mapping[str, list[tuple[Script, str]]]:
    """The functions of a program that call something, by their last names."""
    found: dict[str, list[tuple[Script, str]]] = {}
    for script in source.scripts:
        for function in sorted({call.function for call in script.calls if call.function}):
            found.setdefault(function.rpartition(".")[2], []).append((script, function))
    return found


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
    scopes = Scopes(source, loop)

    def key(event: Event) -> object:
        assert event.call is not None
        return resolved(scopes, model_of(event.call), event.via)

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
