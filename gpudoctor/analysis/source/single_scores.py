"""Softmaxes over a single score, where the text shows it: the score comes from a layer with one output."""

import ast
from collections.abc import Iterator
from itertools import pairwise

from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.probabilities import LAYERS, given, maker
from gpudoctor.analysis.source.syntax_places import resolved_calls
from gpudoctor.model.signs.source import Call, Known, Script, Source

_SOFTMAX = frozenset({"softmax", "log_softmax"})
_LAST = -1
_ROWS = frozenset({"torch.nn.Flatten"})
"""Layers after which a batch has two dimensions, the samples' and the features'."""


def single_scores(source: Source) -> Iterator[tuple[Script, Call, Call]]:
    """Softmaxes over the last dimension of what `nn.Linear(n, 1)` gives, each with that layer's call.

    Over another dimension one layer's scores of several parts are weighed against each other: no fault.
    """
    for script in source.scripts:
        ones = [call for call in script.calls_to("torch.nn.Linear") if _one_output(call)]
        yield from _applied(script, ones)
        yield from _stacked(script, {call.node: call for call in ones})


def _applied(script: Script, ones: list[Call]) -> Iterator[tuple[Script, Call, Call]]:
    """`softmax(self.score(x), dim=-1)`: of the class or function that makes the layer."""
    for call in script.calls:
        if maker(call) not in _SOFTMAX or _dimension(call) != _LAST:
            continue
        inner = given(call)
        if not isinstance(inner, ast.Call):
            continue
        name = ast.unparse(inner.func)
        homes = [one for one in ones if bound_to(script, one.node) == name and _near(one, call)]
        bound = sum(bound_to(script, other.node) == name and _near(other, call) for other in script.calls)
        if len(homes) == 1 and bound == 1:
            yield script, call, homes[0]


def _stacked(script: Script, ones: dict[ast.Call, Call]) -> Iterator[tuple[Script, Call, Call]]:
    """`nn.Sequential(..., nn.Linear(n, 1), nn.Softmax(dim=-1))`."""
    calls = resolved_calls(script)
    for stack in script.calls_to("torch.nn.Sequential"):
        layers = [calls.get(item) if isinstance(item, ast.Call) else None for item in stack.node.args]
        for place, (before, after) in enumerate(pairwise(layers)):
            if before is None or after is None or before.node not in ones:
                continue
            if LAYERS.get(after.name) not in _SOFTMAX:
                continue
            flat = any(layer is not None and layer.name in _ROWS for layer in layers[:place])
            if _dimension(after) == _LAST or (flat and _dimension(after) == 1):
                yield script, after, before


def _one_output(call: Call) -> bool:
    size = call.argument("out_features", 1)
    return isinstance(size, Known) and size.value == 1


def _dimension(call: Call) -> int | None:
    """The dimension that a softmax goes over; None where the text does not say."""
    layer = call.name in LAYERS
    method = call.name.startswith(("torch.Tensor.", "?."))
    dim = call.argument("dim", 0 if layer or method else 1)
    return dim.value if isinstance(dim, Known) and isinstance(dim.value, int) else None


def _near(made: Call, used: Call) -> bool:
    """Whether a layer is made in the function, or by the class, that uses it."""
    mine, theirs = made.function.rpartition("."), used.function.rpartition(".")
    return made.function == used.function or (bool(mine[0]) and mine[0] == theirs[0])
