"""Train and eval mode, and gradients switched off, around the loops of a program."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import callers, enclosing, may_run, scope_of
from gpudoctor.analysis.source.optimizers import assignments_to, optimizers
from gpudoctor.analysis.source.scopes import Key, Scope, Scopes
from gpudoctor.analysis.source.syntax import FunctionNode, called_name, is_attribute, is_name, keyword_value, nodes
from gpudoctor.model.signs.source import Call, Event, GuardKind, Known, Loop, Script, Source

_LAYERS = re.compile(
    r"torch\.nn\.(?:\w*Dropout\w*|\w*BatchNorm\w*|Transformer\w*|functional\.\w*dropout\w*|InstanceNorm\w*)$"
)
_DROPOUT = re.compile(r"torch\.nn\.\w*Dropout\w*$")
_KINDS = {
    "dropout": re.compile(r"dropout|\.Transformer", re.IGNORECASE),
    "batch norm": re.compile(r"BatchNorm"),
    "instance norm": re.compile(r"InstanceNorm"),
}
_LIBRARIES = ("torchvision.models.", "timm.", "segmentation_models_pytorch.", "efficientnet_pytorch.")
_GRADIENT_OFF = re.compile(r"no_grad|inference_mode|set_grad_enabled|eval_mode|inference|evaluating")
_NO_NETWORKS = re.compile(r"Loss|Tokenizer|Processor$|Extractor$|Collator")
"""Classes of torch and transformers that are called like a network and are none."""
_MODEL = re.compile(r"model|net|module|encoder|decoder|classifier|backbone|policy|unet", re.IGNORECASE)


def forwards(loop: Loop) -> Iterator[Event]:
    """Calls of models in a pass, the outermost ones: no losses, no layers inside of a model's own forward."""
    inside: set[object] = set()
    for event in loop.events:
        call = event.call
        if call is None or not is_forward(call):
            continue
        if inside & set(event.via):
            continue
        inside.add(event.span)
        yield event


def is_forward(call: Call) -> bool:
    """Whether a call runs a model."""
    last = call.name.removesuffix(".__call__").rpartition(".")[2]
    library = call.name.startswith(("torch.nn.", "transformers.", "peft.")) and call.name.endswith(".__call__")
    return library and not _NO_NETWORKS.search(last) and ".functional." not in call.name


def model_of(call: Call) -> str:
    """The model that a forward or a mode switch speaks of, as written, without `.module`."""
    node = call.node.func
    text = ast.unparse(node.value if isinstance(node, ast.Attribute) and call.method in {"eval", "train"} else node)
    return text.removesuffix(".module")


def resolved(scopes: Scopes, text: str, via: Scope) -> Key:
    """The name that a model has where it comes from: parameters are followed to the outermost call site."""
    for _ in range(12):
        root, dot, rest = text.partition(".")
        given = scopes.argument(root, via) if via and root != "self" else None
        if given is None or not isinstance(given[0], ast.Name | ast.Attribute):
            break
        text, via = (ast.unparse(given[0]) + dot + rest).removesuffix(".module"), given[1]
    return scopes.key(text, via)


def switches_to_eval(call: Call) -> bool:
    """Whether a call puts a model into eval mode."""
    if call.method == "train" and _a_model(call):
        return any(isinstance(v, Known) and v.value is False for v in (*call.positional, *call.keywords.values()))
    return call.method == "eval" and not call.node.args and _a_model(call)


def switches_to_train(call: Call) -> bool:
    """Whether a call puts a model into training mode, or may."""
    return call.method == "train" and _a_model(call) and not switches_to_eval(call)


def _a_model(call: Call) -> bool:
    if not isinstance(call.node.func, ast.Attribute):
        return False
    owner = call.name.rpartition(".")[0]
    if owner.startswith("torch.nn.") or (owner.startswith(("transformers.", "peft.")) and "Trainer" not in owner):
        return True
    return owner == "?" and bool(_MODEL.search(call.receiver.rsplit(".", 1)[-1]))


def mode_layers(source: Source) -> bool:
    """Whether the program builds layers that behave differently in eval mode: dropout, batch norm, or a
    library's model that has them."""
    return any(_layers_in(source, script) for script in source.scripts)


def named_layers(source: Source) -> str:
    """Those layers in words: `dropout`, `dropout and batch norm`; of a library's model nobody knows which."""
    return layer_words({kind for script in source.scripts for kind in _layers_in(source, script)})


def layer_words(names: Iterable[str]) -> str:
    """Layers in words, by the names of their classes."""
    kinds = {kind for name in names for kind, pattern in _KINDS.items() if pattern.search(name)}
    return " and ".join(kind for kind in _KINDS if kind in kinds) or "layers that depend on the mode"


def verb(layers: str) -> str:
    """`works` or `work`, after layers in words."""
    return "work" if " and " in layers or layers.startswith("layers") else "works"


def loaded_in_eval_mode(source: Source) -> bool:
    """Whether such layers come in loaded models alone, which are in eval mode until something switches them.

    An adapter's dropout is no exception: what `peft` loads is in eval mode, and a new adapter adds zero.
    """
    calls = [call for script in source.scripts for call in script.calls]
    own = {name for script in source.scripts for name in _mode_layers(script)} - {"from_pretrained", "dropout"}
    if own or not any(_loads(call) for call in calls) or any(switches_to_train(call) for call in calls):
        return False
    return not any(_drops(call) and not call.name.startswith("peft.") for call in calls)


def made_by_loading(source: Source, script: Script, model: str) -> bool:
    """Whether an attribute of an object holds a loaded model alone, through wrappers, that nothing switches.

    A parameter or a name may be another model elsewhere; an attribute is followed in its own script.
    """
    last = model.rpartition(".")[2]
    switched = {
        model_of(call).rpartition(".")[2] if "." in call.receiver else ""
        for other in source.scripts
        for call in other.calls
        if switches_to_train(call)
    }
    if not model.startswith("self.") or {last, ""} & switched:
        return False
    by_node = {call.node: call for call in script.calls}
    values = [value for _, value in assignments_to(script.tree, model)]
    return bool(values) and all(_loaded(script, by_node, value) for value in values)


def _loaded(script: Script, calls: Mapping[ast.Call, Call], value: ast.expr, depth: int = 6) -> bool:
    """Whether a value is a loaded model, as it is or wrapped."""
    if depth == 0:
        return False
    if isinstance(value, ast.Name):
        scope = scope_of(script, value)
        # what a wrapper makes of a name has that name inside of it: the first value is the one to tell
        given = [
            item
            for _, item in assignments_to(scope, value.id)
            if not any(is_name(part, value.id) for part in ast.walk(item))
        ]
        return bool(given) and all(_loaded(script, calls, item, depth - 1) for item in given)
    call = calls.get(value) if isinstance(value, ast.Call) else None
    if call is None:
        return False
    if _loads(call):
        return True
    if call.receiver == "self":
        owner = script.classes.get(call.function.partition(".")[0])
        method = owner.methods.get(call.method) if owner is not None else None
        backs = [node.value for node in ast.walk(method) if isinstance(node, ast.Return)] if method is not None else []
        return bool(backs) and all(item is not None and _loaded(script, calls, item, depth - 1) for item in backs)
    wraps = call.name.startswith(("torch.nn.parallel.", "torch.distributed.")) and call.node.args
    return bool(wraps) and _loaded(script, calls, call.node.args[0], depth - 1)


def only_inputs_are_trained(source: Source) -> bool:
    """Whether a program's optimizers hold tensors by name and no network: codes, images, a prompt.

    The network is fixed then, and eval mode is where it belongs.
    """
    given = [one.given for one in optimizers(source)]
    return bool(given) and all(
        isinstance(item, ast.List | ast.Tuple)
        and bool(item.elts)
        and all(isinstance(part, ast.Name | ast.Attribute) for part in item.elts)
        for item in given
    )


def frozen(source: Source, model: str) -> bool:
    """Whether a part of an object is one whose parameters the program sets to need no gradients, for good."""
    parts = set(model.split(".")[1:])
    return any(parts & _frozen(script) for script in source.scripts) and not any(
        parts & _unfrozen(script) for script in source.scripts
    )


@once
def _frozen(script: Script) -> frozenset[str]:
    """The last names of what has `for p in it.parameters(): p.requires_grad = False`."""
    return _switched(script, switch=False)


@once
def _unfrozen(script: Script) -> frozenset[str]:
    return _switched(script, switch=True)


def _switched(script: Script, *, switch: bool) -> frozenset[str]:
    found = set()
    for call in script.calls:
        if call.method == "requires_grad_":
            value = call.argument("requires_grad", 0)
            if (value is None and switch) or (isinstance(value, Known) and value.value is switch):
                found.add(call.receiver.removesuffix(".parameters()").rpartition(".")[2])
    for item in nodes(script, ast.Assign):
        constant = isinstance(item.value, ast.Constant) and item.value.value is switch
        loop = next((above for above in enclosing(script, item) if isinstance(above, ast.For)), None)
        if constant and loop is not None and any(is_attribute(target, "requires_grad") for target in item.targets):
            found.add(ast.unparse(loop.iter).partition(".parameters()")[0].rpartition(".")[2])
    return frozenset(found)


def off_inside(source: Source, run: Event, loop: Loop) -> bool:
    """Whether a network switches gradients off itself, in all that its forward runs when it does not train."""
    homes = {script.path: script for script in source.scripts}
    inner = [
        event
        for event in loop.events
        if event.via == (*run.via, run.span)
        and event.call is not None
        and is_forward(event.call)
        and not ((home := homes.get(event.span.path)) and _in_training_arm(home, event.call.node))
    ]
    return bool(inner) and all(event.no_grad for event in inner)


def _in_training_arm(script: Script, node: ast.AST) -> bool:
    """Whether a node stands below `if self.training:`."""
    inside = node
    for outer in enclosing(script, node):
        if isinstance(outer, ast.If) and ast.unparse(outer.test) == "self.training" and inside in outer.body:
            return True
        inside = outer
    return False


def builds_no_graph(source: Source, call: Call) -> bool:
    """Whether a forward is that of a module of the program without parameters: a spectrogram, a metric."""
    name = call.receiver_class
    found = [script for script in source.scripts if name in script.classes]
    if name is None or len(found) != 1 or found[0].classes[name].bases != ("torch.nn.Module",):
        return False
    made = [item for item in found[0].calls if item.function.startswith(f"{name}.")]
    return bool(made) and not any(_may_hold_parameters(source, item) for item in made)


def _may_hold_parameters(source: Source, call: Call) -> bool:
    if call.name.startswith("torch.nn."):
        plain = ("torch.nn.functional.", "torch.nn.Module.__init__", "torch.nn.Module.register_buffer")
        return not call.name.startswith(plain)
    own = any(call.method in script.classes for script in source.scripts)
    return own or call.method[:1].isupper() or "add_module" in call.method or "parameter" in call.method


def _layers_in(source: Source, script: Script) -> frozenset[str]:
    """Names of what builds such layers, without what this program does not build, and without dropout of 0."""
    if not _mode_layers(script):
        return frozenset()
    idle = (call for call in script.calls if _brings(call) and not _built(source, script, call))
    return _mode_layers(script, frozenset(map(id, idle)))


def _built(source: Source, script: Script, call: Call) -> bool:
    """Whether a layer may be in a network of the program: something uses the code, its switch is not off."""
    if _drops_nothing(source, script, call) or not may_run(source, call.span):
        return False
    inside: ast.AST = call.node
    for outer in enclosing(script, call.node):
        switch = outer.test if isinstance(outer, ast.If) and inside in outer.body else None
        if isinstance(switch, ast.Name) and _is_zero(source, script, call.function, switch):
            return False
        inside = outer
    return True


def _drops_nothing(source: Source, script: Script, call: Call) -> bool:
    """Whether all that a call says of dropout is a probability of 0."""
    if call.name.startswith(_LIBRARIES) or _loads(call):
        return False  # other layers come with it
    given = [item.value for item in call.node.keywords if item.arg and "dropout" in item.arg]
    if _DROPOUT.match(call.name):
        rate = keyword_value(call.node, "p")
        given += [rate] if rate is not None else call.node.args[:1]
    return bool(given) and all(_is_zero(source, script, call.function, item) for item in given)


def _is_zero(source: Source, script: Script, function: str, value: ast.expr, depth: int = 4) -> bool:
    """Whether a value is 0: written so, or a parameter with that default, and nobody gives another."""
    if isinstance(value, ast.Constant):
        return not value.value and value.value is not None
    owner, _, last = function.rpartition(".")
    made = script.classes.get(owner)
    node = made.methods.get(last) if made is not None and last == "__init__" else None
    if not isinstance(value, ast.Name) or node is None or depth == 0:
        return False
    names = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
    defaults: dict[str, ast.expr | None] = dict(zip(reversed(names), reversed(node.args.defaults), strict=False))
    defaults |= {item.arg: given for item, given in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)}
    default = defaults.get(value.id)
    if not isinstance(default, ast.Constant) or default.value is None or default.value:
        return False
    if any(is_name(item, value.id) and isinstance(item.ctx, ast.Store)
           for item in ast.walk(node)):  # fmt: skip
        return False
    return _called_by_name_alone(source, owner) and all(
        _gives_zero(source, other, site, value.id, names, depth)
        for other in source.scripts
        for site in other.calls
        if site.method == owner
    )


def _gives_zero(source: Source, script: Script, site: Call, name: str, names: list[str], depth: int) -> bool:
    """Whether a call that makes an object leaves a parameter at its default of 0, or gives 0."""
    if any(item.arg is None for item in site.node.keywords) or any(
        isinstance(item, ast.Starred) for item in site.node.args
    ):
        return False
    given = keyword_value(site.node, name)
    at = names.index(name) - 1 if name in names else len(site.node.args)
    if given is None and at < len(site.node.args):
        given = site.node.args[at]
    return given is None or _is_zero(source, script, site.function, given, depth - 1)


@once
def _called_by_name_alone(source: Source, name: str) -> bool:
    """Whether a class of the program is only called: not handed on, registered, extended or looked up."""
    for script in source.scripts:
        called = {id(call.func) for call in nodes(script, ast.Call)}
        named: list[ast.expr] = [node for node in nodes(script, ast.Name) if node.id == name]
        named += [node for node in nodes(script, ast.Attribute) if node.attr == name]
        if any(id(node) not in called for node in named):
            return False
        for definition in nodes(script, ast.ClassDef):
            if definition.name == name and definition.decorator_list:
                return False
        if any(item.value == name for item in nodes(script, ast.Constant)):
            return False
    return True


@once
def _mode_layers(script: Script, idle: frozenset[int] = frozenset()) -> frozenset[str]:
    """Names of classes and functions that build such layers, but for some calls that drop nothing."""
    found: set[str] = set()
    for call in script.calls:
        if id(call) in idle:
            continue
        if _layer(call):
            found.add(call.name)
        if _drops(call):
            found.add("dropout")
        if _loads(call):
            found.add("from_pretrained")
    return frozenset(found)


def _brings(call: Call) -> bool:
    """Whether a call builds such layers, or sets their rate."""
    return _layer(call) or _drops(call) or _loads(call)


def _layer(call: Call) -> bool:
    library = call.name.startswith(_LIBRARIES) and not call.name.endswith("_Weights")
    return library or (_LAYERS.match(call.name) is not None and not _without_statistics(call))


def _drops(call: Call) -> bool:
    return any("dropout" in word and not _zero(value) for word, value in call.keywords.items())


def _loads(call: Call) -> bool:
    return call.method == "from_pretrained" and re.search(r"Model|For[A-Z]", call.name) is not None


def _without_statistics(call: Call) -> bool:
    """Whether it is an instance norm that keeps no running statistics, its default: alike in both modes."""
    if ".InstanceNorm" not in call.name:
        return False
    tracked = call.argument("track_running_stats", 4)
    return not call.open_ended and (tracked is None or _zero(tracked))


def _zero(value: object) -> bool:
    return isinstance(value, Known) and not value.value


@once
def _by_function(script: Script) -> Mapping[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in script.calls:
        found.setdefault(call.function, []).append(call)
    return found


def without_gradient(source: Source, script: Script, node: ast.AST, function: str, depth: int = 4) -> bool:
    """Whether gradients are off around a place, by a with, a decorator or a switch, here or at its callers."""
    for above in enclosing(script, node):
        switches: list[ast.expr] = []
        if isinstance(above, ast.With | ast.AsyncWith):
            switches = [item.context_expr for item in above.items]
        elif isinstance(above, FunctionNode):
            switches = above.decorator_list
        if any(_GRADIENT_OFF.search(ast.unparse(item)) for item in switches):
            return True
    if any(True for _ in script.calls_to(".set_grad_enabled")):
        return True
    return depth > 0 and any(
        without_gradient(source, other, call.node, call.function, depth - 1)
        for other, call in callers(source, function)
    )


def speaks_of_eval(call: Call) -> bool:
    """Whether a call puts something into eval mode, a model or what holds one, or may."""
    return (
        switches_to_eval(call)
        or (call.method == "train" and bool(call.node.args))
        or (bool(_GRADIENT_OFF.search(call.method)) and "eval" in call.method)
        or call.method in {"eval", "set_eval", "to_eval"}
    )


def in_eval_mode(source: Source, script: Script, function: str, depth: int = 4) -> bool:
    """Whether a function, or one that calls it, puts a model into eval mode, or speaks of doing so."""
    contexts = _eval_contexts(source)
    if any(speaks_of_eval(call) or call.method in contexts for call in _by_function(script).get(function, ())):
        return True
    return depth > 0 and any(
        in_eval_mode(source, other, call.function, depth - 1) for other, call in callers(source, function)
    )


@once
def _eval_contexts(source: Source) -> frozenset[str]:
    """Names of the program's own context managers that put a model into eval mode."""
    found = set()
    for script in source.scripts:
        managers = {
            node.name
            for node in nodes(script, ast.FunctionDef)
            if any(called_name(item) == "contextmanager" for item in node.decorator_list)
        }
        for name, calls in _by_function(script).items():
            owner, _, last = name.rpartition(".")
            if (last in managers or last == "__enter__") and any(map(speaks_of_eval, calls)):
                found.add(last if last in managers else owner.rpartition(".")[2])
    return frozenset(found)


def thinned(event: Event) -> bool:
    """Whether an event runs once only, on failure, or behind a switch that may be off."""
    return any(guard.kind in {GuardKind.ONCE, GuardKind.FAILURE} or guard.never for guard in event.guards)
