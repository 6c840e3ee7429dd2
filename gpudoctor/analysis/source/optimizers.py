"""Optimizers with the models whose parameters they get, and the networks that a training computes with."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import FUNCTIONS, bound_to, enclosing, scope_of
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.scopes import owned_names, parameters
from gpudoctor.analysis.source.syntax import is_attribute, is_method_call, is_name, keyword_value, nodes, parents, walk
from gpudoctor.analysis.source.syntax_places import resolved_calls
from gpudoctor.model.signs.source import Call, Script, Source

_CLASSES = re.compile(
    r"^(torch\.optim\.(?!lr_scheduler|swa_utils|Optimizer$)[A-Z]\w*|bitsandbytes\.optim\.\w+|torch_optimizer\.[A-Z]\w*"
    r"|transformers\.(optimization\.)?(AdamW|Adafactor)|lion_pytorch\.Lion|apex\.optimizers\.\w+)$"
)
_GIVES = frozenset({"parameters", "named_parameters"})
_CONDITIONS = (ast.If, ast.Try, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.Match)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundOptimizer:
    """One place where an optimizer is built over parameters that can be told."""

    script: Script
    call: Call
    name: str
    """What holds the optimizer."""
    owners: tuple[ast.expr, ...]
    """The expressions whose `.parameters()` it was given, `model` or `copy.deepcopy(model)`."""
    whole: bool
    """Whether it was given nothing but `owner.parameters()`."""
    given: ast.expr
    """Its first argument."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The owners that are names or attributes, as written."""
        return tuple(ast.unparse(item) for item in self.owners if isinstance(item, ast.Name | ast.Attribute))


def optimizers(source: Source) -> tuple[BoundOptimizer, ...]:
    """Every optimizer of a program whose parameters the text tells."""
    return tuple(one for script in source.scripts for one in _of_script(script))


@once
def _of_script(script: Script) -> tuple[BoundOptimizer, ...]:
    found = []
    for call in script.calls:
        if not _CLASSES.match(call.name):
            continue
        given = keyword_value(call.node, "params")
        given = given or (call.node.args[0] if call.node.args else None)
        if given is None or isinstance(given, ast.Starred):
            continue
        expression = _followed(script, call, given)
        owners = tuple(_owners(expression))
        whole = isinstance(expression, ast.Call) and len(owners) == 1 and _plain(expression)
        name = bound_to(script, call.node)
        found.append(BoundOptimizer(script=script, call=call, name=name, owners=owners, whole=whole, given=given))
    return tuple(found)


def _plain(expression: ast.Call) -> bool:
    """Whether a call is `owner.parameters()` and nothing else."""
    function = expression.func
    return is_attribute(function, *_GIVES) and not expression.args


def _followed(script: Script, call: Call, given: ast.expr) -> ast.expr:
    """The value of a name that is assigned once in the function, else the expression itself."""
    if not isinstance(given, ast.Name):
        return given
    scope = scope_of(script, call.node)
    values = [
        node.value
        for node in walk(scope)
        if isinstance(node, ast.Assign)
        and any(is_name(target, given.id) for target in node.targets)
        and node.lineno < call.span.line
    ]
    return values[0] if len(values) == 1 else given


def _owners(expression: ast.expr) -> Iterator[ast.expr]:
    for node in walk(expression):
        if is_method_call(node, *_GIVES):
            owner = node.func.value
            while is_attribute(owner, "module"):
                owner = owner.value
            yield owner


def assignments_to(scope: ast.AST, text: str) -> Iterator[tuple[ast.Assign, ast.expr]]:
    """Assignments to a name or attribute in a function, with the value that it gets."""
    for node in walk(scope):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if ast.unparse(target) == text:
                yield node, node.value
            elif isinstance(target, ast.Tuple):
                for index, part in enumerate(target.elts):
                    if ast.unparse(part) == text:
                        values = node.value.elts if isinstance(node.value, ast.Tuple) else []
                        yield node, values[index] if index < len(values) else node.value


Holder: TypeAlias = tuple[str, str]
"""A name or attribute as written (`model`, `self.net`), behind its scope."""
ANYWHERE = ""
"""The scope of what the same words may hold in any function: attributes of `self`, what cannot be followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InTraining:
    """What is known of a program's networks in training."""

    classes: frozenset[str]
    """The program's own classes that they are instances of."""
    holders: frozenset[Holder]
    """What holds them, or what they are made of or handed over as."""
    told: bool
    """Whether the class of each of them is known, so what is none of these classes is not in training."""

    def held(self, script: Script, node: ast.AST, text: str) -> bool:
        """Whether a name or attribute, as written at a place, may hold a network in training or its whole."""
        scope, _ = holder(script, node, text)
        return any(
            (written == text or written.startswith(text + ".")) and (scope in (ANYWHERE, where) or where == ANYWHERE)
            for where, written in self.holders
        )


def holder(script: Script, node: ast.AST, text: str) -> Holder:
    """A name or attribute as written at a place, with the scope that owns it: two functions of one script may
    each have a `model`."""
    root = text.partition(".")[0]
    if root in ("self", "cls"):
        return ANYWHERE, text
    for above in enclosing(script, node):
        if isinstance(above, FUNCTIONS) and root in owned_names(above):
            return f"{script.path}:{above.lineno}:{above.col_offset}", text
    return script.path, text


@once
def in_training(program: Program) -> InTraining:
    """The networks of a program that its optimizers get, or that its training steps call with gradients."""
    classes: set[str] = set()
    holders: set[Holder] = set()
    told = True
    for script, node, owner in (*_given(program), *_called(program)):
        holders.add(holder(script, node, ast.unparse(node)))
        if owner is not None:
            classes.add(owner)
        else:
            told = False
    return InTraining(classes=frozenset(classes), holders=_with_sources(program, holders), told=bool(classes) and told)


def _with_sources(program: Program, holders: set[Holder]) -> frozenset[Holder]:
    """The holders, and those they come from: `net` of `model = DDP(net)`, and of `train(net)` for `model`."""
    flow = _Flow(program)
    found, waiting = set(holders), list(holders)
    while waiting:
        for other in flow.sources(waiting.pop()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return frozenset(found)


class _Flow:
    """What the values of names and attributes of a program are made of."""

    def __init__(self, program: Program) -> None:
        self._sources: dict[Holder, set[Holder]] = {}
        self._lost: set[Holder] = set()
        """Names that something else than an assignment binds as well: parts of a tuple, loops, withs."""
        self._functions: dict[str, list[tuple[Script, ast.FunctionDef]]] = {}
        for script in program.scripts:
            self._read(script)
        for script, call in program.calls:
            self._bind(script, call.node, self._functions.get(call.method, ()))

    def sources(self, one: Holder) -> set[Holder]:
        """What a holder's values are made of; the same words anywhere, where that cannot be followed."""
        scope, text = one
        found = set(self._sources.get(one, ()))
        parent = text.rpartition(".")[0]
        if parent and parent not in ("self", "cls"):
            found.add((scope, parent))
        elif one in self._lost or one not in self._sources:
            found.add((ANYWHERE, text))
        return found

    def _read(self, script: Script) -> None:
        followed: set[int] = set()
        for node in nodes(script, ast.Assign, ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets if node.value is not None else ():
                for part, value in _pairs(target, node.value):
                    followed.add(id(part))
                    self._add(holder(script, node, ast.unparse(part)), script, value)
        for name in nodes(script, ast.Name):
            if isinstance(name.ctx, ast.Store) and id(name) not in followed:
                self._lost.add(holder(script, name, name.id))
        for function in nodes(script, ast.FunctionDef):
            above = parents(script).get(function)
            called = [function.name]
            if function.name == "__init__" and isinstance(above, ast.ClassDef):
                called.append(above.name)
            for word in called:
                self._functions.setdefault(word, []).append((script, function))

    def _bind(self, script: Script, call: ast.Call, functions: Iterable[tuple[Script, ast.FunctionDef]]) -> None:
        """Parameters of functions that go by the name that is called, with what the call gives."""
        for home, function in functions:
            names = parameters(function)
            shift = 1 if names[:1] in (["self"], ["cls"]) else 0
            given = [*zip(names[shift:], call.args, strict=False)]
            given += [(item.arg, item.value) for item in call.keywords if item.arg in names]
            for name, value in given:
                self._add(holder(home, function.args, name), script, value)

    def _add(self, one: Holder, script: Script, value: ast.expr | None) -> None:
        found = self._sources.setdefault(one, set())
        if value is not None:
            found.update(holder(script, value, text) for text in _mentioned(value))


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What an assignment binds one by one; nothing of `model, optimizer = build()`."""
    if isinstance(target, ast.Name | ast.Attribute):
        yield target, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, given in zip(target.elts, value.elts, strict=True):
            yield from _pairs(part, given)


def _mentioned(value: ast.expr) -> set[str]:
    """Names that an expression hands on, as written: roots of methods, arguments of wrappers."""
    if isinstance(value, ast.Name | ast.Attribute):
        return {ast.unparse(value)}
    parts: list[ast.expr] = []
    if isinstance(value, ast.Call):
        parts = [value.func.value] if isinstance(value.func, ast.Attribute) else []
        parts += value.args
    elif isinstance(value, ast.IfExp):
        parts = [value.body, value.orelse]
    elif isinstance(value, ast.Tuple | ast.List):
        parts = value.elts
    return {name for part in parts for name in _mentioned(part)}


def _given(program: Program) -> Iterator[tuple[Script, ast.expr, str | None]]:
    """What the optimizers get, each with its script and class."""
    for one in optimizers(program.source):
        calls = resolved_calls(one.script)
        for owner in one.owners:
            call = _asked(one.script, calls, owner)
            if ast.unparse(owner) == "self" and call is not None:
                yield one.script, owner, call.receiver_class or call.function.partition(".")[0]
            else:
                yield one.script, owner, call.receiver_class if call is not None else None


def _asked(script: Script, calls: object, owner: ast.expr) -> Call | None:
    """The call `owner.parameters()`."""
    above = parents(script).get(owner)
    call = parents(script).get(above) if isinstance(above, ast.Attribute) else None
    return calls.get(call) if isinstance(calls, dict) and call is not None else None


def _called(program: Program) -> Iterator[tuple[Script, ast.expr, str | None]]:
    """Networks that training steps call in their own text, each with its script and class."""
    for script, loop in program.loops:
        for event in loop.events:
            call = event.call
            if call is None or event.evaluation or event.no_grad or event.via or call.receiver_class is None:
                continue
            if isinstance(call.node.func, ast.Name | ast.Attribute) and call.method == "__call__":
                yield script, call.node.func, call.receiver_class
