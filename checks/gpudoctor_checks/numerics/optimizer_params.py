"""Optimizers that do not hold what is trained, in the source: of a copy, a replaced layer, another model."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import enclosing, scope_of
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.optimizers import (
    BoundOptimizer,
    assignments_to,
    follows,
    optimizers,
)
from gpudoctor.analysis.source.scopes import Scopes
from gpudoctor.analysis.source.syntax import is_attribute, receiver, walk
from gpudoctor.analysis.source.syntax_places import resolved_calls
from gpudoctor.analysis.source.train_eval_mode import forwards, model_of, resolved
from gpudoctor.lang import say
from gpudoctor.model.signs.source import Call, Script

_BUILDERS = re.compile(
    r"^(torchvision\.models\.(\w+\.)?[a-z]\w*|timm\.create_model|.*\.from_pretrained|copy\.deepcopy|peft\.get_peft_model)$"
)
_ENGINES = ("accelerate.Accelerator.prepare", "deepspeed.initialize", "lightning.Fabric.setup")
_CHILDREN = frozenset({"children", "modules", "values", "named_children", "items"})
"""Methods that hand on the parts of a module."""
_SHARDS = re.compile(r"(^|\.)(FullyShardedDataParallel|FSDP|fully_shard)$")
_WEIGHTED = re.compile(
    r"^torch\.nn\.(Linear|Bilinear|Conv\w+|Embedding\w*|LSTM|GRU|RNN|\w*BatchNorm\w*|LayerNorm|Transformer\w*|"
    r"MultiheadAttention|Parameter|PReLU)$"
)
_HELPERS = re.compile(
    r"teacher|ema|vgg|lpips|percept|criter|loss|target|frozen|ref|reward|vae|text_enc|clip", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class MisboundOptimizer:
    """One such optimizer."""

    bound: BoundOptimizer
    message: str
    breaks: str
    """What is not trained for it."""
    place: ast.AST
    """The guilty place beside the optimizer's call."""
    how: str
    """`copy`, `order`, `frozen` or `other`: which edit mends it."""
    text: str = ""
    """What the optimizer should hold."""


def misheld(program: Program) -> Iterator[MisboundOptimizer]:
    """Such optimizers of a program, those that an engine binds anew left out."""
    bounds = [one for one in optimizers(program.source) if not _prepared(program, one)]
    yield from _alone(program, bounds)
    yield from _between(program, bounds)


def _prepared(program: Program, one: BoundOptimizer) -> bool:
    """Whether an engine binds the optimizer anew, or it gets more parameters later."""
    last = one.name.rsplit(".", 1)[-1]
    for script in program.scripts:
        if any(call.receiver.rsplit(".", 1)[-1] == last for call in script.calls_to(".add_param_group")):
            return True
        if any(True for _ in script.calls_to(*_ENGINES)):
            return True
    return False


def _alone(program: Program, bounds: list[BoundOptimizer]) -> Iterator[MisboundOptimizer]:
    for one in bounds:
        found = _copy(program, one) or _replaced(program, one, bounds) or _all_frozen(program, one)
        if found is not None:
            yield found


def _copy(program: Program, one: BoundOptimizer) -> MisboundOptimizer | None:
    """Parameters of something that nobody else can reach."""
    breaks = say(
        "{optimizer} steps tensors that no model uses, so nothing is trained",
        optimizer=one.name or say("the optimizer"),
    )
    for owner in one.owners:
        call = _call(one.script, owner)
        if call is None or len(one.owners) > 1:
            continue
        if call.name == "copy.deepcopy" and call.node.args:
            text = ast.unparse(call.node.args[0])
            message = say(
                "{optimizer} has the parameters of a copy of {model}, not those of {model}.",
                optimizer=one.name,
                model=text,
            )
            return MisboundOptimizer(one, message, breaks, owner, "copy", text)
        if _builds(program, call) and call.name != "copy.deepcopy":
            message = say(
                "{optimizer} has the parameters of a model built on the spot ({call}).",
                optimizer=one.name,
                call=ast.unparse(owner),
            )
            return MisboundOptimizer(one, message, breaks, owner, "copy")
    given = one.given
    if isinstance(given, ast.Call) and ast.unparse(given.func) == "list" and given.args:
        given = given.args[0]
    text = ast.unparse(given)
    if re.fullmatch(r"[\w.]+\.state_dict\(\)\.values\(\)", text):
        message = say(
            "{optimizer} has the tensors of a state_dict(): they never get gradients.", optimizer=one.name
        )
        return MisboundOptimizer(
            one, message, breaks, one.given, "copy", text.replace("state_dict().values()", "parameters()")
        )
    return None


def _replaced(program: Program, one: BoundOptimizer, bounds: list[BoundOptimizer]) -> MisboundOptimizer | None:
    """A model, or a layer of it, that is replaced after the optimizer was built over it."""
    scope = scope_of(one.script, one.call.node)
    for root in one.roots:
        for node in walk(scope):
            for statement, target, value in _changes(node):
                if not follows(one.script, statement, one.call.node):
                    continue
                if _rebuilt(one, root, statement, bounds) or _used(one, statement):
                    continue
                case = _change(program, one, root, statement, target, value)
                if case is not None:
                    return case
    return None


def _changes(node: ast.AST) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """What a statement replaces, with what: an assignment, or `fully_shard(model)`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield node, ast.unparse(node.targets[0]), node.value
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.value.args:
        yield node, ast.unparse(node.value.args[0]), node.value


def _holds(value: ast.expr, old: str) -> bool:
    """Whether a value is built around what a name held, as `Wrapper(net)` is, and so keeps its parameters.

    `Net(net.config)` and a copy do not.
    """
    waiting: list[ast.expr] = [value]
    while waiting:
        node = waiting.pop()
        if ast.unparse(node) == old:
            return True
        if isinstance(node, ast.Call) and not ast.unparse(node.func).endswith(("deepcopy", "copy")):
            waiting += [*node.args, *(item.value for item in node.keywords)]
            if is_attribute(node.func, *_CHILDREN):
                waiting.append(node.func.value)
        elif isinstance(node, ast.Starred):
            waiting.append(node.value)
        elif isinstance(node, ast.List | ast.Tuple):
            waiting += node.elts
        elif isinstance(node, ast.Dict):
            waiting += node.values
    return False


def _inner(script: Script, value: ast.expr) -> Iterator[Call]:
    """The calls among a call's arguments."""
    for node in walk(value):
        if isinstance(node, ast.Call) and node is not value:
            found = _call(script, node)
            if found is not None:
                yield found


def _change(
    program: Program, one: BoundOptimizer, root: str, statement: ast.stmt, target: str, value: ast.expr
) -> MisboundOptimizer | None:
    call = _call(one.script, value)
    if call is None:
        return None
    line, name = getattr(statement, "lineno", 0), one.name or say("the optimizer")
    stale = say("{name} steps the old parameters, so the model is not trained", name=name)
    if target == root and _SHARDS.search(call.name):
        message = say(
            "{name} is built before {root} is sharded (line {line}): it has the earlier parameters.",
            name=name,
            root=root,
            line=line,
        )
        return MisboundOptimizer(one, message, stale, statement, "order")
    if not isinstance(statement, ast.Assign):
        return None
    if call.name != "peft.get_peft_model" and _holds(value, target):
        added = next((item for item in _inner(one.script, value) if _weighted(program, item)), None)
        if added is None or not (target == root or target.startswith(root + ".")):
            return None
        new = ast.unparse(added.node)
        message = say(
            "{name} is built before line {line} adds {new} to {target}: the new layer is not in it.",
            name=name,
            line=line,
            new=new,
            target=target,
        )
        return MisboundOptimizer(one, message, say("{new} is never trained", new=new), statement, "order")
    if target == root and call.name == "peft.get_peft_model":
        message = say(
            "{name} is built before {root} gets its adapters (line {line}): it has only the frozen base.",
            name=name,
            root=root,
            line=line,
        )
        return MisboundOptimizer(one, message, stale, statement, "order")
    if target == root and (_builds(program, call) or call.name == "torch.load"):
        message = say(
            "{name} is built over {root}, and line {line} puts a new model in its place.",
            name=name,
            root=root,
            line=line,
        )
        return MisboundOptimizer(one, message, stale, statement, "order")
    if target.startswith(root + ".") and _weighted(program, call):
        message = say(
            "{name} is built before {target} is replaced (line {line}): the new layer is not in it.",
            name=name,
            target=target,
            line=line,
        )
        return MisboundOptimizer(
            one, message, say("{target} is never trained", target=target), statement, "order"
        )
    return None


def _rebuilt(one: BoundOptimizer, root: str, statement: ast.stmt, bounds: list[BoundOptimizer]) -> bool:
    """Whether a later optimizer takes over, or the change comes before any use of this one."""
    return any(
        other is not one
        and other.script is one.script
        and root in other.roots
        and (other.call.span.line, other.call.span.column) > (statement.lineno, statement.col_offset)
        for other in bounds
    )


def _used(one: BoundOptimizer, statement: ast.stmt) -> bool:
    """Whether the optimizer has been at work before a statement, or is not used after it at all."""
    scope = scope_of(one.script, one.call.node)
    word = re.compile(rf"(?<![\w.]){re.escape(one.name)}\b")
    schedulers = {
        call.node for call in one.script.calls if "lr_scheduler" in call.name or "sched" in call.method
    }
    later = "." in one.name
    for node in walk(scope):
        if not isinstance(node, ast.Call | ast.Return) or node is one.call.node or node in schedulers:
            continue
        if node.lineno >= one.call.span.line and one.name and word.search(ast.unparse(node)):
            if node.lineno < statement.lineno:
                return True
            later = later or node.lineno > statement.lineno
    return not later


def _all_frozen(program: Program, one: BoundOptimizer) -> MisboundOptimizer | None:
    """All parameters frozen, always, and nothing unfrozen or added."""
    if not one.whole or len(one.roots) != 1:
        return None
    root = one.roots[0]
    scope = scope_of(one.script, one.call.node)
    freezes = [node for node in walk(scope) if _freezes(node, root)]
    if not freezes or not follows(one.script, one.call.node, freezes[0]):
        return None
    line = getattr(freezes[0], "lineno", 0)
    for script in program.scripts:
        if re.search(
            r"requires_grad\s*=(?!=|\s*False)|requires_grad_\((?!False)|unfreeze|set_requires", script.text
        ):
            return None
    word = re.compile(rf"\b{re.escape(root)}\b")
    for node in walk(scope):
        at = getattr(node, "lineno", 0)
        if isinstance(node, ast.Assign) and at >= line and word.search(ast.unparse(node.targets[0])):
            return None
        between = isinstance(node, ast.Call) and line < at < one.call.span.line
        if between and any(word.search(ast.unparse(item)) for item in getattr(node, "args", [])):
            return None
    return MisboundOptimizer(
        one,
        say(
            "{optimizer} holds {model}.parameters(), and line {line} froze all of them.",
            optimizer=one.name,
            model=root,
            line=line,
        ),
        say("no parameter of {root} requires a gradient, so backward() fails or nothing is trained", root=root),
        freezes[0],
        "frozen",
    )


def _freezes(node: ast.AST, root: str) -> bool:
    if isinstance(node, ast.For) and ast.unparse(node.iter) == f"{root}.parameters()" and len(node.body) == 1:
        text = ast.unparse(node.body[0])
        return bool(re.fullmatch(r"\w+\.requires_grad = False|\w+\.requires_grad_\(False\)", text))
    return isinstance(node, ast.Expr) and ast.unparse(node) == f"{root}.requires_grad_(False)"


def _between(program: Program, bounds: list[BoundOptimizer]) -> Iterator[MisboundOptimizer]:
    """Optimizers against the models that a training loop runs with gradients."""
    for script, loop in program.loops:
        if loop.engine is not None:
            continue
        here = [one for one in bounds if one.script is script and _steps(one, loop.calls(".step"))]
        if not here or any(not one.whole or len(one.roots) != 1 for one in here) or len(here) != len(bounds):
            continue
        scopes = Scopes(program.source, loop)
        used = {
            str(resolved(scopes, model_of(event.call), event.via)[1]): event
            for event in forwards(loop)
            if event.call is not None and not event.no_grad and not event.evaluation
        }
        roots = [one.roots[0] for one in here]
        built = {name for name in used if _constructed(program, script, name) and not _HELPERS.search(name)}
        missing = sorted(built - set(roots))
        # Of one name, the later optimizer takes the place of the earlier.
        twice = [
            one
            for index, one in enumerate(here)
            if any(one.roots == other.roots and one.name != other.name for other in here[:index])
        ]
        if len(missing) != 1 or _mentioned(here, missing[0]):
            continue
        name = missing[0]
        if twice:
            other = roots[0]
            message = say(
                "{optimizer} holds {model}.parameters() as another optimizer does; {trained}, which the "
                "loop trains, is in none.",
                optimizer=twice[0].name,
                model=twice[0].roots[0],
                trained=name,
            )
            yield MisboundOptimizer(
                twice[0],
                message,
                say("{model} is never trained", model=name),
                here[0].call.node,
                "other",
                other,
            )
        elif len(here) == 1 and len(used) == 1 and _separate(program, script, roots[0], name):
            word = re.compile(rf"\b{re.escape(roots[0])}\b")
            if not any(word.search(event.span.text) for event in loop.events):
                message = say(
                    "{here} holds the parameters of {root}, and the loop trains {name}.",
                    here=here[0].name,
                    root=roots[0],
                    name=name,
                )
                yield MisboundOptimizer(
                    here[0],
                    message,
                    say("{model} is never trained", model=name),
                    used[name].node,
                    "other",
                    name,
                )


def _steps(one: BoundOptimizer, events: Iterator[object]) -> bool:
    last = one.name.rsplit(".", 1)[-1]
    return any(last in ast.unparse(getattr(event, "node", ast.Pass())) for event in events)


def _constructed(program: Program, script: Script, name: str) -> bool:
    """Whether a plain name is bound once, to a model that is built there."""
    values = list(assignments_to(script.tree, name))
    call = _call(script, values[0][1]) if len(values) == 1 else None
    while call is not None and call.method in {"to", "cuda", "train", "float"}:
        owner = receiver(call.node)
        call = _call(script, owner) if owner is not None else None
    return call is not None and (_builds(program, call) or call.name == "torch.nn.Sequential")


def _separate(program: Program, script: Script, root: str, name: str) -> bool:
    """Whether two models are built apart: neither is made of the other."""
    if not _constructed(program, script, root):
        return False
    pairs = ((root, name), (name, root))
    return not any(
        re.search(rf"\b{re.escape(other)}\b", ast.unparse(value))
        for mine, other in pairs
        for _, value in assignments_to(script.tree, mine)
    )


def _mentioned(here: list[BoundOptimizer], name: str) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", ast.unparse(one.call.node)) for one in here)


def _call(script: Script, node: ast.expr | None) -> Call | None:
    return resolved_calls(script).get(node) if isinstance(node, ast.Call) else None


def _builds(program: Program, call: Call) -> bool:
    """Whether a call makes a model with new parameters."""
    if _BUILDERS.match(call.name):
        return not call.name.endswith("from_pretrained") or bool(re.search(r"Model|For[A-Z]", call.name))
    for script in program.scripts:
        info = script.classes.get(call.method)
        if info is not None and not call.receiver:
            return any(base.startswith("torch.nn.") for base in info.bases)
    return _weighted(program, call)


def _weighted(program: Program, call: Call) -> bool:
    """Whether a layer has parameters: a known one, a Sequential with one, a module class of the program."""
    if _WEIGHTED.match(call.name):
        return True
    if call.name == "torch.nn.Sequential":
        return any(
            _WEIGHTED.match(other.name)
            for script in program.scripts
            for other in script.calls
            if any(above is call.node for above in enclosing(script, other.node))
        )
    return False
