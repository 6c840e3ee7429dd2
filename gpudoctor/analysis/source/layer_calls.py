"""What one layer's call makes: its kind, weights and sides, and how often the code around it makes it."""

import ast
from collections.abc import Mapping
from typing import TypeAlias

from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.model.signs.source import Call, Known, Script, Unknown, Value

Plain: TypeAlias = int | str | tuple["Plain | None", ...]
Names: TypeAlias = Mapping[str, Plain]
"""Values of parameters and of `self.x` at one call of a constructor or helper; a class stands as its name."""

CONVS = {f"torch.nn.{name}{size}d": size for name in ("Conv", "ConvTranspose") for size in (1, 2, 3)}
RECURRENT = {"torch.nn.LSTM": 4, "torch.nn.GRU": 3, "torch.nn.RNN": 1}
ATTENTION = frozenset(
    {"torch.nn.MultiheadAttention", "torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer",
     "torch.nn.Transformer", "torch.nn.functional.scaled_dot_product_attention"}
)  # fmt: skip
STACKS = {
    "torch.nn.TransformerEncoder": "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoder": "torch.nn.TransformerDecoderLayer",
}
_MOST_REPEATS = 1000


def sizes_of(call: Call, names: Names) -> tuple[str, int | None] | None:
    """Kind and weights of a layer; None when the call makes none."""
    get = _Numbers(call, names)
    if call.name == "torch.nn.Linear":
        inner, outer = get("in_features", 0), get("out_features", 1)
        return "linear", _product(inner, outer)
    if call.name in CONVS:
        inner, outer, kernel = get("in_channels", 0), get("out_channels", 1), get("kernel_size", 2)
        groups = get("groups", 7 if "Transpose" in call.name else 6) or 1
        plain = argument(call, "kernel_size", 2, names)
        if isinstance(plain, tuple):
            side = _product(*(part if isinstance(part, int) else 1 for part in plain))
        else:
            side = None if kernel is None else kernel ** CONVS[call.name]
        weights = _product(inner, outer, side)
        return "conv", None if weights is None else weights // max(1, groups)
    if call.name == "torch.nn.Embedding":
        rows, width = get("num_embeddings", 0), get("embedding_dim", 1)
        return "embedding", _product(rows, width)
    if call.name in RECURRENT:
        inner, hidden = get("input_size", 0), get("hidden_size", 1)
        weights = None if inner is None or hidden is None else hidden * (inner + hidden)
        layers = get("num_layers", 2) or 1
        return "recurrent", _product(weights, RECURRENT[call.name], layers)
    if call.name in ATTENTION and not call.name.endswith("attention"):
        return _attention(call, get)
    return None


def _attention(call: Call, get: "_Numbers") -> tuple[str, int | None]:
    if call.name == "torch.nn.MultiheadAttention":
        width = get("embed_dim", 0)
        return "attention", _product(width, width, 4)
    width = get("d_model", 0)
    if call.name == "torch.nn.Transformer":
        width, inner = width or 512, get("dim_feedforward", 5) or 2048
        pairs = (get("num_encoder_layers", 2) or 6) * 4 + (get("num_decoder_layers", 3) or 6) * 8
        return "attention", pairs * width * width + 12 * 2 * width * inner
    inner = get("dim_feedforward", 2) or 2048
    maps = 8 if "Decoder" in call.name else 4
    weights = None if width is None else maps * width * width + 2 * width * inner
    return "attention", weights


class _Numbers:
    """The whole-number arguments of a call; of a tuple `(3, 3)` the first."""

    def __init__(self, call: Call, names: Names) -> None:
        self._call, self._names = call, names

    def __call__(self, keyword: str, position: int) -> int | None:
        plain = argument(self._call, keyword, position, self._names)
        if isinstance(plain, tuple) and plain:
            plain = plain[0]
        return plain if isinstance(plain, int) and not isinstance(plain, bool) and plain > 0 else None


def argument(call: Call, keyword: str, position: int, names: Names) -> Plain | None:
    """An argument's value, its expression worked out with the names where the reader knows none."""
    value = call.argument(keyword, position)
    node = keyword_value(call.node, keyword)
    if node is None and position < len(call.node.args):
        node = call.node.args[position]
    return worked_out(node, value, names)


def worked_out(node: ast.expr | None, value: Value | None, names: Names) -> Plain | None:
    """A value, or what its expression gives with the names; None when nobody can tell."""
    if isinstance(value, Known):
        return _plain(value.value)
    if isinstance(node, ast.Constant):
        return _plain(node.value)
    if isinstance(node, ast.Name | ast.Attribute):
        return names.get(ast.unparse(node))
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(worked_out(item, None, names) for item in node.elts)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        held, place = worked_out(node.value, None, names), node.slice.value
        if isinstance(held, tuple) and isinstance(place, int) and -len(held) <= place < len(held):
            return held[place]
    if isinstance(node, ast.BinOp):
        return _combined(node, worked_out(node.left, None, names), worked_out(node.right, None, names))
    return None


def _combined(node: ast.BinOp, left: Plain | None, right: Plain | None) -> int | None:
    if not isinstance(left, int) or not isinstance(right, int) or max(abs(left), abs(right)) > 1 << 40:
        return None
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.FloorDiv | ast.Div) and right:
        return left // right
    return left**right if isinstance(node.op, ast.Pow) and abs(left) <= 2 and 0 <= right < 32 else None


def _plain(value: object) -> Plain | None:
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _product(*factors: int | None) -> int | None:
    total = 1
    for factor in factors:
        if factor is None:
            return None
        total *= factor
    return total


def repeats(script: Script, call: Call, names: Names, ranges: Mapping[int, Call]) -> int:
    """How often a comprehension or a loop over `range(N)` makes it; `ranges` are the script's by node."""
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
            times *= _length(ranges.get(id(head)), names)
    return min(times, _MOST_REPEATS)


def _length(call: Call | None, names: Names) -> int:
    if call is None or not call.node.args:
        return 1
    values = call.positional if len(call.positional) == len(call.node.args) else (Unknown(),) * len(call.node.args)
    numbers = [worked_out(node, value, names) for node, value in zip(call.node.args, values, strict=True)]
    whole = [number for number in numbers if isinstance(number, int)]
    if len(whole) != len(numbers) or len(whole) > 3 or 0 in whole[2:]:
        return 1
    return max(1, len(range(*whole)))
