"""Models that are the moving average (or the copy) of another one, and where both meet in a loss.

Mean teachers, momentum encoders and target networks get their weights from the model that is trained: a loop
over the parameters of both writes the one's from the other's. They are teachers, whatever they are called.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import enclosing, scope_of
from gpudoctor.analysis.source.syntax import is_attribute, is_method_call, is_name, nodes, root_name
from gpudoctor.analysis.source.train_eval_mode import without_gradient
from gpudoctor.model.signs.source import Call, Script, Source

_WEIGHTS = re.compile(r"^(?:.*\.)?(?:named_)?parameters$")
_WRITES = frozenset({"copy_", "lerp_", "mul_", "add_", "set_", "sub_"})
_CUTS = frozenset({"detach", "detach_", "data", "item", "numpy", "tolist", "stop_gradient"})
_COPIES = re.compile(r"\.(?:data\.)?copy_\(\s*[\w.]+\s*\)$")
"""A plain copy at the start makes nobody a teacher: pretrained weights are copied so, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """A model whose weights come from another one while that is trained."""

    name: str
    """Last part of its name: `teacher` of `self.teacher`."""
    source: str
    """Last part of the name of the model that is averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """A function in which outputs of both go into one expression, with gradients of both."""

    average: Average
    script: Script
    call: Call
    """Where the average is called."""


def averages(source: Source) -> list[Average]:
    """The averaged models of a program, each once."""
    found: dict[tuple[str, str], Average] = {}
    for script in source.scripts:
        for loop in nodes(script, ast.For):
            for kept, given in _updated(source, script, loop):
                names = (_last(kept), _last(given))
                if names[0] != names[1]:
                    found[names] = Average(name=names[0], source=names[1])
    return list(found.values())


def meetings(source: Source) -> Iterator[Meeting]:
    """Where an average runs with gradients and meets the model that it follows."""
    for average in averages(source):
        for script in source.scripts:
            for call in script.calls:
                if _last(ast.unparse(call.node.func)) != average.name or not call.node.args:
                    continue
                if _meet(scope_of(script, call.node), call.node, average) and not without_gradient(
                    source, script, call.node, call.function
                ):
                    yield Meeting(average=average, script=script, call=call)


def _updated(source: Source, script: Script, loop: ast.For) -> Iterator[tuple[str, str]]:
    """The models of a loop over two sets of weights that writes one from both, as written at its calls."""
    pair = _zipped(loop)
    if pair is None:
        return
    targets, models = pair
    text = [ast.unparse(statement) for statement in loop.body]
    for mine, other in ((0, 1), (1, 0)):
        if any(_writes(part, targets[mine]) for part in loop.body) and not all(map(_COPIES.search, text)):
            yield from _where_called(source, script, loop, (models[mine], models[other]))


def _zipped(loop: ast.For) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Targets and models of `for a, b in zip(x.parameters(), y.parameters())`."""
    head = loop.iter
    if not (isinstance(head, ast.Call) and ast.unparse(head.func) == "zip" and len(head.args) == 2):
        return None
    models = [
        ast.unparse(one.func.value)
        for one in head.args
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and _WEIGHTS.match(one.func.attr)
    ]
    names = [_weight(one) for one in loop.target.elts] if isinstance(loop.target, ast.Tuple) else []
    if len(models) != 2 or len(names) != 2 or not all(names):
        return None
    return (names[0], names[1]), (models[0], models[1])


def _weight(target: ast.expr) -> str:
    """The name of a weight: of `(name, weight)` the second."""
    last = target.elts[-1] if isinstance(target, ast.Tuple) and target.elts else target
    return last.id if isinstance(last, ast.Name) else ""


def _writes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement changes the tensor of a name in place."""
    for node in ast.walk(statement):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.AugAssign):
            assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
            targets = [one for one in assigned if is_attribute(one, "data")]
        elif is_method_call(node, *_WRITES):
            targets = [node.func.value]
        if any(root_name(one) == name for one in targets):
            return True
    return False


def _where_called(source: Source, script: Script, loop: ast.For, models: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """The two models; where they are parameters of the function, the arguments of each of its calls."""
    function = next((one for one in enclosing(script, loop) if isinstance(one, ast.FunctionDef)), None)
    names = [item.arg for item in function.args.args] if function is not None else []
    if function is None or not any(model in names for model in models):
        yield models
        return
    for other in source.scripts:
        for call in other.calls:
            if call.method == function.name:
                given = [_argument(call.node, names, model) for model in models]
                if all(given):
                    yield given[0], given[1]


def _argument(call: ast.Call, names: Sequence[str], name: str) -> str:
    """What a call gives for a parameter, as written; the name itself where it is none."""
    if name not in names:
        return name
    for keyword in call.keywords:
        if keyword.arg == name:
            return ast.unparse(keyword.value)
    shift = 1 if names[:1] in (["self"], ["cls"]) else 0
    place = names.index(name) - shift
    return ast.unparse(call.args[place]) if 0 <= place < len(call.args) else ""


def _meet(body: ast.AST, call: ast.Call, average: Average) -> bool:
    """Whether what the average gives, never cut off, goes into one expression with what the other gives."""
    theirs = _derived(body, lambda node: node is call)
    ours = _derived(body, lambda node: _calls(node, average.source))
    if any(_cuts(node, call, theirs) for node in ast.walk(body)):
        return False
    return any(
        isinstance(node, ast.Call | ast.BinOp) and _mentions(node, theirs) and _mentions(node, ours)
        for node in ast.walk(body)
    )


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and _last(ast.unparse(node.func)) == name


def _cuts(node: ast.AST, call: ast.Call, theirs: set[str]) -> bool:
    """Whether a node takes what the average gives out of the graph."""
    if is_attribute(node, *_CUTS):
        return _mentions(node.value, theirs) or any(part is call for part in ast.walk(node.value))
    return any(_calls(node, name) for name in _CUTS) and _mentions(node, theirs)


def _derived(body: ast.AST, begins: Callable[[ast.AST], bool]) -> set[str]:
    """Names that get their value from a node of a kind, through assignments of the function."""
    assigned = [node for node in ast.walk(body) if isinstance(node, ast.Assign)]
    found: set[str] = set()
    while True:
        new = {
            part.id
            for node in assigned
            if any(map(begins, ast.walk(node.value))) or _mentions(node.value, found)
            for target in node.targets
            for part in ast.walk(target)
            if isinstance(part, ast.Name) and part.id != "_"
        } - found
        if not new:
            return found
        found |= new


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(is_name(part, *names) for part in ast.walk(node))


def _last(text: str) -> str:
    """The last part of a name, without what wraps a model: `student` of `self.student.module`."""
    return text.removesuffix(".module").rpartition(".")[2]
