"""What one layer's call makes: its kind, weights and sides, and how often the code around it makes it."""

import ast
import math
from collections.abc import Mapping
from typing import TypeAlias

from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.syntax import keyword_value, last_name, words
from gpudoctor.model.signs.source import Call, Known, Script

Plain: TypeAlias = int | str | tuple["Plain | None", ...]
Names: TypeAlias = Mapping[str, Plain]
"""Values of parameters and of `self.x` at one call of a constructor or helper; a class stands as its name."""

CONVS = {f"torch.nn.{name}{size}d": size for name in ("Conv", "ConvTranspose") for size in (1, 2, 3)}
RECURRENT = {"torch.nn.LSTM": 4, "torch.nn.GRU": 3, "torch.nn.RNN": 1}
ATTENTION = words(
    "torch.nn.MultiheadAttention torch.nn.TransformerEncoderLayer torch.nn.TransformerDecoderLayer "
    "torch.nn.Transformer torch.nn.functional.scaled_dot_product_attention"
)
STACKS = {
    "torch.nn.TransformerEncoder": "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoder": "torch.nn.TransformerDecoderLayer",
}
_MOST_REPEATS = 1000


def sizes_of(script: Script, call: Call, names: Names) -> tuple[str, int | None] | None:
    """Kind and weights of a layer; None when the call makes none."""

    def get(keyword: str, position: int) -> int | None:
        """A whole-number argument; of a tuple `(3, 3)` the first."""
        plain = argument(script, call, keyword, position, names)
        plain = plain[0] if isinstance(plain, tuple) and plain else plain
        return plain if isinstance(plain, int) and plain > 0 else None

    if not call.name.startswith("torch.nn."):
        return None
    if call.name == "torch.nn.Linear":
        return "linear", _product(get("in_features", 0), get("out_features", 1))
    if call.name in CONVS:
        kernel = argument(script, call, "kernel_size", 2, names)
        sides = kernel if isinstance(kernel, tuple) else (kernel,) * CONVS[call.name]
        weights = _product(get("in_channels", 0), get("out_channels", 1), *(side or None for side in sides))
        groups = get("groups", 7 if "Transpose" in call.name else 6) or 1
        return "conv", None if weights is None else weights // groups
    if call.name == "torch.nn.Embedding":
        return "embedding", _product(get("num_embeddings", 0), get("embedding_dim", 1))
    if call.name in RECURRENT:
        inner, hidden = get("input_size", 0), get("hidden_size", 1)
        both = None if inner is None or hidden is None else inner + hidden
        return "recurrent", _product(hidden, both, RECURRENT[call.name], get("num_layers", 2) or 1)
    if call.name == "torch.nn.MultiheadAttention":
        width = get("embed_dim", 0)
        return "attention", _product(width, width, 4)
    if call.name in STACKS.values():
        width, inner = get("d_model", 0), get("dim_feedforward", 2) or 2048
        maps = 8 if "Decoder" in call.name else 4
        return "attention", None if width is None else maps * width * width + 2 * width * inner
    return None


def argument(script: Script, call: Call, keyword: str, position: int, names: Names) -> Plain | None:
    """An argument's value."""
    node = keyword_value(call.node, keyword)
    if node is None and position < len(call.node.args):
        node = call.node.args[position]
    if node is not None:
        return worked_out(script, node, names)
    value = call.argument(keyword, position)  # of a dict that is spread
    return _plain(value.value) if isinstance(value, Known) else None


def worked_out(script: Script, node: ast.expr, names: Names) -> Plain | None:
    """What an expression gives: by its text, or with the names; None when nobody can tell."""
    known = script.thing(node).value
    if isinstance(known, Known):
        return _plain(known.value)
    if isinstance(node, ast.Name | ast.Attribute):
        return names.get(ast.unparse(node))
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(worked_out(script, item, names) for item in node.elts)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        held, place = worked_out(script, node.value, names), node.slice.value
        if isinstance(held, tuple) and isinstance(place, int) and -len(held) <= place < len(held):
            return held[place]
    if isinstance(node, ast.BinOp):
        left, right = worked_out(script, node.left, names), worked_out(script, node.right, names)
        if isinstance(left, int) and isinstance(right, int) and max(abs(left), abs(right)) < 1 << 40:
            return _combined(node.op, left, right)
    return None


def _combined(op: ast.operator, left: int, right: int) -> int | None:
    match op:
        case ast.Mult():
            return left * right
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.FloorDiv() | ast.Div() if right:
            return left // right
    return None


def _plain(value: object) -> Plain | None:
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _product(*factors: object) -> int | None:
    known = [factor for factor in factors if isinstance(factor, int)]
    return math.prod(known) if len(known) == len(factors) else None


def repeats(script: Script, call: Call, names: Names) -> int:
    """How often a comprehension or a loop over `range(N)` makes it."""
    times = 1
    for node in enclosing(script, call.node):
        heads: list[ast.expr] = []
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            heads = [item.iter for item in node.generators]
        elif isinstance(node, ast.For):
            heads = [node.iter]
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            break
        for head in heads:
            if isinstance(head, ast.Call) and last_name(head.func) == "range" and 0 < len(head.args) < 3:
                whole = [worked_out(script, part, names) for part in head.args]
                if all(isinstance(number, int) for number in whole):
                    times *= max(1, len(range(*whole)))  # type: ignore[arg-type]
    return min(times, _MOST_REPEATS)
