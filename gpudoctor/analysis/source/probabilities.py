"""Which values are already probabilities when a loss takes them: softmax, log-softmax or sigmoid, followed
through one pass of a loop (assignments, functions, a model's `forward`, the last layer of a Sequential).
"""

import ast
from dataclasses import dataclass
from typing import TypeAlias

from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.dataflow import Dataflow, result
from gpudoctor.analysis.source.scopes import Key, Scope, Scopes
from gpudoctor.analysis.source.step_order import arms
from gpudoctor.analysis.source.syntax_places import resolved_calls
from gpudoctor.model.signs.source import Call, Event, Guard, Known, Loop, Script, Source

Guards: TypeAlias = tuple[tuple[object, ...], ...]

MAKERS = {"softmax": "softmax", "log_softmax": "log_softmax", "sigmoid": "sigmoid", "softmax_": "softmax"}
LAYERS = {
    "torch.nn.Softmax": "softmax",
    "torch.nn.Softmax2d": "softmax",
    "torch.nn.LogSoftmax": "log_softmax",
    "torch.nn.Sigmoid": "sigmoid",
}
OWNERS = ("torch.", "torch.nn.functional.", "torch.Tensor.", "torch.special.", "?.")

KEEPS = frozenset(
    {"view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "contiguous", "float", "double", "half",
     "to", "cuda", "flatten", "clone", "type_as", "bfloat16", "swapaxes", "movedim", "t"}
)  # fmt: skip
"""Methods whose result holds the same numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Where a value became probabilities."""

    kind: str
    """`softmax`, `log_softmax` or `sigmoid`."""
    script: Script
    node: ast.Call
    """The call that made them, or the layer's constructor in a Sequential."""
    source: ast.expr | None
    """What it was given; None for a layer's constructor."""
    scope: Scope


Origin: TypeAlias = "Made | tuple[Origin, ...] | None"


def maker(call: Call) -> str | None:
    """What a call makes of its input: `softmax`, `log_softmax`, `sigmoid`; None for anything else."""
    for layer, kind in LAYERS.items():
        if call.name == layer + ".__call__":
            return kind
    if call.method in MAKERS and call.name == call.name.rpartition(".")[0] + "." + call.method:
        owner = call.name[: -len(call.method)]
        if owner in OWNERS and not _whole(call) and (owner != "?." or _by_dimension(call)):
            return MAKERS[call.method]
    return None


def _whole(call: Call) -> bool:
    """Whether it runs over the first dimension, so the values of one sample do not add up to one."""
    dim = call.argument("dim", 0 if _is_method(call) else 1)
    return isinstance(dim, Known) and dim.value == 0


def _by_dimension(call: Call) -> bool:
    """Whether a method of an unknown object is called as a tensor's is: with a dimension and nothing else."""
    if call.method == "sigmoid":
        return not call.node.args and not call.node.keywords and call.receiver != "self"
    numbers = all(isinstance(item, Known) and isinstance(item.value, int) for item in call.positional)
    return numbers and set(call.keywords) <= {"dim", "dtype"} and bool(call.positional or call.keywords)


def _is_method(call: Call) -> bool:
    return call.name.startswith(("torch.Tensor.", "?."))


def given(call: Call) -> ast.expr | None:
    """The input of a maker: its argument, or the tensor that it is a method of."""
    for keyword in call.node.keywords:
        if keyword.arg in {"input", "x"}:
            return keyword.value
    if _is_method(call) and isinstance(call.node.func, ast.Attribute):
        return call.node.func.value
    first = call.node.args[0] if call.node.args else None
    return None if isinstance(first, ast.Starred) else first


class Probabilities(Dataflow["tuple[Origin, Guards]"]):
    """Where the values of one pass became probabilities, and under which conditions."""

    def __init__(self, source: Source, loop: Loop) -> None:
        super().__init__(loop)
        self._source = source
        self._scopes = Scopes(source, loop)
        self._scripts = {script.path: script for script in source.scripts}
        self._returned: dict[Key, list[tuple[Origin, Guards]]] = {}

    def origin(self, node: ast.expr | None, event: Event) -> Origin:
        """Where an expression's value became probabilities, as of this event; None when it may not be any."""
        return self._origin(node, event, event.via)

    def _origin(self, node: ast.expr | None, event: Event, via: Scope) -> Origin:
        if isinstance(node, ast.Name | ast.Attribute):
            return self._named(node, event, via)
        if isinstance(node, ast.Tuple):
            return tuple(self._origin(item, event, via) for item in node.elts)
        if isinstance(node, ast.Subscript):
            return self._part(node, event, via)
        return self._called(node, event, via) if isinstance(node, ast.Call) else None

    def _named(self, node: ast.Name | ast.Attribute, event: Event, via: Scope) -> Origin:
        known = self.facts.get((via, ast.unparse(node)))
        if known is not None:
            return known[0] if set(known[1]) <= set(self._guards(event)) else None
        found = self._scopes.passed(node, via)
        return None if found is None else self._origin(found[0], event, found[1])

    def _part(self, node: ast.Subscript, event: Event, via: Scope) -> Origin:
        whole = self._origin(node.value, event, via)
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(whole, tuple) and isinstance(index, int) and -len(whole) <= index < len(whole):
            return whole[index]
        return None

    def _called(self, node: ast.Call, event: Event, via: Scope) -> Origin:
        call = self.calls.get(node)
        script = self._scripts.get(call.span.path) if call is not None else None
        if call is None or script is None:
            return None
        kind = maker(call)
        if kind is not None:
            return Made(kind, script, node, given(call), via)
        if call.name == "torch.nn.Sequential.__call__":
            return self._last_layer(call, event)
        if call.method in KEEPS and isinstance(node.func, ast.Attribute):
            inner = node.func.value if _is_method(call) else (node.args[0] if node.args else None)
            return self._origin(inner, event, via)
        found = self._returned.get(result(node, via), [])
        certain = any(set(guards) <= set(self._guards(event)) for _, guards in found)
        return _agreed([origin for origin, _ in found]) if certain else None

    def _last_layer(self, call: Call, event: Event) -> Origin:
        name = ast.unparse(call.node.func)
        built = [
            (script, other)
            for script in self._source.scripts
            for other in script.calls_to("torch.nn.Sequential")
            if bound_to(script, other.node).rpartition(".")[2] == name.rpartition(".")[2]
        ]
        near = [(script, other) for script, other in built if _near(script, other, call, event)]
        built = near or [item for item in built if self._akin(*item, call, event)]
        if len(built) != 1:
            return None
        script, other = built[0]
        layers = list(other.node.args)
        if len(layers) == 1 and isinstance(layers[0], ast.Call) and layers[0].args:
            named = layers[0].args[0]  # OrderedDict([("fc", ...), ("prob", nn.Softmax(1))])
            pairs = named.elts if isinstance(named, ast.List | ast.Tuple) else []
            layers = [pair.elts[1] for pair in pairs if isinstance(pair, ast.Tuple) and len(pair.elts) == 2]
        last = layers[-1] if layers else None
        made = resolved_calls(script).get(last) if last is not None else None
        if made is None or made.name not in LAYERS:
            return None
        dim = made.argument("dim", 0)
        if isinstance(dim, Known) and dim.value == 0 and dim.value is not None:
            return None
        return Made(LAYERS[made.name], script, made.node, None, event.via)

    def _akin(self, script: Script, built: Call, call: Call, event: Event) -> bool:
        """Whether `self.net` of a caller may be what another class keeps as its `self.net`: of one family."""
        kept = bound_to(script, built.node).startswith("self.")
        if not (kept and ast.unparse(call.node.func).startswith("self.")):
            return True
        home = self._scripts.get(event.span.path)
        mine, theirs = call.function.partition(".")[0], built.function.partition(".")[0]
        return home is not None and (theirs in _family(home, mine) or mine in _family(script, theirs))

    def bind(self, target: ast.expr, value: ast.expr, event: Event) -> None:
        """The target is what the value is."""
        self._set(target, self.origin(value, event), event)

    def add(self, target: ast.expr, value: ast.expr, event: Event) -> None:  # noqa: ARG002
        """A sum is no probability."""
        self._set(target, None, event)

    def give(self, key: Key, value: ast.expr, event: Event) -> None:
        """The call is what the value is, one of several perhaps."""
        self._returned.setdefault(key, []).append((self.origin(value, event), self._guards(event)))

    def _guards(self, event: Event) -> Guards:
        """The conditions and branches that an event stands under."""
        found: list[tuple[object, ...]] = [(g.line, g.text) for g in event.guards if not _sure(g)]
        for span in (event.span, *event.via):
            script = self._scripts.get(span.path)
            found += arms(script, span.line) if script is not None else ()
        return tuple(found)

    def _set(self, target: ast.expr, origin: Origin, event: Event) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            parts = origin if isinstance(origin, tuple) and len(origin) == len(target.elts) else None
            for index, part in enumerate(target.elts):
                self._set(part, parts[index] if parts is not None else None, event)
            return
        key = event.via, ast.unparse(target)
        guards = self._guards(event)
        if origin is None and key in self.facts and not set(guards) <= set(self.facts[key][1]):
            self.facts[key] = None, ()  # one branch makes it something else
        else:
            self.facts[key] = origin, guards


def _family(script: Script, name: str) -> set[str]:
    """The last names of a class and of all that it extends."""
    info = script.classes.get(name)
    return {name, *(base.rpartition(".")[2] for base in (info.bases if info is not None else ()))}


def _near(script: Script, built: Call, call: Call, event: Event) -> bool:
    """Whether a Sequential is built in the class or function that calls it."""
    if script.path != event.span.path:
        return False
    mine, theirs = call.function, built.function
    return mine == theirs or (bool(mine) and mine.rpartition(".")[0] == theirs.rpartition(".")[0] != "")


def _sure(guard: Guard) -> bool:
    return isinstance(guard.value, Known) and guard.value.value is True and guard.value.origin != "with a GPU"


def _agreed(origins: list[Origin]) -> Origin:
    """The origin that all returns share by its kind; None when one differs."""
    if not origins:
        return None
    kinds = {_kind(origin) for origin in origins}
    return origins[-1] if len(kinds) == 1 else None


def _kind(origin: Origin) -> object:
    if isinstance(origin, tuple):
        return tuple(_kind(item) for item in origin)
    return origin.kind if origin is not None else None
