"""Which values of a training loop feed a backward, and so carry an autograd graph, in one pass, in order.

The reader tells which values carry a graph by what makes them (`Event.graph`). Where it cannot tell, as with a
loss from a function that could not be read, `loss.backward()` tells.

Names live in scopes: a chain of call sites (`Event.via`). A parameter stands for the argument at its call site,
`self` in a method for the object it was called on, so `meter.update(loss)` is seen through.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.program import FUNCTIONS, enclosing
from gpudoctor.model.signs.source import Call, Event, Loop, Script, Source

Scope: TypeAlias = tuple[SourceSpan, ...]
Key: TypeAlias = tuple[Scope, str]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

DETACHING = {
    "item", "detach", "detach_", "tolist", "numpy", "argmax", "argmin", "argsort", "size", "dim", "numel",
    "nelement", "backward", "long", "int", "bool", "byte", "eq", "ne", "gt", "lt", "ge", "le", "any", "all",
    "isnan", "isinf", "isfinite", "one_hot", "multinomial", "data_ptr", "bincount", "unique", "nonzero",
    "format", "step", "keys", "ones_like", "zeros_like", "randn_like", "rand_like", "full_like", "equal",
    "is_tensor",
}  # fmt: skip
"""Methods and functions whose result carries no graph, whatever they are given."""

PLAIN = {
    "float",
    "int",
    "bool",
    "len",
    "str",
    "round",
    "print",
    "isinstance",
    "range",
    "repr",
    "type",
    "id",
    "hasattr",
}
"""Built-ins whose result is no tensor."""

PLAIN_PACKAGES = {
    "numpy",
    "math",
    "sklearn",
    "torchmetrics",
    "evaluate",
    "copy",
    "time",
    "os",
    "json",
    "random",
    "scipy",
}
"""Packages whose functions give no tensor with a graph."""

PLAIN_ATTRIBUTES = {"data", "shape", "device", "dtype", "grad", "ndim", "is_cuda", "requires_grad", "indices"}


class GraphFlow:
    """The flow of graphs through one pass of a loop.

    `walk(visit)` goes through the events in order and calls `visit(event)` before each takes effect, so
    `carries` answers for that moment.
    """

    def __init__(self, source: Source, loop: Loop) -> None:
        self.loop = loop
        self._scripts: Mapping[str, Script] = {script.path: script for script in source.scripts}
        self._calls = {event.node: event.call for event in loop.events if event.call is not None}
        self._placed: dict[tuple[Scope, SourceSpan], list[Call]] = {}
        self._functions: dict[Scope, Function | None] = {}
        for event in loop.events:
            if event.via not in self._functions:
                self._functions[event.via] = self._function(event)
            if event.call is not None:
                self._placed.setdefault((event.via, event.span), []).append(event.call)
        self._sites = {via: self._site(via) for via in self._functions if via}
        self._keys: dict[tuple[Scope, str], Key] = {}
        self._state: dict[Key, bool] = {}
        self._returned: dict[tuple[Scope, int, int], bool] = {}
        self._components: set[Key] = set()
        self.upstream: set[Key] = set()
        """Names that feed a backward of the pass."""
        self._trace_roots()

    # scopes

    def _function(self, event: Event) -> Function | None:
        script = self._scripts.get(event.span.path)
        if script is None:
            return None
        return next((node for node in enclosing(script, event.node) if isinstance(node, FUNCTIONS)), None)

    def _site(self, via: Scope) -> Call | None:
        """The call that leads into a scope; of several that start at one place, the one of that name."""
        function = self._functions.get(via)
        name = getattr(function, "name", "")
        found = self._placed.get((via[:-1], via[-1]), [])
        return next((call for call in found if call.method == name), found[-1] if found else None)

    def key(self, text: str, via: Scope) -> Key:
        """The name in the scope that owns it."""
        if not via:
            return (), text
        found = self._keys.get((via, text))
        if found is None:
            found = self._keys[via, text] = self._owned(text, via)
        return found

    def _owned(self, text: str, via: Scope) -> Key:
        root = re.split(r"[.\[]", text, maxsplit=1)[0]
        site = self._sites.get(via)
        if root == "self" and site is not None and site.receiver:
            return self.key(site.receiver + text[len("self") :], via[:-1])
        function = self._functions.get(via)
        if function is not None and root not in _local(function):
            return (), text
        return via, text

    def _argument(self, name: str, via: Scope) -> tuple[ast.expr, Scope] | None:
        """What a parameter stands for at its call site."""
        function = self._functions.get(via) if via else None
        site = self._sites.get(via)
        if function is None or site is None:
            return None
        names = _parameters(function)
        for keyword in site.node.keywords:
            if keyword.arg == name and name in names:
                return keyword.value, via[:-1]
        shift = 1 if names[:1] in (["self"], ["cls"]) else 0
        if name in names[shift:]:
            position = names.index(name) - shift
            if position < len(site.node.args):
                return site.node.args[position], via[:-1]
        return None

    def argument(self, name: str, via: Scope) -> tuple[ast.expr, Scope] | None:
        """What a parameter stands for at its call site, with the scope of that expression."""
        return self._argument(name, via)

    # what feeds a backward

    def _trace_roots(self) -> None:
        wanted: set[Key] = set()
        parts: set[Key] = set()
        for event in self.loop.events:
            for expression in _backward(event, self.loop):
                wanted |= set(self._names(expression, event.via))
                parts |= set(self._parts(expression, event.via))
        feeds = [
            (key, set(self._names(value, via)), set(self._parts(value, via)))
            for key, value, via in self._assignments()
        ]
        while True:
            before = len(wanted), len(parts)
            for key, names, terms in feeds:
                if _within(key, wanted):
                    wanted |= names
                if key in parts:
                    parts |= terms
            if (len(wanted), len(parts)) == before:
                break
        self.upstream, self._components = wanted, parts

    def _assignments(self) -> Iterator[tuple[Key, ast.expr, Scope]]:
        for event in self.loop.events:
            node = event.node
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                        yield self.key(ast.unparse(part), event.via), node.value, event.via
            elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
                yield self.key(ast.unparse(node.target), event.via), node.value, event.via
            elif (
                event.call is not None
                and event.call.method in {"append", "extend"}
                and isinstance(node, ast.Call)
            ):
                for argument in node.args:
                    yield self.key(event.call.receiver, event.via), argument, event.via
            elif isinstance(node, ast.Return) and node.value is not None and event.via:
                yield self._result_key(event.via), node.value, event.via
        for via, loop in dict.fromkeys((event.via, loop) for event in self.loop.events for loop in event.inner):
            for name in loop.targets:
                yield self.key(name, via), _expression(loop.iterates), via
        yield from self._bindings()

    def _bindings(self) -> Iterator[tuple[Key, ast.expr, Scope]]:
        """Parameters with their arguments."""
        for via, function in self._functions.items():
            for name in _parameters(function) if function is not None and via else ():
                found = self._argument(name, via)
                if found is not None:
                    yield (via, name), *found

    def _result_key(self, via: Scope) -> Key:
        return via[:-1], f"<result {via[-1].line}:{via[-1].column}>"

    def _names(self, node: ast.expr, via: Scope) -> Iterator[Key]:
        """Every name and attribute chain that an expression reads, results of followed calls included."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name | ast.Attribute):
                yield self.key(ast.unparse(part), via)
            elif isinstance(part, ast.Call):
                yield via, f"<result {part.lineno}:{part.col_offset + 1}>"

    def _parts(self, node: ast.expr, via: Scope) -> Iterator[Key]:
        """The names whose graph an expression takes over by arithmetic."""
        if isinstance(node, ast.Name | ast.Attribute):
            yield self.key(ast.unparse(node), via)
        elif isinstance(node, ast.BinOp):
            yield from self._parts(node.left, via)
            yield from self._parts(node.right, via)
        elif isinstance(node, ast.UnaryOp):
            yield from self._parts(node.operand, via)
        elif isinstance(node, ast.Call):
            yield via, f"<result {node.lineno}:{node.col_offset + 1}>"
            if isinstance(node.func, ast.Attribute) and node.func.attr in {
                "mean",
                "sum",
                "to",
                "float",
                "scale",
            }:
                for inner in (node.func.value, *node.args):
                    yield from self._parts(inner, via)

    # forward

    def walk(self, visit: Callable[[Event], None]) -> None:
        """Go through one pass; `visit` sees each event before it takes effect."""
        for event in self.loop.events:
            visit(event)
            self._apply(event)

    def _apply(self, event: Event) -> None:
        node = event.node
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value, event)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, node.value, event)
        elif isinstance(node, ast.AugAssign):
            key = self.key(ast.unparse(node.target), event.via)
            self._state[key] = self._state.get(key, False) or self.carries(node.value, event)
        elif isinstance(node, ast.Return) and node.value is not None and event.via:
            place = (event.via[:-1], event.via[-1].line, event.via[-1].column)
            self._returned[place] = self._returned.get(place, False) or self.carries(node.value, event)

    def _bind(self, target: ast.expr, value: ast.expr, event: Event) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
            indices = isinstance(value, ast.Call) and _called(value) in {
                "max",
                "min",
                "topk",
                "sort",
                "median",
                "mode",
            }
            for number, (part, item) in enumerate(zip(target.elts, values, strict=False)):
                if indices and number:
                    self._state[self.key(ast.unparse(part), event.via)] = False
                else:
                    self._bind(part, item, event)
            return
        key = self.key(ast.unparse(target), event.via)
        known = self.carries(value, event)
        unsure = key in self._components and not event.no_grad and isinstance(value, ast.Call | ast.Subscript)
        self._state[key] = known or (unsure and not self._plain(value, event))

    def carries(self, node: ast.expr, event: Event) -> bool:
        """Whether the value that an event keeps carries a graph, as far as the reader or a backward tells."""
        return event.graph or self._carries(node, event, event.via)

    def _carries(self, node: ast.expr, event: Event, via: Scope) -> bool:
        if isinstance(node, ast.Name | ast.Attribute):
            return self._named(node, event, via)
        if event.no_grad and not isinstance(node, ast.Tuple | ast.List | ast.Dict):
            return False
        if isinstance(node, ast.Call):
            return self._called(node, event, via)
        if isinstance(node, ast.Subscript):
            return self._state.get(self.key(ast.unparse(node), via)) or self._carries(node.value, event, via)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            inner = node.elt
            plain = isinstance(inner, ast.Compare | ast.Constant) or (
                isinstance(inner, ast.Call) and self._plain(inner, event)
            )
            return not plain and self._carries(node.generators[0].iter, event, via)
        if isinstance(node, ast.Compare | ast.JoinedStr | ast.Lambda | ast.Constant):
            return False
        children = [node.body, node.orelse] if isinstance(node, ast.IfExp) else ast.iter_child_nodes(node)
        return any(self._carries(child, event, via) for child in children if isinstance(child, ast.expr))

    def _named(self, node: ast.Name | ast.Attribute, event: Event, via: Scope) -> bool:
        key = self.key(ast.unparse(node), via)
        if key in self._state:
            return self._state[key]
        if isinstance(node, ast.Attribute):
            return node.attr not in PLAIN_ATTRIBUTES and self._carries(node.value, event, via)
        found = self._argument(node.id, via)
        return found is not None and self._carries(found[0], event, found[1])

    def _called(self, node: ast.Call, event: Event, via: Scope) -> bool:
        if self._plain(node, event):
            return False
        returned = self._returned.get((via, node.lineno, node.col_offset + 1))
        if returned is not None:
            return returned
        if isinstance(node.func, ast.Attribute) and self._carries(node.func.value, event, via):
            return True
        call, text = self._resolved(node), ast.unparse(node.func)
        differentiable = call is not None and call.name.startswith("torch.")
        if not differentiable and text not in {"sum", "abs", "min", "max"}:
            return False
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        return any(self._carries(argument, event, via) for argument in given)

    def _plain(self, node: ast.expr, event: Event) -> bool:
        """Whether a call cuts the graph: `.item()`, `.detach()`, `float(...)`, numpy."""
        if isinstance(node, ast.Subscript):
            return self._plain(node.value, event)
        if not isinstance(node, ast.Call):
            return False
        call = self._resolved(node)
        package = call.name.split(".", 1)[0] if call is not None else ""
        if package in PLAIN_PACKAGES or (isinstance(node.func, ast.Name) and node.func.id in PLAIN):
            return True
        if _called(node) in DETACHING:
            return True
        # .detach().cpu().mean(): cut further down the chain
        return isinstance(node.func, ast.Attribute) and _cut(node.func.value)

    def _resolved(self, node: ast.Call) -> Call | None:
        return self._calls.get(node)


def _cut(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _called(node) in DETACHING or (isinstance(node.func, ast.Attribute) and _cut(node.func.value))
    return isinstance(node, ast.Attribute) and (node.attr == "data" or _cut(node.value))


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rsplit(".", 1)[-1]


def _parameters(function: Function) -> list[str]:
    given = function.args
    return [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


@lru_cache(maxsize=1024)
def _local(function: Function) -> frozenset[str]:
    """The names that a function owns: its parameters, and what it stores and does not declare to be outside."""
    nodes = list(ast.walk(function))
    outer = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset(_parameters(function)) | (stored - outer)


def _backward(event: Event, loop: Loop) -> Iterator[ast.expr]:
    """What a backward is called on or given; for an engine, what its training step returns."""
    node = event.node
    if (
        isinstance(node, ast.Call)
        and event.call is not None
        and event.call.method in {"backward", "manual_backward"}
    ):
        if isinstance(node.func, ast.Attribute):
            yield node.func.value
        yield from node.args
    if loop.engine is not None and isinstance(node, ast.Return) and node.value is not None and not event.via:
        yield from node.value.values if isinstance(node.value, ast.Dict) else [node.value]


def _within(key: Key, wanted: set[Key]) -> bool:
    """Whether a name, or what it is part of (`stats` of `stats['loss']`), is wanted."""
    scope, text = key
    root = re.split(r"[.\[]", text, maxsplit=1)[0]
    return key in wanted or (root != "self" and (scope, root) in wanted)


def _expression(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return ast.Constant(value=None)
