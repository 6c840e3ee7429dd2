"""The program under interpretation: its modules, classes and functions, and how they call each other."""

import ast
import builtins
from collections.abc import Mapping, Sequence

from gpudoctor.vitals.source import configuration, guards
from gpudoctor.vitals.source.definitions import Function, FunctionNode, Klass, Module
from gpudoctor.vitals.source.frame import Frame
from gpudoctor.vitals.source.importing import Importer, relative_name
from gpudoctor.vitals.source.kinds import canonical, guess, kind_of
from gpudoctor.vitals.source.things import (
    BATCH,
    DATASET,
    MODULE,
    NOTHING,
    NUMBER,
    TENSOR,
    TEXT,
    Thing,
    join,
    same,
    tensor,
)

_RUNS = 4
_CALL_DEPTH = 40
_TORCH = ("torch", "lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed", "monai", "timm")
_CONTEXTS = ("contextlib.contextmanager", "contextlib.asynccontextmanager")
_DATA = ("dataclasses.dataclass", "attr.s", "attrs.define", "attrs.frozen", "pydantic.dataclasses.dataclass",
         "flax.struct.dataclass", "simple_parsing.helpers.flatten", "draccus.wrap", "dataclass")  # fmt: skip
_DATA_BASES = (
    "pydantic.BaseModel",
    "pydantic_settings.BaseSettings",
    "typing.NamedTuple",
    "tap.Tap",
    "pydantic.main.BaseModel",
)


def is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.ops[0], ast.Eq)
    )


class Program:
    """Every module read, and the interpretation of their code."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer
        self.depth = 0
        self.deepest = 220
        self.calling = 0
        self.builtins = frozenset(dir(builtins))
        self._annotations: dict[int, Thing] = {}

    # Modules

    def run_module(self, module: Module) -> None:
        """Interpret a module's body, once."""
        if module.started:
            return
        module.started = True
        frame = Frame(module, None, None, "")
        module.frame = frame
        module.torch = _imports_torch(module.tree)
        self._guarded(frame, module.tree.body)

    def _guarded(self, frame: Frame, body: Sequence[ast.stmt]) -> None:
        from gpudoctor.vitals.source.statements import execute

        depth, self.depth = self.depth, 0
        try:
            execute(self, frame, body)
        except RecursionError:
            # Nested deeper than the interpreter's own stack: what was seen until here stands.
            frame.trails.clear()
            frame.loops.clear()
        finally:
            self.depth = depth

    def finish(self, modules: Sequence[Module]) -> None:
        """Interpret what nothing called."""
        for module in modules:
            index = 0
            while index < len(module.functions):  # running one may define more
                function = module.functions[index]
                index += 1
                if function.runs == 0:
                    self._run_uncalled(function)

    def _run_uncalled(self, function: Function) -> None:
        owner = None
        if function.klass is not None and not function.static:
            owner = Thing(type=function.klass.kind, klass=function.klass)
            if function.bound_class:
                owner = Thing(definition=function.klass)
        self.invoke(function.outer, function, [owner] if owner else [], {}, outside=True)

    def member_of(self, module: Module, name: str) -> Thing:
        """A name of one of the program's own modules, a submodule included."""
        found = module.frame.names.get(name) if module.frame is not None else None
        if found is not None:
            return found
        inner = self.importer.load(f"{module.name}.{name}", module)
        if inner is not None:
            self.run_module(inner)
            return Thing(definition=inner)
        return NOTHING

    def bring(self, frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
        """Bind what an import statement imports."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._bring_module(frame, alias)
            return
        base = relative_name(frame.module, node)
        module = self.importer.load(base, frame.module, node.level) if base is not None else None
        if module is not None:
            self._link(frame.module, module)
        for alias in node.names:
            self._bring_member(frame, node, alias, base or node.module or "", module)

    def _link(self, by: Module, module: Module) -> None:
        self.run_module(module)
        if module is not by and module not in by.links:
            by.links.append(module)

    def _bring_module(self, frame: Frame, alias: ast.alias) -> None:
        module = self.importer.load(alias.name, frame.module)
        name = alias.asname or alias.name.partition(".")[0]
        frame.module.imports[name] = alias.name if alias.asname else name
        if module is None:
            frame.bind(name, Thing(ref=canonical(alias.name) if alias.asname else name))
            return
        self._link(frame.module, module)
        if alias.asname is None and "." in alias.name:
            root = self.importer.load(name, frame.module)
            if root is not None:
                self._link(frame.module, root)
                frame.bind(name, Thing(definition=root))
            else:
                frame.bind(name, Thing(ref=name))
            return
        frame.bind(name, Thing(definition=module))

    def _bring_member(
        self, frame: Frame, node: ast.ImportFrom, alias: ast.alias, base: str, module: Module | None
    ) -> None:
        if alias.name == "*":
            if module is not None and module.frame is not None:
                for name, thing in module.frame.names.items():
                    if not name.startswith("_"):
                        frame.bind(name, thing)
            else:
                self._bring_all(frame, base)
            return
        name = alias.asname or alias.name
        dotted = f"{base}.{alias.name}" if base else alias.name
        frame.module.imports[name] = dotted
        if module is not None and module.frame is not None and alias.name in module.frame.names:
            thing = module.frame.names[alias.name]
            if thing.known and thing.origin == "literal":
                thing = thing.but(origin="constant")
            frame.bind(name, thing)
            return
        inner = self.importer.load(dotted, frame.module, node.level)
        if inner is not None:
            self._link(frame.module, inner)
            frame.bind(name, Thing(definition=inner))
            return
        frame.bind(name, NOTHING if module is not None else Thing(ref=canonical(dotted)))

    def _bring_all(self, frame: Frame, base: str) -> None:
        for name in _STAR.get(base, ()):
            frame.bind(name, Thing(ref=canonical(f"{base}.{name}")))

    # Definitions

    def define(self, frame: Frame, node: FunctionNode) -> Function:
        """A function from its definition."""
        from gpudoctor.vitals.source.expressions import evaluate

        short = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        name = f"{frame.name}.{short}" if frame.name else short
        function = Function(node=node, module=frame.module, name=name, outer=frame, klass=frame.klass)
        args = node.args
        plain = args.posonlyargs + args.args
        for arg, default in zip(plain[len(plain) - len(args.defaults) :], args.defaults, strict=True):
            function.defaults[arg.arg] = evaluate(self, frame, default)
        for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            if kw_default is not None:
                function.defaults[arg.arg] = evaluate(self, frame, kw_default)
        if not isinstance(node, ast.Lambda):
            for decorator in node.decorator_list:
                self._decorate(frame, function, decorator)
        frame.module.functions.append(function)
        return function

    def _decorate(self, frame: Frame, function: Function, decorator: ast.expr) -> None:
        from gpudoctor.vitals.source.expressions import evaluate

        quiet, frame.quiet = frame.quiet, frame.quiet + 1
        thing = evaluate(self, frame, decorator)
        frame.quiet = quiet
        name = guards.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if isinstance(decorator, ast.Call):
            thing = self.peek(frame, decorator.func)
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
        else:
            configuration.decorate(self, frame, function, decorator, ref)

    def define_class(self, frame: Frame, node: ast.ClassDef) -> Klass:
        """A class from its definition, without its body."""
        from gpudoctor.vitals.source.expressions import evaluate

        name = f"{frame.name}.{node.name}" if frame.name else node.name
        bases = tuple(evaluate(self, frame, base) for base in node.bases)
        for keyword in node.keywords:
            evaluate(self, frame, keyword.value)
        klass = Klass(node=node, module=frame.module, name=name, bases=bases)
        for decorator in node.decorator_list:
            evaluate(self, frame, decorator)
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            ref = self.peek(frame, target).ref or guards.dotted(target)
            klass.data = klass.data or ref in _DATA or ref.endswith(".dataclass")
        klass.data = klass.data or any(b.ref in _DATA_BASES for b in bases)
        klass.data = klass.data or any(isinstance(b.definition, Klass) and b.definition.data for b in bases)
        klass.kind = _kind_of_class(bases)
        klass.data = klass.data or (klass.kind or "").endswith(("TrainingArguments", "SFTConfig", "DPOConfig"))
        frame.module.klasses.append(klass)
        return klass

    def finish_class(self, inner: Frame, klass: Klass) -> None:
        """Take the fields of a dataclass from its body."""
        if not klass.data:
            return
        for statement in klass.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                thing = self.annotation(inner, statement.annotation)
                if statement.value is not None:
                    thing = configuration.field_default(self, inner, statement.value)
                elif not thing.klass:
                    thing = thing.but(option=True)
                if thing.known:
                    thing = thing.but(origin="field default")
                klass.fields[name] = thing.but(option=True)
                klass.members.pop(name, None)

    def construct(
        self, frame: Frame, klass: Klass, args: list[Thing], keywords: dict[str, Thing], node: ast.Call
    ) -> Thing:
        """An instance of one of the program's own classes."""
        own = klass.method("__init__") or klass.method("setup")
        kind = kind_of(klass.kind)
        made = Thing(type=klass.kind, klass=klass, device="cpu" if kind == MODULE else None, made=node)
        if klass.data and klass.method("__init__") is None:
            fields = klass.all_fields()
            values = dict(fields)
            for name, thing in zip(fields, args, strict=False):
                values[name] = thing
            values.update(keywords)
            made = made.but(attrs=values, option=True)
            post = klass.method("__post_init__")
            if post is not None:
                self.invoke(frame, post, [made], {})
            return made
        if own is not None:
            self.invoke(frame, own, [made, *args], keywords)
        if kind == DATASET or kind == "torch.utils.data.DataLoader":
            made = made.but(elem=Thing(type=BATCH, device="cpu"))
        return made

    # Functions

    def invoke(
        self,
        frame: Frame,
        function: Function,
        args: Sequence[Thing],
        keywords: Mapping[str, Thing],
        open_ended: bool = False,
        outside: bool = False,
    ) -> Thing:
        """What a call of the function gives; its body is interpreted anew while call sites bring new facts."""
        if not outside:
            function.called = True
        bound = self._bind(function, args, keywords, open_ended, outside)
        changed = False
        for name, thing in bound.items():
            old = function.params.get(name)
            new = thing if old is None else join(old, thing)
            if old is None or not same(old, new):
                function.params[name] = new if function.runs < _RUNS - 1 else new.vague()
                changed = True
        fresh = function.runs == 0 or (changed and function.runs < _RUNS)
        if fresh and not function.running and self.calling < _CALL_DEPTH:
            self._run(function)
        return function.returned or NOTHING

    def _bind(
        self,
        function: Function,
        args: Sequence[Thing],
        keywords: Mapping[str, Thing],
        open_ended: bool,
        outside: bool,
    ) -> dict[str, Thing]:
        spec = function.node.args
        names = [arg.arg for arg in spec.posonlyargs + spec.args]
        bound: dict[str, Thing] = dict(zip(names, args, strict=False))
        if spec.vararg is not None:
            bound[spec.vararg.arg] = Thing(items=tuple(args[len(names) :]))
        extra: dict[str, Thing] = {}
        every = set(names) | {arg.arg for arg in spec.kwonlyargs}
        for name, thing in keywords.items():
            if name in every:
                bound[name] = thing
            else:
                extra[name] = thing
        if spec.kwarg is not None:
            bound[spec.kwarg.arg] = Thing(type="dict", keys=extra, open=open_ended or outside)
        for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
            if arg.arg not in bound:
                bound[arg.arg] = self._unpassed(function, arg, open_ended)
            elif arg.annotation is not None:
                bound[arg.arg] = self._annotated(function, arg, bound[arg.arg])
        return bound

    def _unpassed(self, function: Function, arg: ast.arg, open_ended: bool) -> Thing:
        if arg.arg in function.options:
            return function.options[arg.arg]
        default = function.defaults.get(arg.arg, NOTHING)
        if default.known:
            default = default.but(origin=f"default of {arg.arg}")
        thing = default.vague() if open_ended else default
        return self._annotated(function, arg, thing)

    def _annotated(self, function: Function, arg: ast.arg, thing: Thing) -> Thing:
        if arg.annotation is None or thing.type or thing.klass or thing.definition or thing.items is not None:
            return thing
        found = self.annotation(function.outer, arg.annotation)
        if not (found.type or found.klass) or found.type in ("number", "str"):
            return thing
        return found.but(option=thing.option) if thing.value in (None, NOTHING.value) else thing

    def _run(self, function: Function) -> None:
        from gpudoctor.vitals.source.expressions import evaluate

        frame = Frame(function.module, function, function.outer, function.name)
        frame.no_grad = 1 if function.no_grad else 0
        function.runs += 1
        function.running = True
        self.calling += 1
        guessing = function.module.torch
        for name, thing in function.params.items():
            kind = guess(name) if guessing and thing is NOTHING else None
            frame.bind(name, Thing(type=kind, guessed=True) if kind else thing)
        depth, self.depth = self.depth, 0
        try:
            if isinstance(function.node, ast.Lambda):
                frame.give(evaluate(self, frame, function.node.body))
            else:
                self._guarded(frame, function.node.body)
        except RecursionError:
            frame.trails.clear()
        finally:
            self.depth = depth
            self.calling -= 1
            function.running = False
        function.returned = _outcome(function, frame)
        function.record = frame.record

    def run_targets(self, frame: Frame, name: str, args: list[Thing], keywords: dict[str, Thing]) -> None:
        """Functions that a library call starts in other processes: `mp.spawn(worker, args=(...))`."""
        if name.endswith(
            ("multiprocessing.spawn", ".Process", "xla_multiprocessing.spawn", ".start_processes")
        ):
            target = keywords.get("target") or keywords.get("fn") or (args[0] if args else NOTHING)
            given = keywords.get("args") or (args[1] if len(args) > 1 else NOTHING)
            if isinstance(target.definition, Function):
                first = [] if name.endswith(".Process") else [Thing(type="rank", option=True)]
                self.invoke(frame, target.definition, [*first, *(given.items or ())], {}, given.items is None)
        elif name.endswith(("notebook_launcher", "debug_launcher")):
            target, given = (
                args[0] if args else NOTHING,
                keywords.get("args") or (args[1] if len(args) > 1 else NOTHING),
            )
            if isinstance(target.definition, Function):
                self.invoke(frame, target.definition, list(given.items or ()), {}, given.items is None)
        else:
            configuration.run_targets(self, frame, name, args)

    # Small questions

    def peek(self, frame: Frame, node: ast.expr) -> Thing:
        """What an expression gives, without recording anything."""
        from gpudoctor.vitals.source.expressions import evaluate

        frame.quiet += 1
        thing = evaluate(self, frame, node)
        frame.quiet -= 1
        return thing

    def arithmetic(self, op: ast.operator, left: Thing, right: Thing) -> Thing:
        """The result of an operator."""
        from gpudoctor.vitals.source.expressions import arithmetic

        return arithmetic(op, left, right)

    def entered(self, thing: Thing) -> Thing:
        """What `with thing as name` binds."""
        if thing.elem is not None and thing.type is None:
            return thing.elem  # a generator function under contextlib.contextmanager
        return thing

    def grad_mode(self, frame: Frame, node: ast.expr, thing: Thing) -> int:
        """Depth of no_grad inside `with node:`."""
        target = self.peek(frame, node.func) if isinstance(node, ast.Call) else thing
        name = target.ref or ""
        if name in ("torch.no_grad", "torch.inference_mode"):
            argument = node.args[0] if isinstance(node, ast.Call) and node.args else None
            off = isinstance(argument, ast.Constant) and argument.value is False
            return frame.no_grad if off else frame.no_grad + 1
        if name == "torch.enable_grad":
            return 0
        if name == "torch.set_grad_enabled" and isinstance(node, ast.Call) and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant):
                return 0 if argument.value else frame.no_grad + 1
        return frame.no_grad

    def type_name(self, thing: Thing) -> str | None:
        """A thing's type in the words of `Script.types`."""
        if thing.type is not None:
            return thing.type if thing.type not in _INTERNAL else None
        return thing.klass.name if thing.klass is not None else None

    def annotation(self, frame: Frame, node: ast.expr) -> Thing:
        """An instance of the class that an annotation names."""
        cached = self._annotations.get(id(node))
        if cached is None:
            cached = self._annotations[id(node)] = self._read_annotation(frame, node, 0)
        return cached

    def _read_annotation(self, frame: Frame, node: ast.expr, depth: int) -> Thing:
        if depth > 8:
            return NOTHING
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value[:500], mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return NOTHING
        if isinstance(node, ast.BinOp):
            left = self._read_annotation(frame, node.left, depth + 1)
            return left if left is not NOTHING else self._read_annotation(frame, node.right, depth + 1)
        if isinstance(node, ast.Subscript):
            outer = guards.last_name(node.value)
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if outer in ("Optional", "Union", "Annotated", "Final", "ClassVar"):
                return next(
                    (t for p in parts if (t := self._read_annotation(frame, p, depth + 1)) is not NOTHING),
                    NOTHING,
                )
            if outer in ("list", "List", "Iterable", "Sequence", "Iterator", "Generator"):
                return Thing(elem=self._read_annotation(frame, parts[0], depth + 1))
            if outer in ("tuple", "Tuple"):
                return Thing(items=tuple(self._read_annotation(frame, p, depth + 1) for p in parts))
            return self._read_annotation(frame, node.value, depth + 1)
        if not isinstance(node, ast.Name | ast.Attribute):
            return NOTHING
        return self._instance(self.peek(frame, node), guards.last_name(node))

    def _instance(self, thing: Thing, name: str) -> Thing:
        if isinstance(thing.definition, Klass):
            klass = thing.definition
            attrs = klass.all_fields() if klass.data else None
            return Thing(type=klass.kind, klass=klass, attrs=attrs, option=klass.data)
        if thing.ref is not None:
            if thing.ref == TENSOR:
                return tensor()
            if name[:1].isupper():
                return Thing(type=thing.ref, option="Namespace" in name or "Config" in name)
        return {"int": NUMBER, "float": NUMBER, "str": TEXT}.get(name, NOTHING)


_INTERNAL = frozenset((BATCH, "number", "bool", "rank", "torch.device.type", "tuple", "list", "dict", "str"))


def _outcome(function: Function, frame: Frame) -> Thing:
    if frame.yielded is not None:
        return Thing(elem=frame.yielded)
    return frame.returned or Thing(value=None) if frame.returned is not None else NOTHING


def _kind_of_class(bases: Sequence[Thing]) -> str | None:
    found: str | None = None
    for base in bases:
        kind = None
        if base.ref is not None:
            kind = base.ref
            if kind_of(kind) == MODULE and kind.startswith("torch.nn."):
                kind = MODULE
        elif isinstance(base.definition, Klass):
            kind = base.definition.kind
        if kind is not None and kind not in ("object", "abc.ABC", "typing.Generic", "typing.Protocol"):
            if kind_of(kind) == MODULE and found is None:
                return kind
            found = found or kind
    return found


def _imports_torch(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.Import) and any(a.name.partition(".")[0] in _TORCH for a in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _TORCH:
            return True
    return False


_STAR = {
    "torch": ("nn", "optim", "cuda", "Tensor", "tensor", "no_grad", "save", "load", "device"),
    "torch.nn": ("Module", "Linear", "Conv2d", "CrossEntropyLoss", "MSELoss", "Sequential", "DataParallel"),
    "torch.optim": ("SGD", "Adam", "AdamW", "RMSprop", "lr_scheduler"),
    "torch.utils.data": (
        "DataLoader",
        "Dataset",
        "random_split",
        "TensorDataset",
        "Subset",
        "DistributedSampler",
    ),
    "torch.profiler": ("profile", "record_function", "ProfilerActivity", "schedule"),
    "transformers": ("Trainer", "TrainingArguments", "AutoTokenizer", "AutoModelForCausalLM"),
}
