"""The networks that a program builds, and how large they are, as far as the source tells.

A lower bound counted from the layers' own arguments: what only a run can tell adds nothing, and a network of a
library is known by its name alone.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import callers, enclosing
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.layer_calls import (
    ATTENTION,
    STACKS,
    Counted,
    Names,
    Plain,
    argument,
    branches,
    least,
    repeats,
    sizes_of,
    worked_out,
)
from gpudoctor.analysis.source.optimizers import InTraining, in_training
from gpudoctor.analysis.source.syntax import is_name, nodes, walk
from gpudoctor.lang import say
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, ClassInfo, Known, Script, Value

_LIBRARY = re.compile(
    r"(torchvision\.models\.(?!_?utils\.|_api\.|feature_extraction\.)(?:\w+\.)*"
    r"(?!get_model_weights|list_models|get_weight|load_state_dict)[a-z]\w*$)|(timm\.create_model$)"
    r"|(segmentation_models_pytorch\.(?!losses\.|metrics\.|utils\.)(?:\w+\.)*[A-Z]\w*$)|(monai\.networks\.nets\.(?:\w+\.)*[A-Z]\w*$)"
    r"|((?:transformers|diffusers|peft|sentence_transformers|unsloth|open_clip)\.(?:\w+\.)*(?!DataCollator)\w*"
    r"(?:Model|For[A-Z]\w*|HeadModel|Transformer\dD\w*|SentenceTransformer)(?:\.from_pretrained|\.from_config)?$)"
    r"|((?:torchvision\.models\.|torch\.hub\.)(?:get_model|load)$)|(efficientnet_pytorch\.EfficientNet\.from_\w+$)"
)
_MAKER = re.compile(r"\.from_(pretrained|config)$")
_ROOTS = frozenset(
    {"torchvision", "timm", "segmentation_models_pytorch", "monai", "transformers", "diffusers", "peft",
     "sentence_transformers", "unsloth", "open_clip", "torch", "efficientnet_pytorch"}
)  # fmt: skip
_CONVOLUTIONAL = re.compile(
    r"resne|vgg|densenet|mobilenet|efficientnet|inception|googlenet|alexnet|convnext|unet|deeplab|fcn|regnet|yolo|"
    r"shufflenet|mnasnet|fpn|linknet|retinanet|rcnn|hrnet|xception",
    re.IGNORECASE,
)
_TINY = re.compile(r"\btiny|[-_/]tiny|hf-internal-testing|dummy", re.IGNORECASE)
_DEPTH = 8
_MOST_CALLS = 5000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One layer that a network's code makes."""

    kind: str
    """`linear`, `conv`, `attention`, `recurrent` or `embedding`."""
    call: Call
    script: Script
    parameters: int | None
    """Weights of one such layer; None when its sizes are not known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """The largest network that a program's training computes with."""

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
    certain: bool = True
    """Whether it is told which of the program's networks is in training: else it is the largest of them."""
    whole: bool = True
    """Whether all that was counted trains: not where a constructor keeps a part of a network that it makes."""

    @property
    def size_text(self) -> str:
        """`resnet50`, or `Net (at least 12 M weights)`; `The network` where it may be another."""
        if not self.certain:
            return "The network"
        if self.library or not self.parameters or not self.whole:
            if self.name.partition(".")[0] not in _ROOTS:
                return self.name  # what a model zoo calls it, which may have dots too
            called, bracket, of = self.name.partition("(")  # the hub's name has dots of its own
            return _MAKER.sub("", called).rpartition(".")[2] + bracket + of
        return say(
            "{name} (at least {parameters:.3g} M weights)", name=self.name, parameters=self.parameters / 1000000.0
        )


@once
def network(program: Program) -> Network | None:
    """The largest network that a program's optimizers get or its steps call; where that cannot be told, the
    largest that it builds; None when it builds none that is known."""
    counted = _Counter(program)
    used = in_training(program)
    library = [
        item
        for item in _library_calls(program)
        if counted.trains(*item, used) and not counted.another(*item) and not _after_training(program, *item)
    ]
    name, parameters, place = counted.largest(used)
    certain = counted.certain
    layers = counted.layers
    convolutional = any(layer.kind == "conv" for layer in layers)
    attentive = any(layer.kind == "attention" for layer in layers) or bool(program.called & ATTENTION)
    if library:
        script, call = next((item for item in library if not _is_tiny(item[1])), library[0])
        several = len({_library_name(other) for _, other in library if not _is_tiny(other)}) > 1
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
            certain=not (several and counted.chosen(script, call)),
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
        certain=certain,
        whole=counted.whole,
    )


def _library_calls(program: Program) -> Iterator[tuple[Script, Call]]:
    for script in program.scripts:
        for call in _of_libraries(script):
            yield script, call


@once
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
    return tuple(f"{local}.__dict__[" for local, name in script.imports.items() if name == "torchvision.models") or (
        "\0",
    )


def _after_training(program: Program, script: Script, call: Call) -> bool:
    """Whether the script's own lines make a network when all training is over: a notebook's last cells."""
    if call.function or script is not program.entry:
        return False
    return call.span.line > _trains_until(program)


@once
def _trains_until(program: Program) -> float:
    """The last line of the entry's own text that trains; infinite where none of it is seen to."""
    entry, functions = program.entry, {loop.function for _, loop in program.loops}
    lines = [loop.end_line for script, loop in program.loops if script is entry and not loop.function]
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        for _, call in callers(program.source, function):
            if not call.function and call.span.path == entry.path:
                around = [node for node in enclosing(entry, call.node) if isinstance(node, ast.For | ast.While)]
                lines.append(max((node.end_lineno or 0 for node in around), default=call.span.line))
            elif call.function and call.function not in functions:
                functions.add(call.function)
                waiting.append(call.function)
    return max(lines, default=float("inf"))


def _library_name(call: Call) -> str:
    first = call.node.args[0] if call.node.args else None
    if call.method in {"create_model", "get_model"}:  # the name is all that tells what these build
        named = call.argument("model_name" if call.method == "create_model" else "name", 0)
        known = named.value if isinstance(named, Known) else None
        return known if isinstance(known, str) else say("The {name} network", name=call.name.partition(".")[0])
    if call.method in {"from_pretrained", "load"} and isinstance(first, ast.Constant):
        return f"{call.name}({ast.unparse(first)})"
    return "a torchvision network" if call.method == "subscript" else call.name


def _is_convolutional(call: Call) -> bool:
    """Whether the name says that it convolves; torchvision's own are so, its transformers apart."""
    text = ast.unparse(call.node)
    vision = call.method == "subscript" or call.name.startswith(("torchvision.", "segmentation_models_pytorch."))
    return bool(_CONVOLUTIONAL.search(text)) or (vision and not re.search(r"vit_|swin|maxvit", text))


def _is_tiny(call: Call) -> bool:
    """Whether the name says that it is small."""
    given = [value.value for value in (*call.positional, *call.keywords.values()) if isinstance(value, Known)]
    return any(isinstance(value, str) and _TINY.search(value) for value in given)


def _holder(script: Script, node: ast.expr) -> str:
    """The name or attribute that holds what a call makes, through `.to(device)` and wrappers; else ""."""
    for above in enclosing(script, node):
        if isinstance(above, ast.Assign) and len(above.targets) == 1:
            target = above.targets[0]
            return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""
        if isinstance(above, ast.AnnAssign):
            return ast.unparse(above.target)
        if not isinstance(above, ast.Attribute | ast.Call | ast.IfExp | ast.keyword):
            break
    return ""


def _returns(function: ast.FunctionDef | None, name: str) -> bool:
    """Whether a function gives back what a name holds, alone or among others; True where it is not known."""
    if function is None:
        return True
    given = [node.value for node in walk(function) if isinstance(node, ast.Return) and node.value is not None]
    return any(is_name(part, name) for value in given for part in walk(value))


@once
def _taken_out(script: Script) -> frozenset[str]:
    """Attributes that are deleted or replaced from outside: `del model.classifier`, `net.fc = Identity()`."""
    targets = [target for node in nodes(script, ast.Delete, ast.Assign) for target in node.targets]
    return frozenset(
        target.attr
        for target in targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) not in ("self", "cls")
    )


def _undecided(call: Call) -> bool:
    """Whether a condition around a call is one whose outcome the source does not tell."""
    return any(not guard.mostly and not isinstance(guard.value, Known) for guard in call.guards)


def _given(call: Call, head: ast.If | ast.IfExp) -> bool:
    """Whether the source tells the outcome of a condition around a call."""
    return any(guard.line == head.lineno and isinstance(guard.value, Known) for guard in call.guards)


def _kept_in_part(function: ast.FunctionDef | None, name: str) -> bool:
    """Whether a function uses what it holds by a name only for parts of it: `self.body = net.features`."""
    if function is None or not name.isidentifier():
        return False
    nodes = list(walk(function))
    uses = [node for node in nodes if is_name(node, name)]
    taken = {id(node.value): node for node in nodes if isinstance(node, ast.Attribute)}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    loads = [node for node in uses if isinstance(node.ctx, ast.Load)]
    parts = [taken[id(node)] for node in loads if id(node) in taken]
    kept = [part for part in parts if id(part) not in called]
    return (
        len(parts) == len(loads)
        and bool(kept)
        and all(part.attr == "load_state_dict" for part in parts if id(part) in called)
    )


def _home_of(homes: list[Script], module: str) -> Script | None:
    """The script among some that is a module, `pkg.nets`; None where none of them is, or no module is named."""
    suffix = module.strip(".").replace(".", "/")
    ends = (suffix + ".py", suffix + "/__init__.py")
    return next((home for home in homes if suffix and home.path.replace("\\", "/").endswith(ends)), None)


def _started(makers: dict[str, set[str]], known: set[str]) -> frozenset[str]:
    """Classes that are built by "", by a known class, or by one of these in turn."""
    found = {*known, ""}
    while more := {made for made, owners in makers.items() if made not in found and owners & found}:
        found |= more
    return frozenset(found)


class _Counter:
    """Counts the weights of the program's own modules, nested ones and helpers of constructors included."""

    def __init__(self, program: Program) -> None:
        self._classes: dict[str, tuple[Script, ClassInfo]] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        self._methods: dict[str, list[ast.FunctionDef]] = {}
        self._targets: dict[str, Counter[str]] = {}
        self._aliases: dict[tuple[str, str], str] = {}
        """What a top-level class or function of a script is called here: two files may each have a `Block`."""
        self._homes: dict[str, list[Script]] = {}
        """The scripts with a top-level class or function of a name."""
        self._doubtful: set[str] = set()
        """Those of several of one name that were taken because nothing tells which is meant."""
        self.certain = True
        self._dropped = {f"self.{name}" for script in program.scripts for name in _taken_out(script)}
        """Members that somebody outside of the class deletes or replaces, so that they may not train."""
        self.whole = True
        """Whether no constructor keeps only a part of a network that was counted."""
        self._read(program)
        self._made: dict[str, list[tuple[Script, Call]]] = {}
        """Calls by the qualified name of the function that makes them; forwards left out."""
        self._sites: dict[str, list[tuple[Script, Call]]] = {}
        """Where each module class is built, outside of other module classes."""
        self._ranges = {id(call.node): call for _, call in program.calls if call.name == "range"}
        built: set[str] = set()
        makers: dict[str, set[str]] = {}
        for script, call in program.calls:
            function = self._function(script, call)
            if ".forward" not in call.function:
                self._made.setdefault(function, []).append((script, call))
            made = self._named(script, call.name)
            if made in self._classes and not any(guard.never for guard in call.guards):
                built.add(made)
                owner = function.partition(".")[0]
                makers.setdefault(made, set()).add(owner if owner in self._classes and owner != made else "")
                if owner not in self._classes:
                    self._sites.setdefault(made, []).append((script, call))
        self._built = built | {
            name for name, (_, info) in self._classes.items() if any(b.startswith("lightning.") for b in info.bases)
        }
        self._started = _started(makers, self._built - built)
        """Those that something outside of module classes builds, or one of these does."""
        self._left = _MOST_CALLS
        self._totals: dict[object, int] = {}
        self._reached: dict[tuple[str, ...], frozenset[str]] = {}
        self.layers = tuple(self._layers())
        self.unknown = sum(layer.parameters is None for layer in self.layers)

    def _read(self, program: Program) -> None:
        for script in program.scripts:
            defined = [item.name for item in script.tree.body if isinstance(item, ast.FunctionDef | ast.ClassDef)]
            for name in dict.fromkeys([*script.classes, *defined]):
                before = len(self._homes.setdefault(name, []))
                self._homes[name].append(script)
                self._aliases[script.path, name] = f"{name}@{before}" if before else name
            for name, info in script.classes.items():
                if any(base.startswith(("torch.nn.", "lightning.", "transformers.")) for base in info.bases):
                    alias = self._aliases[script.path, name]
                    self._classes[alias] = (script, info)
                    for method, node in info.methods.items():
                        if isinstance(node, ast.FunctionDef):
                            self._functions[f"{alias}.{method}"] = node
                            self._methods.setdefault(alias, []).append(node)
            for item in script.tree.body:
                if isinstance(item, ast.FunctionDef):
                    self._functions[self._aliases[script.path, item.name]] = item

    def _named(self, script: Script, name: str) -> str:
        """What a class or function is called here that a script names, `nets.Block`: its own, else the one of
        the module that the name says, else the first."""
        module, _, last = name.rpartition(".")
        homes = self._homes.get(last)
        if not homes:
            return last
        if not any(home is script for home in homes) or (module and module not in ("self", "cls")):
            # What the call itself resolved to comes first: each branch may import another class of one name.
            imported = script.imports.get(last, "").rpartition(".")[0]
            script = _home_of(homes, module) or _home_of(homes, imported) or script
        home = next((home for home in homes if home is script), None)
        alias = self._aliases[(home or homes[0]).path, last]
        if home is None and len(homes) > 1:
            self._doubtful.add(alias)
        return alias

    def _function(self, script: Script, call: Call) -> str:
        """The qualified name of the function that makes a call, as it is called here."""
        first, dot, rest = call.function.partition(".")
        return self._aliases.get((script.path, first), first) + dot + rest

    def _layers(self) -> Iterator[Layer]:
        for function, calls in self._made.items():
            owner = function.partition(".")[0]
            if owner in self._classes and owner not in self._built:
                continue
            for script, call in calls:
                made = sizes_of(call, {})
                if made is not None:
                    yield Layer(kind=made[0], call=call, script=script, parameters=made[1])

    def largest(self, used: InTraining) -> tuple[str, int, tuple[Script, SourceSpan] | None]:
        """Name, weights and place of the largest network of the program's own in training."""
        best: tuple[str, int, tuple[Script, SourceSpan] | None] = ("", 0, None)
        ours = self._of(used.classes) & self._built if used.told else self._built
        sized: list[str] = []
        largest = ""
        for name in sorted(ours or self._built):
            script, info = self._classes[name]
            start = self._functions.get(f"{name}.__init__")
            sites = self._sites.get(name, ())[:20]
            totals = [
                self._weights(f"{name}.__init__", self._bound(home, call, start, {}), _DEPTH)
                + sum(self._handed(home, call))
                for home, call in sites
            ] or [self._weights(f"{name}.__init__", {}, _DEPTH)]
            total = min((item for item in totals if item), default=0)  # at least, whichever of them runs
            if total and name in self._sites:
                sized.append(name)
            if best[2] is None or total > best[1]:
                largest = name
                best = (info.name, total, (script, info.span))
        # What nothing in sight makes may be made with other sizes than those that its class has by itself.
        doubtful = len(sized) > 1 or largest in self._doubtful or bool(largest and largest not in self._sites)
        one_each = len({self._classes[name][1].name for name in ours}) == len(ours)
        told = one_each and largest not in self._doubtful
        self.certain = told if used.told and ours else not doubtful
        for function, calls in self._made.items():
            here = [(script, call) for script, call in calls if sizes_of(call, {}) is not None]
            if not here or function.partition(".")[0] in self._classes or (used.told and ours):
                continue
            total = self._weights(function, {}, _DEPTH)
            if best[2] is None or total > best[1]:
                best = ("The network", total, (here[0][0], here[0][1].span))
        return best

    def _handed(self, script: Script, site: Call) -> Iterator[int]:
        """Weights of the program's own networks that a constructor is given: `Pair(encoder, decoder)`."""
        given = [*site.node.args, *(keyword.value for keyword in site.node.keywords)]
        for node in given:
            for home, call in self._made.get(self._function(script, site), ()):
                last = self._named(home, call.name)
                if home is not script or last not in self._classes or call.node is site.node:
                    continue
                if call.node is node or (isinstance(node, ast.Name) and _holder(script, call.node) == node.id):
                    start = self._functions.get(f"{last}.__init__")
                    yield self._weights(f"{last}.__init__", self._bound(home, call, start, {}), _DEPTH)
                    break

    def trains(self, script: Script, call: Call, used: InTraining) -> bool:
        """Whether a library's network may be in training, as far as the source tells: it is not when every
        network in training is known and this one is made for another, or held by another name."""
        function = self._function(script, call)
        owner = function.partition(".")[0]
        if owner in self._classes:
            if owner not in self._started or function not in self._constructing({owner}):
                return False
            return not used.told or function in self._constructing(self._of(used.classes))
        if not used.holders:
            return True
        return self._reaches(script, call, used, 3)

    def chosen(self, script: Script, call: Call) -> bool:
        """Whether a condition that the source leaves open decides on a library's network."""
        owner = self._function(script, call).partition(".")[0]
        sites = [site for _, site in self._sites.get(owner, ())] if owner in self._classes else []
        return _undecided(call) or (bool(sites) and all(_undecided(site) for site in sites))

    def another(self, script: Script, call: Call) -> bool:
        """Whether a network of the program's own takes a library's place in the other branch of an open
        condition: how large the training is hangs on the smaller of them."""
        held = _holder(script, call.node)
        heads = [(head, side) for head, side in branches(script, call) if held and not _given(call, head)]
        for home, other in self._made.get(self._function(script, call), ()) if heads else ():
            if home is script and self._named(home, other.name) in self._classes:
                apart = any((head, not side) in branches(home, other) for head, side in heads)
                if apart and _holder(home, other.node) == held:
                    return True
        return False

    def _reaches(self, script: Script, call: Call, used: InTraining, depth: int) -> bool:
        """Whether what a call makes may be in training."""
        held = _holder(script, call.node)
        if held and used.held(script, call.node, held):
            return True
        function = self._function(script, call)
        if not function or depth == 0 or (held and not _returns(self._functions.get(function), held)):
            return not held
        last = call.function.rpartition(".")[2]
        sites = [place for calls in self._made.values() for place in calls if place[1].method == last]
        return not sites or any(self._reaches(home, site, used, depth - 1) for home, site in sites)

    def _of(self, names: Iterable[str]) -> set[str]:
        """The classes that go by names of the program."""
        return {alias for alias, (_, info) in self._classes.items() if info.name in set(names)}

    def _constructing(self, owners: set[str]) -> frozenset[str]:
        """The functions that run when one of the classes is built, or what is handed to its constructor."""
        key = tuple(sorted(owners))
        if key not in self._reached:
            found: set[str] = set()
            waiting = [f"{owner}.__init__" for owner in owners]
            for owner in owners:
                for script, site in self._sites.get(owner, ()):
                    for home, call in self._made.get(self._function(script, site), ()):
                        made = self._named(home, call.name)
                        if made in self._classes and call is not site:
                            waiting.append(f"{made}.__init__")
            while waiting:
                function = waiting.pop()
                if function not in found:
                    found.add(function)
                    callees = (
                        self._callee(script, call, function, {}) for script, call in self._made.get(function, ())
                    )
                    waiting += [callee for callee in callees if callee is not None]
            self._reached[key] = frozenset(found)
        return self._reached[key]

    def _weights(self, function: str, names: Names, depth: int) -> int:
        """Weights that one run of a function makes, with its parameters' values."""
        key = (function, tuple(sorted(names.items(), key=lambda item: item[0])))
        if key in self._totals:
            return self._totals[key]
        self._totals[key] = 0  # a cycle meets this
        names = {**names, **self._attributes(function, names)}
        names = {**names, **self._locals(function, names)}
        counted: list[Counted] = []
        for script, call in self._made.get(function, ()):
            self._left -= 1
            if depth == 0 or self._left < 0:
                break
            if any(guard.never for guard in call.guards) or _holder(script, call.node) in self._dropped:
                continue
            weights = self._one(script, call, function, names, depth)
            if weights:
                sure = all(isinstance(guard.value, Known) for guard in call.guards)
                counted.append((() if sure else branches(script, call), weights))
        total = self._totals[key] = least(counted, names)
        return total

    def _one(self, script: Script, call: Call, function: str, names: Names, depth: int) -> int:
        made = sizes_of(call, names)
        if made is not None:
            kind, weights = made
            if kind == "embedding" or not weights:
                return 0
            return weights * repeats(script, call, names, self._ranges) * self._stacked(call, function, names)
        callee = self._callee(script, call, function, names)
        if callee is None or callee == function:
            return 0
        if callee.endswith(".__init__") and _kept_in_part(self._functions.get(function), _holder(script, call.node)):
            self.whole = False
        inner = self._bound(script, call, self._functions.get(callee), names)
        if callee.startswith(function.partition(".")[0] + ".") and not callee.endswith("__init__"):
            inner = {**{name: value for name, value in names.items() if name.startswith("self.")}, **inner}
        times = repeats(script, call, names, self._ranges)
        return self._weights(callee, inner, depth - 1) * times

    def _stacked(self, call: Call, function: str, names: Names) -> int:
        """N of the TransformerEncoder that the same function makes of a layer."""
        times = 1
        for _, other in self._made.get(function, ()):
            if STACKS.get(other.name) == call.name:
                number = argument(other, "num_layers", 1, names)
                times *= max(1, number) if isinstance(number, int) else 1
        return times

    def _callee(self, script: Script, call: Call, function: str, names: Names) -> str | None:
        """The qualified name of the program's own constructor or helper that a call runs."""
        written = call.node.func
        if isinstance(written, ast.Name):
            held = names.get(written.id)
            if isinstance(held, str) and held in self._classes:
                return f"{held}.__init__"
        last = self._named(script, call.name)
        if last in self._classes:
            return f"{last}.__init__"
        if call.receiver == "self":
            owner = function.partition(".")[0]
            name = f"{owner}.{call.method}"
            return name if name in self._functions and call.method != "forward" else None
        return last if not call.receiver and last in self._functions else None

    def _bound(self, script: Script, call: Call, start: ast.FunctionDef | None, names: Names) -> dict[str, Plain]:
        """Values of a function's parameters at a call: arguments, else defaults that no stars may change."""
        if start is None:
            return {}
        every = [*start.args.posonlyargs, *start.args.args]
        found: dict[str, Plain] = {}
        defaults = zip(every[len(every) - len(start.args.defaults) :], start.args.defaults, strict=False)
        keyword_only = zip(start.args.kwonlyargs, start.args.kw_defaults, strict=False)
        plain = not any(isinstance(item, ast.Starred) for item in call.node.args)
        whole = plain and all(keyword.arg for keyword in call.node.keywords)
        for parameter, default in [*defaults, *keyword_only] if whole else ():
            self._put(found, parameter.arg, worked_out(default, None, {}))
        parameters = [item.arg for item in every]
        if parameters[:1] in (["self"], ["cls"]):
            parameters = parameters[1:]
        for place, node in enumerate(call.node.args[: len(parameters)] if plain else []):
            value = call.positional[place] if place < len(call.positional) else None
            found.pop(parameters[place], None)
            self._put(found, parameters[place], self._given(script, node, value, names))
        for keyword in call.node.keywords:
            if keyword.arg:
                found.pop(keyword.arg, None)
                value = call.keywords.get(keyword.arg)
                self._put(found, keyword.arg, self._given(script, keyword.value, value, names))
        return found

    def _given(self, script: Script, node: ast.expr, value: Value | None, names: Names) -> Plain | None:
        if isinstance(node, ast.Name) and (named := self._named(script, node.id)) in self._classes:
            return named
        return worked_out(node, value, names)

    def _put(self, found: dict[str, Plain], name: str, value: Plain | None) -> None:
        if value is not None:
            found[name] = value

    def _set_in(self, owner: str) -> Counter[str]:
        """How often each target is set in the methods of a class."""
        if owner not in self._targets:
            self._targets[owner] = Counter(
                ast.unparse(target)
                for node in self._methods.get(owner, ())
                for item in walk(node)
                if isinstance(item, ast.Assign | ast.AugAssign)
                for target in (item.targets if isinstance(item, ast.Assign) else [item.target])
            )
        return self._targets[owner]

    def _attributes(self, function: str, names: Names) -> dict[str, Plain]:
        """`self.x` that a constructor sets once, and nothing of the class sets again."""
        owner, _, method = function.partition(".")
        start = self._functions.get(function)
        if method != "__init__" or start is None:
            return {}
        times = self._set_in(owner)
        found: dict[str, Plain] = {}
        for item in start.body:
            if isinstance(item, ast.Assign) and len(item.targets) == 1:
                name = ast.unparse(item.targets[0])
                if times[name] == 1 and not isinstance(item.value, ast.Call):
                    self._put(found, name, worked_out(item.value, None, {**names, **found}))
        return found

    def _locals(self, function: str, names: Names) -> dict[str, Plain]:
        """Names that a function itself gives plain values; of several whole numbers the least, whichever it is
        when a layer is made."""
        start = self._functions.get(function)
        if start is None:
            return {}
        values: dict[str, list[ast.expr | None]] = {}
        assigned: set[int] = set()
        for node in walk(start):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                assigned.add(id(node.targets[0]))
                values.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in assigned:
                values.setdefault(node.id, []).append(None)  # a loop's, or a part of a tuple
            elif isinstance(node, ast.arg):
                values.setdefault(node.arg, []).append(None)
        found: dict[str, Plain] = {}
        for name, given in values.items():
            plain = [worked_out(item, None, {**names, **found}) for item in given]
            whole = [item for item in plain if isinstance(item, int)]
            if whole and len(whole) == len(plain):
                found[name] = min(whole)
            elif len(plain) == 1:
                self._put(found, name, plain[0])
        return found
