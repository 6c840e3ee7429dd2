"""The program under interpretation: its modules, classes and functions, and how they call each other."""

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpudoctor.lang import say
from gpudoctor.vitals.source.importing import Importer
from gpudoctor.vitals.source.joins import join
from gpudoctor.vitals.source.qualified_names import guess
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.values import BATCH, NOTHING, AbstractValue, Function, Module, same

_RUNS = 4
_CALL_DEPTH = 40
_TORCH = ("torch", "lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed", "monai", "timm")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What Python's syntax means. The modules of its parts import this one, and call each other through it."""

    execute: Callable[["SourceInterpreter", ScopeState, Sequence[ast.stmt]], object]
    """Interprets statements in order."""
    evaluate: Callable[["SourceInterpreter", ScopeState, ast.expr], AbstractValue]
    """Gives what an expression gives; records its calls and tests in order of evaluation."""
    annotation: Callable[["SourceInterpreter", ScopeState, ast.expr], AbstractValue]
    """Gives an instance of the class that an annotation names."""


class SourceInterpreter:
    """Every module read, and the interpretation of their code."""

    def __init__(self, importer: Importer, meaning: Meaning) -> None:
        self.importer = importer
        self._meaning = meaning
        self._outer: dict[Function, ScopeState] = {}
        self.depth = 0
        self.deepest = 220
        self.calling = 0
        self.builtins = frozenset(dir(builtins))
        self._annotations: dict[int, AbstractValue] = {}

    # Modules

    def run_module(self, module: Module) -> None:
        """Interpret a module's body, once."""
        if module.started:
            return
        module.started = True
        frame = ScopeState(module, None, None, "")
        module.names, module.record = frame.names, frame.record
        module.torch = _imports_torch(module.tree)
        self._guarded(frame, module.tree.body)

    def _guarded(self, frame: ScopeState, body: Sequence[ast.stmt]) -> None:
        depth, self.depth = self.depth, 0
        try:
            self._meaning.execute(self, frame, body)
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
            owner = AbstractValue(type=function.klass.kind, klass=function.klass)
            if function.bound_class:
                owner = AbstractValue(definition=function.klass)
        self.invoke(function, [owner] if owner else [], {}, outside=True)

    def member_of(self, module: Module, name: str) -> AbstractValue:
        """A name of one of the program's own modules, a submodule included."""
        found = module.names.get(name) if module.names is not None else None
        if found is not None:
            return found
        inner = self.importer.load(f"{module.name}.{name}", module)
        if inner is not None:
            self.run_module(inner)
            return AbstractValue(definition=inner)
        return NOTHING

    # Functions

    def invoke(
        self,
        function: Function,
        args: Sequence[AbstractValue],
        keywords: Mapping[str, AbstractValue],
        open_ended: bool = False,
        outside: bool = False,
    ) -> AbstractValue:
        """What a call of the function gives; its body is interpreted anew while call sites bring new facts."""
        if not outside:
            function.called = True
        bound = self._bind(function, args, keywords, open_ended, outside)
        changed = False
        for name, thing in bound.items():
            old = function.params.get(name)
            new = thing if old is None else join(old, thing)
            if old is not None and (old.value is None) != (thing.value is None):
                new = new.replace(optional=True)
            if old is None or not same(old, new):
                function.params[name] = new if function.runs < _RUNS - 1 else new.widened()
                changed = True
        fresh = function.runs == 0 or (changed and function.runs < _RUNS)
        if fresh and not function.running and self.calling < _CALL_DEPTH:
            self._run(function)
        return function.returned or NOTHING

    def _bind(
        self,
        function: Function,
        args: Sequence[AbstractValue],
        keywords: Mapping[str, AbstractValue],
        open_ended: bool,
        outside: bool,
    ) -> dict[str, AbstractValue]:
        spec = function.node.args
        names = [arg.arg for arg in spec.posonlyargs + spec.args]
        bound: dict[str, AbstractValue] = dict(zip(names, args, strict=False))
        if spec.vararg is not None:
            bound[spec.vararg.arg] = AbstractValue(items=tuple(args[len(names) :]))
        extra: dict[str, AbstractValue] = {}
        every = set(names) | {arg.arg for arg in spec.kwonlyargs}
        for name, thing in keywords.items():
            if name in every:
                bound[name] = thing
            else:
                extra[name] = thing
        if spec.kwarg is not None:
            bound[spec.kwarg.arg] = AbstractValue(type="dict", keys=extra, open=open_ended or outside)
        for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
            if arg.arg not in bound:
                bound[arg.arg] = self._unpassed(function, arg, open_ended, outside)
            elif arg.annotation is not None:
                bound[arg.arg] = self._annotated(function, arg, bound[arg.arg])
        return bound

    def _unpassed(self, function: Function, arg: ast.arg, open_ended: bool, outside: bool) -> AbstractValue:
        if arg.arg in function.options:
            return function.options[arg.arg]
        default = function.defaults.get(arg.arg, NOTHING)
        if default.known:
            default = default.replace(origin=say("default of {argument}", argument=arg.arg))
        # Whoever calls it from outside, a config's library among them, may pass another value.
        thing = default.widened() if open_ended or outside else default
        return self._annotated(function, arg, thing)

    def _annotated(self, function: Function, arg: ast.arg, thing: AbstractValue) -> AbstractValue:
        if arg.annotation is None or thing.type or thing.klass or thing.definition or thing.items is not None:
            return thing
        found = self.annotation(self._outer[function], arg.annotation)
        if not (found.type or found.klass) or found.type in ("number", "str"):
            return thing
        return found.replace(option=thing.option) if thing.value in (None, NOTHING.value) else thing

    def _run(self, function: Function) -> None:
        frame = ScopeState(function.module, function, self._outer[function], function.name)
        frame.no_grad = 1 if function.no_grad else 0
        function.runs += 1
        function.running = True
        self.calling += 1
        guessing = function.module.torch
        for name, thing in function.params.items():
            kind = guess(name) if guessing and thing is NOTHING else None
            frame.bind(name, AbstractValue(type=kind, guessed=True) if kind else thing)
        depth, self.depth = self.depth, 0
        try:
            if isinstance(function.node, ast.Lambda):
                frame.give(self.evaluate(frame, function.node.body))
            else:
                self._guarded(frame, function.node.body)
        except RecursionError:
            frame.trails.clear()
        finally:
            self.depth = depth
            self.calling -= 1
            function.running = False
        function.returned = _outcome(frame)
        function.record = frame.record

    # Small questions

    def defined_in(self, function: Function, frame: ScopeState) -> None:
        """Remember the scope that defines a function."""
        self._outer[function] = frame

    def evaluate(self, frame: ScopeState, node: ast.expr) -> AbstractValue:
        """What an expression gives; its calls and tests are recorded in order of evaluation."""
        return self._meaning.evaluate(self, frame, node)

    def peek(self, frame: ScopeState, node: ast.expr) -> AbstractValue:
        """What an expression gives, without recording anything."""
        frame.quiet += 1
        thing = self.evaluate(frame, node)
        frame.quiet -= 1
        return thing

    def arithmetic(self, op: ast.operator, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """The result of an operator."""
        from gpudoctor.vitals.source.operators import arithmetic

        return arithmetic(op, left, right)

    def entered(self, thing: AbstractValue) -> AbstractValue:
        """What `with thing as name` binds."""
        if thing.elem is not None and thing.type is None:
            return thing.elem  # a generator function under contextlib.contextmanager
        return thing

    def grad_mode(self, frame: ScopeState, node: ast.expr, thing: AbstractValue) -> int:
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

    def type_name(self, thing: AbstractValue) -> str | None:
        """A thing's type in the words of `Script.types`."""
        if thing.type is not None:
            return thing.type if thing.type not in _INTERNAL else None
        return thing.klass.name if thing.klass is not None else None

    def annotation(self, frame: ScopeState, node: ast.expr) -> AbstractValue:
        """An instance of the class that an annotation names."""
        cached = self._annotations.get(id(node))
        if cached is None:
            cached = self._annotations[id(node)] = self._meaning.annotation(self, frame, node)
        return cached


_INTERNAL = frozenset((BATCH, "number", "bool", "rank", "torch.device.type", "tuple", "list", "dict", "str"))


def _outcome(frame: ScopeState) -> AbstractValue:
    if frame.yielded is not None:
        return AbstractValue(elem=frame.yielded)
    return frame.returned or AbstractValue(value=None) if frame.returned is not None else NOTHING


def _imports_torch(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.Import) and any(a.name.partition(".")[0] in _TORCH for a in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _TORCH:
            return True
    return False
