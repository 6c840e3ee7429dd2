"""Functions and classes from their definitions, and instances of the program's own classes."""

import ast
from collections.abc import Sequence

from gpudoctor.vitals.source import conditions, configuration
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.values import BATCH, DATASET, MODULE, AbstractValue, ClassSymbol, Function, FunctionNode

_CONTEXTS = ("contextlib.contextmanager", "contextlib.asynccontextmanager")
_DATA = (
    "dataclasses.dataclass",
    "attr.s",
    "attrs.define",
    "attrs.frozen",
    "pydantic.dataclasses.dataclass",
    "flax.struct.dataclass",
    "simple_parsing.helpers.flatten",
    "draccus.wrap",
    "dataclass",
)
_DATA_BASES = (
    "pydantic.BaseModel",
    "pydantic_settings.BaseSettings",
    "typing.NamedTuple",
    "tap.Tap",
    "pydantic.main.BaseModel",
)


def define(program: SourceInterpreter, frame: ScopeState, node: FunctionNode) -> Function:
    """A function from its definition."""
    short = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    name = f"{frame.name}.{short}" if frame.name else short
    function = Function(node=node, module=frame.module, name=name, klass=frame.klass)
    program.defined_in(function, frame)
    args = node.args
    plain = args.posonlyargs + args.args
    for arg, default in zip(plain[len(plain) - len(args.defaults) :], args.defaults, strict=True):
        function.defaults[arg.arg] = program.evaluate(frame, default)
    for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if kw_default is not None:
            function.defaults[arg.arg] = program.evaluate(frame, kw_default)
    if not isinstance(node, ast.Lambda):
        for decorator in node.decorator_list:
            _decorate(program, frame, function, decorator)
    frame.module.functions.append(function)
    return function


def _decorate(program: SourceInterpreter, frame: ScopeState, function: Function, decorator: ast.expr) -> None:
    quiet, frame.quiet = frame.quiet, frame.quiet + 1
    thing = program.evaluate(frame, decorator)
    frame.quiet = quiet
    name = conditions.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
    if isinstance(decorator, ast.Call):
        thing = program.peek(frame, decorator.func)
    ref = thing.ref or name
    if ref in ("torch.no_grad", "torch.inference_mode"):
        function.no_grad = True
    elif name == "staticmethod":
        function.static = True
    elif name == "classmethod":
        function.bound_class = True
    elif name.endswith("property"):
        function.is_property = True
    elif ref in _CONTEXTS:
        function.context = True
    elif ref.startswith("gin."):
        _steer(function)
    else:
        configuration.decorate(program, frame, function, decorator, ref)


def _steer(function: Function | None) -> None:
    """Forget the defaults of a function to which gin binds values from its files."""
    if function is not None:
        function.defaults = {name: thing.widened() for name, thing in function.defaults.items()}


def define_class(program: SourceInterpreter, frame: ScopeState, node: ast.ClassDef) -> ClassSymbol:
    """A class from its definition, without its body."""
    name = f"{frame.name}.{node.name}" if frame.name else node.name
    bases = tuple(program.evaluate(frame, base) for base in node.bases)
    for keyword in node.keywords:
        program.evaluate(frame, keyword.value)
    klass = ClassSymbol(node=node, module=frame.module, name=name, bases=bases)
    for decorator in node.decorator_list:
        program.evaluate(frame, decorator)
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        ref = program.peek(frame, target).ref or conditions.dotted(target)
        klass.data = klass.data or ref in _DATA or ref.endswith(".dataclass")
        klass.steered = klass.steered or ref.startswith("gin.")
    klass.data = klass.data or any(b.ref in _DATA_BASES for b in bases)
    klass.data = klass.data or any(isinstance(b.definition, ClassSymbol) and b.definition.data for b in bases)
    klass.kind = _kind_of_class(bases)
    klass.data = klass.data or (klass.kind or "").endswith(("TrainingArguments", "SFTConfig", "DPOConfig"))
    frame.module.klasses.append(klass)
    return klass


def finish_class(program: SourceInterpreter, inner: ScopeState, klass: ClassSymbol) -> None:
    """Take the fields of a dataclass from its body."""
    if klass.steered:
        _steer(klass.method("__init__"))
    if not klass.data:
        return
    for statement in klass.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            thing = program.annotation(inner, statement.annotation)
            if statement.value is not None:
                thing = configuration.field_default(program, inner, statement.value)
            elif not thing.klass:
                thing = thing.replace(option=True)
            if thing.known:
                thing = thing.replace(origin="field default")
            klass.fields[name] = thing.replace(option=True)
            klass.members.pop(name, None)


def construct(
    program: SourceInterpreter,
    klass: ClassSymbol,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
    node: ast.Call,
    open_ended: bool = False,
) -> AbstractValue:
    """An instance of one of the program's own classes; `open_ended`: more may be given than is seen."""
    own = klass.method("__init__") or klass.method("setup")
    kind = kind_of(klass.kind)
    made = AbstractValue(type=klass.kind, klass=klass, device="cpu" if kind == MODULE else None, made=node)
    if klass.data and klass.method("__init__") is None:
        fields = klass.all_fields()
        values = {name: thing.widened() for name, thing in fields.items()} if open_ended else dict(fields)
        for name, thing in zip(fields, args, strict=False):
            values[name] = thing
        values.update(keywords)
        made = made.replace(attrs=values, option=True)
        post = klass.method("__post_init__")
        if post is not None:
            program.invoke(post, [made], {})
        return made
    if own is not None:
        program.invoke(own, [made, *args], keywords, open_ended)
    if kind == DATASET or kind == "torch.utils.data.DataLoader":
        made = made.replace(elem=AbstractValue(type=BATCH, device="cpu"))
    return made


def _kind_of_class(bases: Sequence[AbstractValue]) -> str | None:
    found: str | None = None
    for base in bases:
        kind = None
        if base.ref is not None:
            kind = base.ref
            if kind_of(kind) == MODULE and kind.startswith("torch.nn."):
                kind = MODULE
        elif isinstance(base.definition, ClassSymbol):
            kind = base.definition.kind
        if kind is not None and kind not in ("object", "abc.ABC", "typing.Generic", "typing.Protocol"):
            if kind_of(kind) == MODULE and found is None:
                return kind
            found = found or kind
    return found
