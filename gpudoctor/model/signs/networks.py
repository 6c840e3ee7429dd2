"""The networks that a program builds, and how large they are, as far as the source tells.

A lower bound counted from the layers' own arguments: what only a run can tell adds nothing, and a network of a
library is known by its name alone.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.program import enclosing
from gpudoctor.model.signs.programs import Program, by_script
from gpudoctor.model.signs.source import Call, ClassInfo, Known, Script

_LIBRARY = re.compile(
    r"(torchvision\.models\.(?:\w+\.)*(?!get_model_weights|list_models|get_weight)[a-z]\w*$)|(timm\.create_model$)"
    r"|(segmentation_models_pytorch\.(?:\w+\.)*[A-Z]\w*$)|(monai\.networks\.nets\.(?:\w+\.)*[A-Z]\w*$)"
    r"|((?:transformers|diffusers|peft|sentence_transformers|unsloth|open_clip)\.(?:\w+\.)*(?!DataCollator)\w*"
    r"(?:Model|For[A-Z]\w*|HeadModel|Transformer\dD\w*|SentenceTransformer)(?:\.from_pretrained|\.from_config)?$)"
    r"|((?:torchvision\.models\.|torch\.hub\.)(?:get_model|load)$)|(efficientnet_pytorch\.EfficientNet\.from_\w+$)"
)
_CONVOLUTIONAL = re.compile(
    r"resne|vgg|densenet|mobilenet|efficientnet|inception|googlenet|alexnet|convnext|unet|deeplab|fcn|regnet|yolo|"
    r"shufflenet|mnasnet|fpn|linknet|retinanet|rcnn|hrnet|xception",
    re.IGNORECASE,
)
_CONVS = {f"torch.nn.{name}{size}d": size for name in ("Conv", "ConvTranspose") for size in (1, 2, 3)}
_RECURRENT = {"torch.nn.LSTM": 4, "torch.nn.GRU": 3, "torch.nn.RNN": 1}
_ATTENTION = frozenset(
    {"torch.nn.MultiheadAttention", "torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer",
     "torch.nn.Transformer", "torch.nn.functional.scaled_dot_product_attention"}
)  # fmt: skip
_STACKS = {
    "torch.nn.TransformerEncoder": "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoder": "torch.nn.TransformerDecoderLayer",
}
_TINY = re.compile(r"\btiny|[-_/]tiny|hf-internal-testing|dummy", re.IGNORECASE)
_DEPTH = 8
_MOST_REPEATS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One layer that a network's code makes."""

    kind: str
    """`linear`, `conv`, `attention`, `recurrent` or `embedding`."""
    call: Call
    script: Script
    parameters: int | None
    """Weights of one such layer; None when its sizes are not known."""
    repeats: int = 1
    """How many of them the code makes, where it says so."""
    feature_sizes: tuple[int, ...] = ()
    """Sizes that become sides of its matrix products, where they are known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """The largest network of a program."""

    name: str
    """`Net`, `torchvision.models.resnet50`."""
    span: SourceSpan
    """Where it is built."""
    script: Script
    library: bool
    """Whether a library builds it; its size is then not known, and not small unless its name says so."""
    tiny: bool
    """Whether a library's network is small by its name."""
    layers: tuple[Layer, ...]
    """Every layer that the program's own code makes."""
    parameters: int
    """Weights in matrix products and convolutions, a lower bound; embeddings are not in it."""
    unknown: int
    """Layers whose sizes are not known."""
    convolutional: bool
    attentive: bool

    @property
    def size_text(self) -> str:
        """`resnet50`, or `Net, at least 12 M weights`."""
        if self.library or not self.parameters:
            return self.name.removesuffix(".from_pretrained").rpartition(".")[2]
        return f"{self.name}, at least {self.parameters / 1e6:.3g} M weights"


def network(program: Program) -> Network | None:
    """The largest network that a program builds; None when it builds none that is known."""
    return program.once("network", lambda: _network(program))


def _network(program: Program) -> Network | None:
    library = list(_library_calls(program))
    counted = _Counter(program)
    name, parameters, place = counted.largest()
    layers = counted.layers
    convolutional = any(layer.kind == "conv" for layer in layers)
    attentive = any(layer.kind == "attention" for layer in layers) or bool(program.called & _ATTENTION)
    if library:
        script, call = next((item for item in library if not _is_tiny(item[1])), library[0])
        return Network(
            name=_library_name(call),
            span=call.span,
            script=script,
            library=True,
            tiny=all(_is_tiny(item[1]) for item in library),
            layers=layers,
            parameters=parameters,
            unknown=counted.unknown,
            convolutional=convolutional or _is_convolutional(call),
            attentive=attentive or call.name.startswith(("transformers.", "unsloth.")),
        )
    if place is None:
        return None
    script, span = place
    return Network(
        name=name,
        span=span,
        script=script,
        library=False,
        tiny=False,
        layers=layers,
        parameters=parameters,
        unknown=counted.unknown,
        convolutional=convolutional,
        attentive=attentive,
    )


def _library_calls(program: Program) -> Iterator[tuple[Script, Call]]:
    for script in program.scripts:
        for call in _of_libraries(script):
            yield script, call


@by_script
def _of_libraries(script: Script) -> list[Call]:
    return list(_built_by_libraries(script))


def _built_by_libraries(script: Script) -> Iterator[Call]:
    for call in script.calls:
        if any(guard.never for guard in call.guards) or call.name.endswith((".save_pretrained", ".forward")):
            continue
        named = _LIBRARY.match(call.name) and not call.receiver_type
        if named or (call.method == "subscript" and ast.unparse(call.node.func).startswith(_zoo(script))):
            yield call


def _zoo(script: Script) -> tuple[str, ...]:
    """`models.__dict__[` in the words of the script."""
    return tuple(
        f"{local}.__dict__[" for local, name in script.imports.items() if name == "torchvision.models"
    ) or ("\0",)


def _library_name(call: Call) -> str:
    first = call.node.args[0] if call.node.args else None
    if call.method in {"create_model", "get_model", "from_pretrained", "load"} and isinstance(
        first, ast.Constant
    ):
        return f"{call.name}({ast.unparse(first)})"
    return "torchvision.models" if call.method == "subscript" else call.name


def _is_convolutional(call: Call) -> bool:
    """Whether the name says that it convolves; torchvision's own are so, its transformers apart."""
    text = ast.unparse(call.node)
    vision = call.method == "subscript" or call.name.startswith(
        ("torchvision.", "segmentation_models_pytorch.")
    )
    return bool(_CONVOLUTIONAL.search(text)) or (vision and not re.search(r"vit_|swin|maxvit", text))


def _is_tiny(call: Call) -> bool:
    """Whether the name says that it is small."""
    given = [value.value for value in (*call.positional, *call.keywords.values()) if isinstance(value, Known)]
    return any(isinstance(value, str) and _TINY.search(value) for value in given)


class _Counter:
    """Counts the weights of the program's own modules, nested ones included."""

    def __init__(self, program: Program) -> None:
        self._classes: dict[str, tuple[Script, ClassInfo]] = {}
        for script in program.scripts:
            for name, info in script.classes.items():
                if any(base.startswith(("torch.nn.", "lightning.", "transformers.")) for base in info.bases):
                    self._classes.setdefault(name, (script, info))
        self._own: dict[str, list[tuple[Script, Call]]] = {}
        self._free: dict[tuple[str, str], list[tuple[Script, Call]]] = {}
        built: set[str] = set()
        for script, call in program.calls:
            owner = self._owner(call)
            if owner:
                self._own.setdefault(owner, []).append((script, call))
            elif call.name.startswith("torch.nn.") and not call.name.endswith("Loss"):
                self._free.setdefault((script.path, call.function), []).append((script, call))
            last = call.name.rpartition(".")[2]
            if last in self._classes and not any(guard.never for guard in call.guards):
                built.add(last)
        self._built = built | {
            name
            for name, (_, info) in self._classes.items()
            if any(b.startswith("lightning.") for b in info.bases)
        }
        self.layers = tuple(self._layers())
        self.unknown = sum(layer.parameters is None for layer in self.layers)
        self._known = {id(layer.call.node): layer for layer in self.layers}

    def _owner(self, call: Call) -> str:
        """The module class whose code makes the call, "" outside of one; only its constructor and helpers."""
        first = call.function.partition(".")[0]
        return first if first in self._classes and ".forward" not in call.function else ""

    def _layers(self) -> Iterator[Layer]:
        for name, calls in self._own.items():
            if name in self._built:
                for script, call in calls:
                    yield from self._layer(script, call, calls)
        for calls in self._free.values():
            for script, call in calls:
                yield from self._layer(script, call, calls)

    def _layer(self, script: Script, call: Call, beside: list[tuple[Script, Call]]) -> Iterator[Layer]:
        made = _sizes(call)
        if made is None:
            return
        kind, parameters, sizes = made
        repeats = _repeats(script, call)
        for _, other in beside:
            if _STACKS.get(other.name) == call.name and other.function == call.function:
                value = other.argument("num_layers", 1)
                if isinstance(value, Known) and isinstance(value.value, int):
                    repeats *= max(1, value.value)
        yield Layer(
            kind=kind, call=call, script=script, parameters=parameters, repeats=repeats, feature_sizes=sizes
        )

    def largest(self) -> tuple[str, int, tuple[Script, SourceSpan] | None]:
        """Name, weights and place of the largest network of the program's own."""
        best: tuple[str, int, tuple[Script, SourceSpan] | None] = ("", 0, None)
        for name in sorted(self._built):
            script, info = self._classes[name]
            total = self._weights(name, _DEPTH)
            if best[2] is None or total > best[1]:
                best = (name, total, (script, info.span))
        for calls in self._free.values():
            layers = [self._known[id(call.node)] for _, call in calls if id(call.node) in self._known]
            total = sum(_matrix_weights(layer) for layer in layers)
            if layers and (best[2] is None or total > best[1]):
                best = ("the network", total, (layers[0].script, layers[0].call.span))
        return best

    def _weights(self, name: str, depth: int) -> int:
        if depth == 0:
            return 0
        total = 0
        for script, call in self._own.get(name, ()):
            layer = self._known.get(id(call.node))
            if layer is not None:
                total += _matrix_weights(layer)
                continue
            last = call.name.rpartition(".")[2]
            if last in self._classes and last != name:
                total += self._weights(last, depth - 1) * _repeats(script, call)
        return total


def _matrix_weights(layer: Layer) -> int:
    return 0 if layer.kind == "embedding" else (layer.parameters or 0) * layer.repeats


def _sizes(call: Call) -> tuple[str, int | None, tuple[int, ...]] | None:
    """Kind, weights and feature sizes of a layer; None when the call makes none."""
    get = _Numbers(call)
    if call.name == "torch.nn.Linear":
        inner, outer = get("in_features", 0), get("out_features", 1)
        return "linear", _product(inner, outer), _known(inner, outer)
    if call.name in _CONVS:
        inner, outer, kernel = get("in_channels", 0), get("out_channels", 1), get("kernel_size", 2)
        groups = get("groups", 7 if "Transpose" in call.name else 6) or 1
        side = None if kernel is None else kernel ** _CONVS[call.name]
        weights = _product(inner, outer, side)
        return "conv", None if weights is None else weights // max(1, groups), _known(inner, outer)
    if call.name == "torch.nn.Embedding":
        rows, width = get("num_embeddings", 0), get("embedding_dim", 1)
        return "embedding", _product(rows, width), _known(width)
    if call.name in _RECURRENT:
        inner, hidden = get("input_size", 0), get("hidden_size", 1)
        weights = None if inner is None or hidden is None else hidden * (inner + hidden)
        return (
            "recurrent",
            _product(weights, _RECURRENT[call.name], get("num_layers", 2) or 1),
            _known(inner, hidden),
        )
    if call.name in _ATTENTION and not call.name.endswith("attention"):
        return _attention(call, get)
    return None


def _attention(call: Call, get: "_Numbers") -> tuple[str, int | None, tuple[int, ...]]:
    if call.name == "torch.nn.MultiheadAttention":
        width = get("embed_dim", 0)
        return "attention", _product(width, width, 4), _known(width)
    width = get("d_model", 0)
    if call.name == "torch.nn.Transformer":
        width, inner = width or 512, get("dim_feedforward", 5) or 2048
        pairs = (get("num_encoder_layers", 2) or 6) * 4 + (get("num_decoder_layers", 3) or 6) * 8
        return "attention", pairs * width * width + 12 * 2 * width * inner, _known(width, inner)
    inner = get("dim_feedforward", 2) or 2048
    maps = 8 if "Decoder" in call.name else 4
    weights = None if width is None else maps * width * width + 2 * width * inner
    return "attention", weights, _known(width, inner)


class _Numbers:
    """The whole-number arguments of a call; of a tuple `(3, 3)` the first."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __call__(self, keyword: str, position: int) -> int | None:
        value = self._call.argument(keyword, position)
        plain = value.value if isinstance(value, Known) else None
        if isinstance(plain, tuple) and plain:
            plain = plain[0]
        return plain if isinstance(plain, int) and not isinstance(plain, bool) and plain > 0 else None


def _product(*factors: int | None) -> int | None:
    total = 1
    for factor in factors:
        if factor is None:
            return None
        total *= factor
    return total


def _known(*sizes: int | None) -> tuple[int, ...]:
    return tuple(size for size in sizes if size is not None)


def _repeats(script: Script, call: Call) -> int:
    """How often a comprehension or a loop over `range(N)` makes it."""
    ranges: Mapping[int, Call] = {id(item.node): item for item in script.calls if item.name == "range"}
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
            times *= _length(ranges.get(id(head)))
    return min(times, _MOST_REPEATS)


def _length(call: Call | None) -> int:
    if call is None or not call.positional:
        return 1
    numbers = [value.value for value in call.positional if isinstance(value, Known)]
    if len(numbers) != len(call.positional) or not all(isinstance(number, int) for number in numbers):
        return 1
    whole = [number for number in numbers if isinstance(number, int)]
    return max(1, len(range(*whole))) if 0 not in whole[2:] else 1
