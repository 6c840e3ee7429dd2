"""The networks that a program builds, and how large they are at least, as far as the source tells.

Only layers whose sizes stand at the call that is made are counted, and nothing that hangs on an open condition. A
network of a library is known by its name alone. Where several networks may be the one that trains, none is named.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.layer_calls import (
    ATTENTION,
    CONVS,
    STACKS,
    Names,
    Plain,
    argument,
    repeats,
    sizes_of,
    worked_out,
)
from gpudoctor.analysis.source.optimizers import optimizers
from gpudoctor.analysis.source.syntax import is_name
from gpudoctor.lang import say
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.source import Call, ClassInfo, Known, Script

_LIBRARY = re.compile(
    r"(torchvision\.models\.(?!_?utils\.|_api\.|feature_extraction\.)(?:\w+\.)*"
    r"(?!get_model_weights|list_models|get_weight|load_state_dict)[a-z]\w*$)|(timm\.create_model$)"
    r"|(segmentation_models_pytorch\.(?!losses\.|metrics\.|utils\.)(?:\w+\.)*[A-Z]\w*$)|(monai\.networks\.nets\.(?:\w+\.)*[A-Z]\w*$)"
    r"|((?:transformers|diffusers|peft|sentence_transformers|unsloth|open_clip)\.(?:\w+\.)*(?!DataCollator)\w*"
    r"(?:Model|For[A-Z]\w*|HeadModel|Transformer\dD\w*|SentenceTransformer)(?:\.from_pretrained|\.from_config)?$)"
    r"|((?:torchvision\.models\.|torch\.hub\.)(?:get_model|load)$)|(efficientnet_pytorch\.EfficientNet\.from_\w+$)"
)
_MAKER = re.compile(r"\.from_(pretrained|config)$")
_CONVOLUTIONAL = re.compile(
    r"resne|vgg|densenet|mobilenet|efficientnet|inception|googlenet|alexnet|convnext|unet|deeplab|fcn|regnet|yolo|"
    r"shufflenet|mnasnet|fpn|linknet|retinanet|rcnn|hrnet|xception",
    re.IGNORECASE,
)
_TINY = re.compile(r"\btiny|[-_/]tiny|hf-internal-testing|dummy", re.IGNORECASE)
_DEPTH = 8
_MOST_CALLS = 5000


@frozen(eq=False)
class Network:
    """The largest network that a program builds outside of its other networks."""

    name: str
    """`Net`, `torchvision.models.resnet50`."""
    span: SourceSpan
    """Where it is built."""
    script: Script
    library: bool = False
    """Whether a library builds it or a part of it; its size is then not known."""
    tiny: bool = False
    """Whether a library's network is small by its name."""
    parameters: int = 0
    """Weights in matrix products and convolutions, a lower bound; embeddings are not in it."""
    unknown: bool = False
    """Whether it has layers whose sizes are not known."""
    convolutional: bool = False
    attentive: bool = False
    certain: bool = True
    """Whether it is the only network that can be meant."""

    @property
    def size_text(self) -> str:
        """`resnet50`, or `Net (at least 12 M weights)`; `The network` where it may be another."""
        if not self.certain:
            return "The network"
        if self.library or not self.parameters:
            called, bracket, of = self.name.partition("(")  # the hub's name has dots of its own
            return _MAKER.sub("", called).rpartition(".")[2] + bracket + of
        return say(
            "{name} (at least {parameters:.3g} M weights)", name=self.name, parameters=self.parameters / 1000000.0
        )


@once
def network(program: Program) -> Network | None:
    """The largest network that a program builds; one of a library comes first, and a small one of a library last.

    None where it builds none that is known. Those whose parameters an optimizer gets by their name come before all
    others. It is certain if no other network is left.
    """
    named = list(_Builder(program).networks())
    trained = {root for one in optimizers(program.source) for root in one.roots}
    found = [one for holder, one in named if holder in trained] or [one for _, one in named]
    if not found:
        return None
    best = max(found, key=lambda one: (one.library and not one.tiny, one.parameters, not one.library))
    rivals = {one.name for one in found if not one.tiny and (one.library or one.parameters or one.unknown)}
    return replace(
        best,
        convolutional=best.convolutional or bool(program.called & CONVS.keys()),
        attentive=best.attentive or bool(program.called & ATTENTION),
        certain=best.certain and len(rivals | {best.name}) == 1,
    )


def _of_library(call: Call) -> bool:
    """Whether a call builds a library's network."""
    if call.name.endswith((".save_pretrained", ".forward")):
        return False
    return bool(_LIBRARY.match(call.name)) and not call.receiver_type


def _library_name(call: Call) -> str:
    first = call.node.args[0] if call.node.args else None
    if call.method in {"create_model", "get_model"}:  # the name is all that tells what these build
        named = call.argument("model_name" if call.method == "create_model" else "name", 0)
        known = named.value if isinstance(named, Known) else None
        return known if isinstance(known, str) else say("The {name} network", name=call.name.partition(".")[0])
    if call.method in {"from_pretrained", "load"} and isinstance(first, ast.Constant):
        return f"{call.name}({ast.unparse(first)})"
    return call.name


def _is_convolutional(call: Call) -> bool:
    """Whether the name says that it convolves; torchvision's own are so, its transformers apart."""
    text = ast.unparse(call.node)
    vision = call.name.startswith(("torchvision.", "segmentation_models_pytorch."))
    return bool(_CONVOLUTIONAL.search(text)) or (vision and not re.search(r"vit_|swin|maxvit", text))


def _is_tiny(call: Call) -> bool:
    """Whether the name says that it is small."""
    given = [value.value for value in (*call.positional, *call.keywords.values()) if isinstance(value, Known)]
    return any(isinstance(value, str) and _TINY.search(value) for value in given)


def _open(call: Call) -> bool:
    """Whether a condition around a call is one whose outcome the source does not tell."""
    return any(not guard.mostly and not isinstance(guard.value, Known) for guard in call.guards)


def _holder(script: Script, node: ast.expr) -> str:
    """The name that holds what a call makes, through `.to(device)` and wrappers; else ""."""
    for above in enclosing(script, node):
        if isinstance(above, ast.Assign) and len(above.targets) == 1:
            return ast.unparse(above.targets[0])
        if not isinstance(above, ast.Attribute | ast.Call | ast.keyword):
            break
    return ""


@dataclass(slots=True)
class _Counted:
    """What a function builds, with the constructors and helpers that it runs."""

    parameters: int = 0
    unknown: bool = False
    library: list[tuple[Script, Call]] = field(default_factory=list)
    first: Call | None = None
    """The first layer."""

    def add(self, other: "_Counted", times: int = 1) -> None:
        self.parameters += times * other.parameters
        self.unknown |= other.unknown
        self.library += other.library


def _as_network(script: Script, name: str, built: Call | ClassInfo, counted: _Counted) -> Network:
    large = [item for item in counted.library if not _is_tiny(item[1])]
    names = {_library_name(call) for _, call in large}
    for script, call in (large or counted.library)[:1]:
        return Network(
            name=_library_name(call),
            span=call.span,
            script=script,
            library=True,
            tiny=not large,
            parameters=counted.parameters,
            unknown=counted.unknown,
            convolutional=_is_convolutional(call),
            attentive=call.name.startswith(("transformers.", "unsloth.")),
            certain=len(names) < 2 and not _open(call),
        )
    return Network(name=name, span=built.span, script=script, parameters=counted.parameters, unknown=counted.unknown)


class _Builder:
    """Follows what a program builds through its own module classes and the helpers of their constructors."""

    def __init__(self, program: Program) -> None:
        self._classes: dict[str, list[Script]] = {}
        self._defined: dict[tuple[str, str], ast.FunctionDef] = {}
        """Functions and methods by their script's path and qualified name."""
        for script in program.scripts:
            for item in script.tree.body:
                if isinstance(item, ast.FunctionDef):
                    self._defined[script.path, item.name] = item
            for name, info in script.classes.items():
                if any(base.startswith(("torch.nn.", "lightning.", "transformers.")) for base in info.bases):
                    self._classes.setdefault(name, []).append(script)
                    for method, node in info.methods.items():
                        if isinstance(node, ast.FunctionDef):
                            self._defined[script.path, f"{name}.{method}"] = node
        self._calls: dict[tuple[str, str], list[tuple[Script, Call]]] = {}
        for script, call in program.calls:
            if ".forward" not in call.function and not any(guard.never for guard in call.guards):
                self._calls.setdefault((script.path, call.function), []).append((script, call))
        self._left = _MOST_CALLS

    def networks(self) -> Iterator[tuple[str, Network]]:
        """Every network built outside of module classes, and those of engines, which build them, with what holds it."""
        sites: set[str] = set()
        for (path, function), calls in self._calls.items():
            if path in {home.path for home in self._classes.get(function.partition(".")[0], ())}:
                continue
            tried = [(script, call, self._made(script, call, {}, _DEPTH)) for script, call in calls]
            builders = [(script, call, one) for script, call, one in tried if one is not None]
            sites |= {call.name.rpartition(".")[2] for _, call, _ in builders}
            parts: set[int] = set()
            for script, call, one in builders:  # `Pair(encoder, decoder)`: those are parts of it
                given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
                for _, other, part in builders:
                    held = _holder(script, other.node)
                    if other is not call and any(node is other.node or is_name(node, held) for node in given):
                        one.add(part)
                        parts.add(id(other))
            for script, call, one in builders:
                if id(call) not in parts:
                    yield _holder(script, call.node), _as_network(script, call.name.rpartition(".")[2], call, one)
            loose = self._run(path, function, {}, _DEPTH, classes=False)
            if loose.first is not None:
                script = calls[0][0]
                yield _holder(script, loose.first.node), _as_network(script, "The network", loose.first, loose)
        for name, homes in self._classes.items():
            info = homes[0].classes[name]
            if name not in sites and any(base.startswith("lightning.") for base in info.bases):
                counted = self._run(homes[0].path, f"{name}.__init__", {}, _DEPTH)
                yield "", _as_network(homes[0], name, info, counted)

    def _run(self, path: str, function: str, names: Names, depth: int, *, classes: bool = True) -> _Counted:
        """What one run of a function builds, with the values of its parameters."""
        found = _Counted()
        for script, call in self._calls.get((path, function), ()) if depth else ():
            self._left -= 1
            if self._left < 0:
                break
            layer = sizes_of(script, call, names)
            if layer is not None:
                found.first = found.first or call
                found.unknown |= layer[1] is None or _open(call)
                if layer[0] != "embedding" and layer[1] and not _open(call):
                    found.parameters += (
                        layer[1] * repeats(script, call, names) * self._stacked(path, call, function, names)
                    )
            elif classes and (made := self._made(script, call, names, depth, function)) is not None:
                if _open(call):
                    made = _Counted(unknown=True, library=made.library)
                found.add(made, repeats(script, call, names))
        return found

    def _made(self, script: Script, call: Call, names: Names, depth: int, function: str = "") -> _Counted | None:
        """What a call of a library, of an own class or of an own helper of a constructor builds; else None."""
        if _of_library(call):
            return _Counted(library=[(script, call)])
        held = names.get(call.node.func.id) if isinstance(call.node.func, ast.Name) else None
        last = held if isinstance(held, str) else call.name.rpartition(".")[2]
        homes, callee = self._classes.get(last, []), f"{last}.__init__"
        home = script if script in homes else homes[0] if len(homes) == 1 else None
        if home is None and function and call.receiver == "self":
            home, callee = script, f"{function.partition('.')[0]}.{call.method}"
        elif home is None and function and not call.receiver:
            home, callee = script, last
        if home is None or (not homes and (home.path, callee) not in self._defined):
            return None
        bound = self._bound(script, call, home, self._defined.get((home.path, callee)), names)
        if call.receiver == "self":
            bound = {**{name: value for name, value in names.items() if name.startswith("self.")}, **bound}
        return self._run(home.path, callee, bound, depth - 1)

    def _stacked(self, path: str, call: Call, function: str, names: Names) -> int:
        """N of the TransformerEncoder that the same function makes of a layer."""
        stacks = [item for item in self._calls[path, function] if STACKS.get(item[1].name) == call.name]
        numbers = [argument(home, other, "num_layers", 1, names) for home, other in stacks]
        return max([1, *(number for number in numbers if isinstance(number, int))])

    def _bound(self, script: Script, call: Call, home: Script, start: ast.FunctionDef | None, names: Names) -> Names:
        """Values of a function's parameters at a call: arguments, else defaults that no stars may change."""
        if start is None:
            return {}
        every = [*start.args.posonlyargs, *start.args.args]
        places = [item.arg for item in every if item.arg not in ("self", "cls")]
        given = dict(zip(places, call.node.args, strict=False))
        given |= {item.arg: item.value for item in call.node.keywords if item.arg}
        found: dict[str, Plain | None] = {}
        if not any(isinstance(item, ast.Starred) for item in call.node.args):
            for name, node in given.items():
                own = isinstance(node, ast.Name) and node.id in self._classes
                found[name] = node.id if own and isinstance(node, ast.Name) else worked_out(script, node, names)
            if all(item.arg for item in call.node.keywords):
                defaults = zip(places[len(places) - len(start.args.defaults) :], start.args.defaults, strict=False)
                found = {name: worked_out(home, node, {}) for name, node in defaults} | found
        return {name: value for name, value in found.items() if value is not None} | self._set_here(home, start, found)

    def _set_here(self, home: Script, start: ast.FunctionDef, names: Mapping[str, Plain | None]) -> dict[str, Plain]:
        """`self.x` and names that a function makes of its parameters."""
        known = {name: value for name, value in names.items() if value is not None}
        found: dict[str, Plain] = {}
        for node in start.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                value = worked_out(home, node.value, known | found)
                if value is not None:
                    found[ast.unparse(node.targets[0])] = value
        return found
