"""The state of interpreting one scope: names, open guards and loops, and the record that grows."""

import ast
from collections.abc import Iterable

from gpudoctor.model.signs.source import Call
from gpudoctor.vitals.source.joins import join
from gpudoctor.vitals.source.values import (
    AbstractValue,
    ClassSymbol,
    Function,
    FunctionRecord,
    Item,
    LoopRecord,
    Mark,
    Meanings,
    Module,
)


class ScopeState:
    """One scope under interpretation: a module's body or one run of a function's."""

    def __init__(self, module: Module, function: Function | None, outer: "ScopeState | None", name: str) -> None:
        self.module = module
        self.function = function
        self.outer = outer
        self.name = name
        self.names: dict[str, AbstractValue] = {}
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.trails: list[dict[str, AbstractValue | None]] = []
        self.record = FunctionRecord(module=module, name=name)
        if outer is not None:
            self.record.past.outer = outer.record.past
        self.marks: list[Mark] = []
        self.loops: list[LoopRecord] = []
        self.no_grad = 0
        self.evaluating = False
        self.returned: AbstractValue | None = None
        self.yielded: AbstractValue | None = None
        self.klass: ClassSymbol | None = None
        self.told: dict[int, Meanings] = {}
        """What parts of conditions mean by what they guard, by the ids of their nodes."""
        self.tested: set[int] = set()
        """Ids of the `and` and `or` nodes of conditions: each of their operands is tested for its truth."""
        self.quiet = 0
        """Above zero inside code that does not run here (a lambda's body): calls are resolved, not recorded."""

    def look(self, name: str) -> AbstractValue | None:
        """What a name holds here."""
        frame: ScopeState | None = self
        while frame is not None:
            found = frame.names.get(name)
            if found is not None and (frame is self or frame.klass is None):
                return found
            frame = frame.outer
        return None

    def bind(self, name: str, thing: AbstractValue) -> None:
        """The name holds the thing from now on."""
        if name in self.globals or name in self.nonlocals:
            home = self._home(name)
            if home is not self:
                old = home.names.get(name)
                thing = thing if old is None else join(old, thing)
                home.bind(name, thing)
                return
        if self.trails:
            self.trails[-1].setdefault(name, self.names.get(name))
        self.names[name] = thing
        self.record.past.note(name, thing)

    def _home(self, name: str) -> "ScopeState":
        frame = self
        while frame.outer is not None:
            frame = frame.outer
            if name in self.nonlocals and name in frame.names and frame.outer is not None:
                return frame
        return frame

    def home_of(self, name: str) -> "ScopeState | None":
        """The scope in which a name is bound."""
        frame: ScopeState | None = self
        while frame is not None and name not in frame.names:
            frame = frame.outer
        return frame

    def start_branch(self) -> None:
        """What is bound from here on may not happen."""
        self.trails.append({})

    def end_branch(self) -> dict[str, AbstractValue]:
        """Take back what was bound since `start_branch` and return it."""
        trail = self.trails.pop()
        bound = {}
        for name, old in trail.items():
            bound[name] = self.names[name]
            if old is None:
                del self.names[name]
            else:
                self.names[name] = old
        return bound

    def merge(self, branches: "Iterable[dict[str, AbstractValue] | None]") -> None:
        """Go on with what is true after whichever branch ran; None for one that does not come here."""
        alive = [branch for branch in branches if branch is not None]
        for name in dict.fromkeys(name for branch in alive for name in branch):
            outcomes = [branch.get(name) or self.names.get(name) for branch in alive]
            known = [thing for thing in outcomes if thing is not None]
            merged = known[0]
            for thing in known[1:]:
                merged = join(merged, thing)
            self.bind(name, merged)

    def test(self, node: ast.expr) -> None:
        """What follows evaluates a condition."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.test(node.operand)
        elif isinstance(node, ast.BoolOp):
            self.tested.add(id(node))
            for operand in node.values:
                self.test(operand)

    def open_guards(self, meanings: Meanings, text: str, line: int) -> None:
        """Statements from here on run only when the condition holds."""
        for meaning in meanings:
            depth: int | None = None
            if meaning.subject and self.loops:
                depth = -1
                for index in range(len(self.loops) - 1, -1, -1):
                    if meaning.subject & self.loops[index].stores:
                        depth = index
                        break
                else:
                    if any("." in name and "epoch" not in name for name in meaning.subject):
                        depth = None
            self.marks.append(Mark(guard=meaning.guard(text, line), depth=depth))

    def add(
        self,
        node: ast.AST,
        call: Call | None = None,
        effect: int = 0,
        callee: Function | None = None,
        graph: bool = False,
    ) -> None:
        """Record that this scope executes a node here."""
        if self.quiet:
            return
        self.record.items.append(
            Item(
                node=node,
                call=call,
                guards=tuple(self.marks),
                loops=tuple(self.loops),
                no_grad=self.no_grad > 0,
                evaluating=self.evaluating,
                time=self.record.past.clock,
                effect=effect,
                callee=callee,
                graph=graph,
            )
        )

    def give(self, thing: AbstractValue) -> None:
        """The scope returns the thing, here or elsewhere."""
        self.returned = thing if self.returned is None else join(self.returned, thing)


def stores(node: ast.AST) -> frozenset[str]:
    """Names that a loop's head and body bind, attributes as `self.step`."""
    found: set[str] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        part = waiting.pop()
        match part:
            case ast.Assign(targets=targets):
                for target in targets:
                    _targets(target, found)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                _targets(target, found)
            case ast.For() | ast.AsyncFor():
                _targets(part.target, found)
                waiting += part.body + part.orelse
            case ast.While():
                for inner in ast.walk(part.test):
                    if isinstance(inner, ast.NamedExpr):
                        _targets(inner.target, found)
                waiting += part.body + part.orelse
            case ast.If():
                if isinstance(part.test, ast.NamedExpr):
                    _targets(part.test.target, found)
                waiting += part.body + part.orelse
            case ast.With() | ast.AsyncWith():
                for item in part.items:
                    if item.optional_vars is not None:
                        _targets(item.optional_vars, found)
                waiting += part.body
            case ast.Try():
                waiting += part.body + part.orelse + part.finalbody
                for handler in part.handlers:
                    waiting += handler.body
            case ast.Match():
                for choice in part.cases:
                    waiting += choice.body
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr))):
                if attr in ("update", "append", "extend", "setdefault", "pop"):
                    found.add(name)
    return frozenset(found)


def _targets(target: ast.AST, found: set[str]) -> None:
    waiting = [target]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Tuple | ast.List):
            waiting += part.elts
        elif isinstance(part, ast.Starred):
            waiting.append(part.value)
        elif isinstance(part, ast.Attribute):
            names = []
            node: ast.AST = part
            while isinstance(node, ast.Attribute):
                names.append(node.attr)
                node = node.value
            if isinstance(node, ast.Name):
                found.add(".".join([node.id, *reversed(names)]))
                if node.id != "self":
                    found.add(node.id)
        elif isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
            found.add(part.value.id)
