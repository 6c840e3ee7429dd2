"""Which values of a training loop feed a backward, and so carry an autograd graph, in one pass, in order.

The reader tells which values carry a graph by what makes them (`Event.graph`). Where it cannot tell, as with a
loss from a function that could not be read, `loss.backward()` tells.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from gpudoctor.analysis.source.dataflow import Dataflow, result, returned
from gpudoctor.analysis.source.scopes import CALLED, Key, Scope, Scopes, chained
from gpudoctor.analysis.source.syntax import is_attribute, is_method_call, is_name, names_in, walk
from gpudoctor.model.graphless import NO_GRAPH
from gpudoctor.model.signs.source import Event, Guard, GuardKind, Known, Loop, Source

DETACHING = NO_GRAPH | {
    "item", "tolist", "numpy", "size", "dim", "numel", "nelement", "backward", "data_ptr", "format", "keys",
    "is_tensor",
}  # fmt: skip
"""Methods and functions whose result carries no graph, whatever they are given: no tensor, or one without."""

PLAIN = {
    "float", "int", "bool", "len", "str", "round", "print", "isinstance", "range", "repr", "type", "id",
    "hasattr",
}  # fmt: skip
"""Built-ins whose result is no tensor."""

PLAIN_PACKAGES = {
    "numpy", "math", "sklearn", "torchmetrics", "evaluate", "copy", "time", "os", "json", "random", "scipy",
}  # fmt: skip
"""Packages whose functions give no tensor with a graph."""

PLAIN_ATTRIBUTES = {"data", "shape", "device", "dtype", "grad", "ndim", "is_cuda", "requires_grad", "indices"}


_LOSS = re.compile(r"crit|loss", re.IGNORECASE)
_KEEPING = {"mean", "sum", "to", "float", "scale"}
_PAIRS = {"max", "min", "topk", "sort", "median", "mode"}
"""Functions that give values and indices."""


class GraphFlow(Dataflow[bool]):
    """The flow of graphs through one pass of a loop; `carries` answers for the moment of a `walk`."""

    def __init__(self, source: Source, loop: Loop) -> None:
        super().__init__(loop)
        self._scopes = Scopes(source, loop)
        self._returned: dict[Key, bool] = {}
        self._cuts: set[Key] = set()
        self._parted: dict[Key, list[bool]] = {}
        """By call site, for each of several results, whether it was cut from the graph."""
        self._components: set[Key] = set()
        self._numbers: set[Key] = set()
        self._seen: dict[Key, bool] = {}
        """Whether the last value of a name had a graph, as far as the flow or the reader tells."""
        self._perhaps: dict[Key, set[int]] = {}
        """Names that carry a graph only where conditions hold that nobody knows, with the conditions' lines."""
        self._sure: set[Key] = set()
        """Names that a backward is called on: tensors with a graph, whatever made them."""
        self._mixed: set[Key] = set()
        """Calls that return a graph in one case and a number in another."""
        self._sites = {site for event in loop.events for site in event.via[-1:]}
        self._last = -1
        self.upstream: set[Key] = set()
        """Names that feed a backward of the pass."""
        self._trace_roots()

    def key(self, text: str, via: Scope) -> Key:
        """The name in the scope that owns it."""
        return self._scopes.key(text, via)

    def sources(self, roots: Iterable[tuple[ast.expr, Scope]]) -> set[Key]:
        """Names whose values go into some expressions, by the assignments of the pass."""
        wanted = {key for expression, via in roots for key in self._names(expression, via)}
        return _closure(wanted, self._assignments(), self._names, _within)

    # what feeds a backward

    def _trace_roots(self) -> None:
        roots: list[tuple[ast.expr, Scope]] = []
        parts: set[Key] = set()
        for number, event in enumerate(self.loop.events):
            for expression in _backward(event, self.loop):
                self._last = number
                roots.append((expression, event.via))
                parts |= set(self._parts(expression, event.via))
                if not any(isinstance(part, ast.Add | ast.Sub) for part in ast.walk(expression)):
                    self._sure |= set(self._parts(expression, event.via))
        self.upstream = self.sources(roots)
        self._components = _closure(parts, self._assignments(), self._parts, lambda key, keys: key in keys)

    def _assignments(self) -> Iterator[tuple[Key, ast.expr, Scope]]:
        for event in self.loop.events:
            node = event.node
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                        yield self._scopes.key(ast.unparse(part), event.via), node.value, event.via
            elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
                yield self._scopes.key(ast.unparse(node.target), event.via), node.value, event.via
            elif event.call is not None and event.call.method in {"append", "extend"} and isinstance(node, ast.Call):
                for argument in node.args:
                    yield self._scopes.key(event.call.receiver, event.via), argument, event.via
            elif isinstance(node, ast.Return) and node.value is not None and event.via:
                yield returned(event.via), node.value, event.via
        for via, loop in dict.fromkeys((event.via, loop) for event in self.loop.events for loop in event.inner):
            for name in loop.targets:
                yield self._scopes.key(name, via), _expression(loop.iterates), via
        yield from self._scopes.bindings()

    def _names(self, node: ast.expr, via: Scope) -> Iterator[Key]:
        """Every name and attribute chain that an expression reads, results of followed calls included.

        An object whose code was followed gives what that code returns, and not all that it holds.
        """
        parts = list(walk(node))
        apart = {
            inner for part in parts if isinstance(part, ast.Call) and self._followed(part) for inner in walk(part.func)
        }
        # `self.weight` reads the weight, and not the whole object.
        apart |= {part.value for part in parts if isinstance(part, ast.Attribute) and is_name(part.value, "self")}
        for part in parts:
            if part in apart:
                continue
            if isinstance(part, ast.Name | ast.Attribute):
                yield self._scopes.key(ast.unparse(part), via)
            elif isinstance(part, ast.Call):
                yield result(part, via)

    def _followed(self, node: ast.Call) -> bool:
        """Whether a call runs code of the program, or a module: what it reads is told there, or are weights."""
        if not chained(node.func):
            return False
        call = self.calls.get(node)
        return (call is not None and call.method == CALLED) or any(
            span.line == node.lineno and span.column == node.col_offset + 1 for span in self._sites
        )

    def _parts(self, node: ast.expr, via: Scope) -> Iterator[Key]:
        """The names whose graph an expression takes over by arithmetic."""
        if isinstance(node, ast.Name | ast.Attribute):
            yield self._scopes.key(ast.unparse(node), via)
        elif isinstance(node, ast.BinOp):
            for side in _graph_sides(node):
                yield from self._parts(side, via)
        elif isinstance(node, ast.UnaryOp):
            yield from self._parts(node.operand, via)
        elif isinstance(node, ast.Call):
            yield result(node, via)
            if is_attribute(node.func, *_KEEPING):
                for inner in (node.func.value, *node.args):
                    yield from self._parts(inner, via)

    # forward

    def add(self, target: ast.expr, value: ast.expr, event: Event) -> None:
        """A sum carries a graph as soon as one term does."""
        key = self._scopes.key(ast.unparse(target), event.via)
        brings = self._carries(value, event, event.via)
        self.facts[key] = self.facts.get(key, False) or brings
        if brings and not self._seen.get(key, False):
            self._doubt(key, value, event, has=True)

    def give(self, key: Key, value: ast.expr, event: Event) -> None:
        """The call carries a graph if the value does; of several values each is told apart."""
        self._give(key, value, event)
        if isinstance(value, ast.Tuple):
            cut = [self._plain(part) or self._without_graph(part, event.via) for part in value.elts]
            parted = self._parted.get(key, cut)
            self._parted[key] = [a and b for a, b in zip(cut, parted, strict=False)]

    def _without_graph(self, part: ast.expr, via: Scope) -> bool:
        """Whether a name was bound, when last seen, to what was cut from the graph or never had one."""
        key = self._scopes.key(ast.unparse(part), via)
        return key in self._cuts or (self._seen.get(key) is False and key not in self._perhaps)

    def _give(self, key: Key, value: ast.expr, event: Event) -> None:
        """What a call returns: a graph on one way out and a number on another is no sure graph."""
        if any(guard.kind is GuardKind.FAILURE for guard in event.guards):
            return
        carried = self.carries(value, event)
        number = self._plain(value) or (isinstance(value, ast.Constant) and value.value is not None)
        if (carried and self._returned.get(key) is False) or (number and self._returned.get(key)):
            self._mixed.add(key)
        if number or carried or key not in self._returned:
            self._returned[key] = self._returned.get(key, False) or carried

    def bind(self, target: ast.expr, value: ast.expr, event: Event) -> None:
        """The target carries a graph if the value does, or if it feeds a backward and could not be read."""
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
            indices = isinstance(value, ast.Call) and _called(value) in _PAIRS
            loose = self._unread_loss(value)
            parted = self._parted.get(result(value, event.via), [])
            for number, (part, item) in enumerate(zip(target.elts, values, strict=False)):
                plain = len(parted) == len(target.elts) and isinstance(value, ast.Call) and parted[number]
                if plain or (loose and not self._may_be_loss(part, event.via)):
                    key = self._scopes.key(ast.unparse(part), event.via)
                    self.facts[key] = False
                    self._numbers.add(key)
                elif indices and number:
                    self.facts[self._scopes.key(ast.unparse(part), event.via)] = False
                else:
                    self.bind(part, item, event)
            return
        key = self._scopes.key(ast.unparse(target), event.via)
        (self._cuts.add if self._plain(value) else self._cuts.discard)(key)
        known = self._carries(value, event, event.via)
        told = key in self._components and self.moment < self._last and not event.no_grad
        self.facts[key] = known or (told and self._unread(value))
        self._doubt(key, value, event, has=self.facts[key] or (_whole(target, event) and event.graph))

    def _doubt(self, key: Key, value: ast.expr, event: Event, *, has: bool) -> None:
        """Note whether a name has a graph for sure, now that it is bound; `has`: whether its new value does."""
        asked = {guard.line for guard in event.guards if _open(guard)}
        before = self._seen.get(key, False) and key not in self._perhaps
        other_arm = self._perhaps.pop(key, set()) & asked
        self._seen[key] = has
        if (has and self._unsure(value, event.via)) or (asked and not other_arm and has != before):
            self._perhaps[key] = asked

    def _unsure(self, node: ast.expr, via: Scope) -> bool:
        """Whether a value carries a graph only in some cases, and is a number in the others."""
        if isinstance(node, ast.IfExp):
            return self._told_apart(node) or self._unsure(node.body, via) or self._unsure(node.orelse, via)
        if isinstance(node, ast.Call):
            return result(node, via) in self._mixed
        if not isinstance(node, ast.Name | ast.Attribute):
            return False
        key = self._scopes.key(ast.unparse(node), via)
        if key in self.facts or key in self._perhaps:
            return key in self._perhaps and key not in self._sure
        found = self._scopes.passed(node, via)
        return found is not None and self._unsure(*found)

    def _unread(self, value: ast.expr) -> bool:
        """Whether what makes a value could not be read, so it may carry a graph that a backward walks."""
        if isinstance(value, ast.BinOp):
            return any(self._unread(side) for side in _graph_sides(value))
        return isinstance(value, ast.Call | ast.Subscript) and not self._plain(value)

    def carries(self, node: ast.expr, event: Event) -> bool:
        """Whether the value that an event keeps carries a graph, as far as the reader or a backward tells."""
        if self._unsure(node, event.via):
            return False
        told = event.graph and not self._number(node, event.via)
        return told or self._carries(node, event, event.via)

    def _unread_loss(self, value: ast.expr) -> bool:
        """Whether a loss function gives a value that the reader has not read."""
        if not isinstance(value, ast.Call) or not _LOSS.search(_called(value)):
            return False
        return not any(span.line == value.lineno and span.column == value.col_offset + 1 for span in self._sites)

    def _may_be_loss(self, part: ast.expr, via: Scope) -> bool:
        """Of several results of a loss function: whether one feeds a backward, or is called a loss."""
        key = self._scopes.key(ast.unparse(part), via)
        return _within(key, self.upstream) or bool(_LOSS.search(key[1]))

    def _number(self, node: ast.expr, via: Scope) -> bool:
        """Whether a value is, or is a part of, what a loss function gave beside the loss: scores, a dict."""
        while isinstance(node, ast.Subscript | ast.Attribute):
            if self._scopes.key(ast.unparse(node), via) in self._numbers:
                return True
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        if self._scopes.key(node.id, via) in self._numbers:
            return True
        found = self._scopes.passed(node, via)
        return found is not None and self._number(*found)

    def _carries(self, node: ast.expr, event: Event, via: Scope) -> bool:
        if isinstance(node, ast.Name | ast.Attribute):
            return self._named(node, event, via)
        if event.no_grad and not isinstance(node, ast.Tuple | ast.List | ast.Dict):
            return False
        if isinstance(node, ast.Call):
            return self._called(node, event, via)
        if isinstance(node, ast.Subscript):
            if _is_index(node):
                return False
            return self.facts.get(self._scopes.key(ast.unparse(node), via)) or self._carries(node.value, event, via)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            inner = node.elt
            plain = isinstance(inner, ast.Compare | ast.Constant) or (
                isinstance(inner, ast.Call) and self._plain(inner)
            )
            return not plain and self._carries(node.generators[0].iter, event, via)
        if isinstance(node, ast.Compare | ast.JoinedStr | ast.Lambda | ast.Constant):
            return False
        if isinstance(node, ast.IfExp) and self._told_apart(node):
            return False
        children = [node.body, node.orelse] if isinstance(node, ast.IfExp) else ast.iter_child_nodes(node)
        return any(self._carries(child, event, via) for child in children if isinstance(child, ast.expr))

    def _told_apart(self, node: ast.IfExp) -> bool:
        """`x.item() if learned else x`: who cuts the graph in one case has a number in the other."""
        arms = (node.body, node.orelse)
        return any(
            self._plain(cut) and ast.unparse(other) in {ast.unparse(part) for part in walk(cut)}
            for cut, other in (arms, arms[::-1])
        )

    def _named(self, node: ast.Name | ast.Attribute, event: Event, via: Scope) -> bool:
        key = self._scopes.key(ast.unparse(node), via)
        if key in self.facts:
            return self.facts[key]
        if isinstance(node, ast.Attribute):
            return node.attr not in PLAIN_ATTRIBUTES and self._carries(node.value, event, via)
        found = self._scopes.argument(node.id, via)
        return found is not None and self._carries(found[0], event, found[1])

    def _called(self, node: ast.Call, event: Event, via: Scope) -> bool:
        if self._plain(node):
            return False
        given = self._returned.get(result(node, via))
        if given is not None:
            return given
        if isinstance(node.func, ast.Attribute) and self._carries(node.func.value, event, via):
            return True
        call, text = self.calls.get(node), ast.unparse(node.func)
        differentiable = call is not None and call.name.startswith("torch.")
        if not differentiable and text not in {"sum", "abs", "min", "max", "dict", "list", "tuple"}:
            return False
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        return any(self._carries(argument, event, via) for argument in arguments)

    def _plain(self, node: ast.expr) -> bool:
        """Whether a call cuts the graph: `.item()`, `.detach()`, `float(...)`, numpy."""
        if isinstance(node, ast.Subscript):
            return self._plain(node.value)
        if not isinstance(node, ast.Call):
            return False
        call = self.calls.get(node)
        package = call.name.split(".", 1)[0] if call is not None else ""
        if package in PLAIN_PACKAGES or (is_name(node.func, *PLAIN)):
            return True
        if _called(node) in DETACHING:
            return True
        # .detach().cpu().mean(): cut further down the chain
        return isinstance(node.func, ast.Attribute) and _cut(node.func.value)


def feeds_backward(outer: ast.AST, inner: ast.stmt) -> bool:
    """Whether a backward in `outer`, behind a loop `inner` of it, needs values that the loop makes."""
    if inner.end_lineno is None:
        return False
    held = set().union(*(stored(part) for part in walk(inner)))
    after = [part for part in walk(outer) if getattr(part, "lineno", 0) > inner.end_lineno]
    for part in sorted(after, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))):
        if is_method_call(part, "backward"):
            if held & names_in(part):
                return True
        elif isinstance(part, ast.Assign | ast.AugAssign):
            kept = isinstance(part, ast.AugAssign) and bool(stored(part) & held)
            held = held | stored(part) if kept or held & names_in(part.value) else held - stored(part)
    return False


def stored(node: ast.AST) -> set[str]:
    """Names that get a value, or a part of one, by a statement or by `append`."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif is_method_call(node):
        targets = [node.func.value] if node.func.attr in ("append", "extend", "add_", "copy_") else []
    roots = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    found = set()
    for part in roots:
        while isinstance(part, ast.Subscript):
            part = part.value
        found |= {part.id} if isinstance(part, ast.Name) else set()
    return found


def _whole(target: ast.expr, event: Event) -> bool:
    """Whether a name gets all that its statement assigns, so the reader speaks of the name."""
    node = event.node
    if not isinstance(node, ast.Assign) or (isinstance(node.value, ast.Call) and _called(node.value) in _PAIRS):
        return False
    return any(target is item for item in node.targets)


def _open(guard: Guard) -> bool:
    """Whether a condition divides the passes, or the jobs, in a way that the source does not tell."""
    if guard.kind is GuardKind.SWITCH:
        return guard.never or not isinstance(guard.value, Known)
    return guard.kind is GuardKind.OTHER and not guard.mostly


def _graph_sides(node: ast.BinOp) -> list[ast.expr]:
    """The operands that may bring the graph of a result: of `share * criterion(out, y)` the criterion's."""
    sides = [node.left, node.right]
    computed = [side for side in sides if any(isinstance(part, ast.Call) for part in walk(side))]
    product = isinstance(node.op, ast.Mult | ast.Div)
    return computed if product and len(computed) == 1 else sides


def _cut(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_index(node) or _cut(node.value)
    if isinstance(node, ast.Call):
        return _called(node) in DETACHING or (isinstance(node.func, ast.Attribute) and _cut(node.func.value))
    return isinstance(node, ast.Attribute) and (node.attr == "data" or _cut(node.value))


def _is_index(node: ast.Subscript) -> bool:
    """`scores.topk(5)[1]`: the indices of a pair, which carry no graph."""
    second = isinstance(node.slice, ast.Constant) and node.slice.value == 1
    return second and isinstance(node.value, ast.Call) and _called(node.value) in _PAIRS


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rsplit(".", 1)[-1]


def _backward(event: Event, loop: Loop) -> Iterator[ast.expr]:
    """What a backward is called on or given; for an engine, what its training step returns."""
    node = event.node
    if isinstance(node, ast.Call) and event.call is not None and event.call.method in {"backward", "manual_backward"}:
        if isinstance(node.func, ast.Attribute):
            yield node.func.value
        yield from node.args
    if loop.engine is not None and isinstance(node, ast.Return) and node.value is not None and not event.via:
        yield from node.value.values if isinstance(node.value, ast.Dict) else [node.value]


def _closure(
    wanted: set[Key],
    assignments: Iterable[tuple[Key, ast.expr, Scope]],
    reads: Callable[[ast.expr, Scope], Iterable[Key]],
    within: Callable[[Key, set[Key]], bool],
) -> set[Key]:
    """Names whose values go into some names, these included: `reads` says which an expression takes over."""
    feeds = [(key, set(reads(value, via))) for key, value, via in assignments]
    wanted = set(wanted)
    while True:
        before = len(wanted)
        for key, names in feeds:
            if within(key, wanted):
                wanted |= names
        if len(wanted) == before:
            return wanted


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
